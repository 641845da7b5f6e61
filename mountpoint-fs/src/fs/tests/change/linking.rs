//! Hard links: copies on the server, of which exactly one has a name.

use super::*;
use crate::config::limits::FILE_TTL;
use crate::operation::WriteOptions;

const ROOT: InodeNo = InodeNo::ROOT;
const ME: Opener = Opener {
    process: 7,
    started: 1,
};

async fn link_by(mount: &Mount, ino: InodeNo, name: &str) -> Result<Entry, FsError> {
    let (to, stop) = ((ROOT, OsStr::new(name)), Stop::never());
    let linked = mount.fs.link(ino, to, &stop).await;
    linked.map(|(entry, _)| entry)
}

fn link(mount: &Mount, ino: InodeNo, name: &str) -> Result<Entry, FsError> {
    now(link_by(mount, ino, name))
}

#[test]
fn a_link_is_a_file_of_its_own() {
    let mount = writable(&["d/a"]);
    let a = mount.walk("d/a");
    mount.requests();
    let made = link(&mount, a, "b").unwrap().attributes;
    // Both names are asked for.
    assert_eq!(mount.requests(), (2, 0, 1));
    assert_ne!(made.ino, a);
    assert_eq!((made.kind, made.size), (FileKind::File, 14));
    assert_eq!(content(&mount, "b").unwrap(), "content of d/a");
    assert_eq!(mount.lookup(ROOT, "b").unwrap().attributes.ino, made.ino);
    assert_eq!(mount.names(ROOT), ["b", "d/"]);
    now(mount.fs.unlink(mount.walk("d"), OsStr::new("a"))).unwrap();
    assert_eq!(content(&mount, "b").unwrap(), "content of d/a");
    // The removed file can no longer be linked.
    let gone = link(&mount, a, "c");
    assert!(matches!(gone, Err(FsError::Stale(_))), "{gone:?}");
}

/// git compares the numbers, and links what it has linked a moment ago.
#[test]
fn a_link_shows_the_number_that_its_file_shows() {
    let mount = writable(&["a"]);
    let a = mount.walk("a");
    let shown = |file: InodeNo, name: &str| {
        let (to, stop) = ((ROOT, OsStr::new(name)), Stop::never());
        let linked = now(mount.fs.link(file, to, &stop));
        let (entry, shown) = linked.unwrap();
        assert!(entry.attributes.ttl <= FILE_TTL);
        (entry.attributes.ino, shown)
    };
    let (b, shown_of_b) = shown(a, "b");
    assert_eq!(shown_of_b, a);
    assert_eq!(shown(b, "c").1, a);
    // A listing without attributes tells the kernel of no number.
    mount.names(ROOT);
    assert_eq!(shown(b, "e").1, a);
    // The kernel gets the number of its own.
    now(mount.fs.attributes(b)).unwrap();
    assert_eq!(shown(b, "d").1, b);
}

#[test]
fn a_link_replaces_nothing() {
    let mount = writable(&["a", "b", "d/x"]);
    let a = mount.walk("a");
    mount.bucket.put_object("theirs", "of another host");
    for name in ["a", "b", "d", "theirs"] {
        let refused = link(&mount, a, name);
        // A directory without a look-up before is hidden by no file.
        let is_hidden = name == "d" && refused.is_ok();
        let is_told = matches!(refused, Err(FsError::Exists));
        assert!(is_told || is_hidden, "{name}: {refused:?}");
    }
    assert_eq!(content(&mount, "b").unwrap(), "content of b");
    assert_eq!(content(&mount, "theirs").unwrap(), "of another host");
    let plain = Mount::immediate(&["a"]);
    let refused = link(&plain, plain.walk("a"), "b").unwrap_err();
    assert!(
        matches!(&refused, FsError::NotPermitted(text) if text.contains("--allow-rename")),
        "{refused:?}"
    );
    assert_eq!(plain.bucket.keys(), ["a"]);
}

/// Delta Lake and Lance link the file that they have written and not closed, remove its first name
/// and close it.
#[test]
fn a_file_is_linked_before_its_close() {
    let mount = writable(&[]);
    let (name, options) = (OsStr::new("staged"), WriteOptions::default());
    let (entry, opened) = mount.fs.create(ROOT, name, options, ME).unwrap();
    write(&mount, opened.handle, 0, b"version 1");
    now(link_by(&mount, entry.attributes.ino, "new")).unwrap();
    assert_eq!(content(&mount, "new").unwrap(), "version 1");
    now(mount.fs.unlink(ROOT, name)).unwrap();
    now(mount.fs.flush(opened.handle, &OPENER)).unwrap();
    mount.fs.release(opened.handle);
    assert_eq!(mount.bucket.keys(), ["new"]);
    assert_eq!(mount.names(ROOT), ["new"]);
}

#[test]
fn of_two_hosts_that_link_to_one_name_one_is_told() {
    for first in [0, 1] {
        let one = manual(&["a", "b"], all_changes());
        let other = one.beside(all_changes());
        let mounts = [&one, &other];
        let inodes = [walk(&one, "a"), walk(&other, "b")];
        let mut running = [0, 1].map(|host| {
            let linked = link_by(mounts[host], inodes[host], "name");
            Some(Box::pin(linked))
        });
        // Both have asked whether the name is free, and are told so.
        for linking in running.iter_mut().flatten() {
            waits(linking);
        }
        one.bucket.deliver_all();
        for host in [first, 1 - first] {
            waits(running[host].as_mut().unwrap());
        }
        one.bucket.deliver_all();
        let linked = running.map(|linking| drive(&one, linking.unwrap()).is_ok());
        assert_eq!(linked, [first == 0, first == 1]);
        let expected = ["content of a", "content of b"][first];
        assert_eq!(content(&one, "name").unwrap(), expected);
    }
}

#[test]
fn what_an_object_carries_is_linked_as_well() {
    let write = WriteConfig {
        posix_metadata: true,
        ..all_changes()
    };
    let mount = Mount::with_write(SimOptions::default(), "", &[], write);
    let options = WriteOptions {
        mode: Some(0o640),
        ..WriteOptions::default()
    };
    let name = OsStr::new("a");
    let (entry, opened) = mount.fs.create(ROOT, name, options, ME).unwrap();
    write_and_close(&mount, opened.handle);
    let made = link(&mount, entry.attributes.ino, "b").unwrap().attributes;
    assert_eq!(made.mode, 0o640);
    let symbolic = now(mount.fs.symbolic_link(ROOT, OsStr::new("l"), name)).unwrap();
    let made = link(&mount, symbolic.attributes.ino, "m").unwrap();
    assert_eq!(made.attributes.kind, FileKind::SymbolicLink);
    let target = now(mount.fs.read_link(made.attributes.ino)).unwrap();
    assert_eq!(target.to_vec(), b"a");
}

fn write_and_close(mount: &Mount, handle: HandleNo) {
    write(mount, handle, 0, b"bytes");
    now(mount.fs.flush(handle, &OPENER)).unwrap();
    mount.fs.release(handle);
}
