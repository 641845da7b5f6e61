//! Inodes that the kernel goes on with, although another client took their names away.

use super::*;
use crate::config::limits::FILE_TTL;

const ROOT: InodeNo = InodeNo::ROOT;

#[test]
fn a_directory_that_others_have_emptied_and_filled_is_the_same() {
    let mount = writable(&["d/s/x", "other"]);
    let d = mount.walk("d");
    let s = mount.lookup(d, "s").unwrap().attributes.ino;
    mount.bucket.remove("d/s/x");
    mount.clock.advance(FILE_TTL);
    for _ in 0..2 {
        let gone = now(mount.fs.attributes(s));
        assert!(matches!(gone, Err(FsError::NotFound)), "{gone:?}");
        assert!(now(mount.fs.attributes(d)).is_err());
    }
    mount.bucket.put_object("d/s/y", "y");
    assert_eq!(now(mount.fs.attributes(s)).unwrap().ino, s);
    assert_eq!(mount.names(s), ["y"]);
    // By its path as well.
    assert_eq!((mount.walk("d"), mount.walk("d/s")), (d, s));
    mount.lookup(s, "y").unwrap();
    now(mount.fs.unlink(s, OsStr::new("y"))).unwrap();
    assert_eq!(mount.bucket.keys(), ["other"]);
}

#[test]
fn a_file_that_others_have_replaced_is_found_again_when_it_is_closed() {
    let mount = writable(&["f"]);
    let f = mount.walk("f");
    let read = |ino| {
        let opened = now(mount.fs.open(ino, READ))?;
        let data = now(mount.fs.read(opened.handle, 0, 100, true))?;
        mount.fs.release(opened.handle);
        Ok::<_, FsError>((data.to_vec(), opened.keep_cache))
    };
    assert_eq!(read(f).unwrap().0, b"content of f");
    let stat = || now(mount.fs.attributes(f));
    mount.bucket.put_object("f", "new");
    mount.clock.advance(FILE_TTL);
    // Linux repeats the open by the name or, where the file is mounted, by the inode.
    for _ in 0..2 {
        assert!(matches!(read(f), Err(FsError::Stale(_))));
    }
    assert!(!mount.fs.was_found_again(f));
    // It knows the new size before it opens the new version.
    assert_eq!(stat().unwrap().size, 3);
    assert_eq!(read(f).unwrap(), (b"new".to_vec(), false));
    assert!(
        mount.fs.was_found_again(f),
        "a late answer may have the old size"
    );
    assert_eq!(mount.walk("f"), f);
    mount.bucket.put_object("f", "newest");
    mount.clock.advance(FILE_TTL);
    assert_ne!(mount.walk("f"), f, "who looks first has another inode");
    assert!(matches!(stat(), Err(FsError::Stale(_))));
    let opened = now(mount.fs.open(mount.walk("f"), READ)).unwrap();
    mount.bucket.remove("f");
    mount.clock.advance(FILE_TTL);
    assert!(stat().is_err());
    mount.fs.release(opened.handle);
}

#[test]
fn what_this_mount_has_removed_does_not_come_back() {
    let mount = writable(&["d/x", "e/f"]);
    let (d, e) = (mount.walk("d"), mount.walk("e"));
    let x = mount.lookup(d, "x").unwrap().attributes.ino;
    now(mount.fs.unlink(d, OsStr::new("x"))).unwrap();
    mount.bucket.put_object("d/x", "another");
    assert!(matches!(
        now(mount.fs.attributes(x)),
        Err(FsError::Stale(_))
    ));
    assert!(matches!(
        now(mount.fs.open(x, READ)),
        Err(FsError::Stale(_))
    ));
    let f = mount.lookup(e, "f").unwrap().attributes.ino;
    now(mount.fs.unlink(e, OsStr::new("f"))).unwrap();
    now(mount.fs.remove_directory(ROOT, OsStr::new("e"))).unwrap();
    let again = mkdir(&mount, ROOT, "e").unwrap();
    assert_ne!(again, e);
    assert!(now(mount.fs.attributes(e)).is_err() && now(mount.fs.attributes(f)).is_err());
}
