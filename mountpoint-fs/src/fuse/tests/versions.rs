//! Objects that are replaced while Linux knows them.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

use super::mount::Mounted;

#[test]
fn an_open_sees_the_newest_version_at_once() {
    let mounted = Mounted::new();
    let path = mounted.path().join("f");
    for round in 0..300usize {
        let content = format!("{round}:").repeat(1 + (round * 7919) % 5000);
        mounted.bucket.put_object("f", content.clone());
        let read = fs::read(&path).unwrap();
        assert_eq!(read, content.as_bytes(), "round {round}");
    }
    let counts = mounted.bucket.take_log().counts();
    eprintln!("{counts:?}");
    let open = fs::File::open(&path).unwrap();
    let before = fs::read(&path).unwrap();
    mounted.bucket.put_object("f", "short");
    assert_eq!(open.metadata().unwrap().size(), before.len() as u64);
    assert_eq!(fs::read(&path).unwrap(), b"short");
    assert_eq!(fs::metadata(&path).unwrap().size(), 5);
    assert_eq!(open.metadata().unwrap().size(), before.len() as u64);
    // Its pages are in the page cache.
    let mut bytes = vec![0; before.len()];
    open.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, before);
    mounted.bucket.remove("f");
    assert_eq!(fs::read(&path).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    mounted.bucket.put_object("f/g", "below");
    assert!(fs::File::open(&path).unwrap().metadata().unwrap().is_dir());
    assert_eq!(fs::read(path.join("g")).unwrap(), b"below");
    drop(open);
    mounted.mount.unmount(false).unwrap();
    mounted.session.wait();
}

#[test]
fn listings_and_replaced_files() {
    let mounted = Mounted::new();
    for number in 0..1500 {
        mounted.bucket.put_object(&format!("d/{number}"), "one");
    }
    mounted.bucket.take_log();
    let directory = mounted.path().join("d");
    let mut count = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().len(), 3);
        count += 1;
    }
    assert_eq!(count, 1500);
    eprintln!("{:?}", mounted.bucket.take_log().counts());
    let names: Vec<_> = fs::read_dir(&directory).unwrap().map(|e| e.unwrap().path()).collect();
    eprintln!("{:?}", mounted.bucket.take_log().counts());
    for path in &names {
        assert_eq!(fs::metadata(path).unwrap().len(), 3);
    }
    eprintln!("{:?}", mounted.bucket.take_log().counts());
    for number in 0..1500 {
        mounted.bucket.put_object(&format!("d/{number}"), "newer");
    }
    for path in &names {
        assert_eq!(fs::read(path).unwrap(), b"newer");
    }
    eprintln!("{:?}", mounted.bucket.take_log().counts());
    for path in &names {
        assert_eq!(fs::read(path).unwrap(), b"newer");
    }
    eprintln!("{:?}", mounted.bucket.take_log().counts());
    mounted.mount.unmount(false).unwrap();
    mounted.session.wait();
}
