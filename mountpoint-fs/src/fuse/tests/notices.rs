//! The kernel forgets what it is told to forget.

use std::fs;
use std::io::Read;
use std::time::Duration;

use super::mount::Mounted;
use crate::clock::wait_until;
use crate::config::NamesConfig;

#[test]
fn the_kernel_forgets_files_that_nobody_uses_when_there_are_too_many() {
    let names = NamesConfig {
        inodes_max: 80,
        ..NamesConfig::default()
    };
    let (mounted, fs) = Mounted::with_names(names);
    for number in 0..500 {
        mounted.client.put_object(&format!("d/{number}"), "content");
    }
    let paths: Vec<_> = (0..500)
        .map(|number| mounted.path().join(format!("d/{number}")))
        .collect();
    let mut open: Vec<_> = paths[..50]
        .iter()
        .map(|path| fs::File::open(path).unwrap())
        .collect();
    for path in &paths {
        fs::metadata(path).unwrap();
    }
    wait_until("inodes are dropped", || fs.inode_count() <= 80);
    // The directory and what is open stay, and all can be looked at again.
    assert!(fs.inode_count() > 50, "{}", fs.inode_count());
    for file in &mut open {
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        assert_eq!(content, "content");
    }
    drop(open);
    assert_eq!(fs::read(&paths[499]).unwrap(), b"content");
    drop(fs);
    mounted.end();
}

#[test]
fn the_kernel_forgets_a_name_whose_object_was_replaced() {
    let names = NamesConfig {
        ttl: Duration::from_secs(3600),
        opens_unasked: true,
        ..NamesConfig::default()
    };
    let (mounted, fs) = Mounted::with_names(names);
    let path = mounted.path().join("f");
    mounted.client.put_object("f", "one");
    assert_eq!(fs::metadata(&path).unwrap().len(), 3);
    mounted.client.put_object("f", "longer");
    // As told: an hour long, it is what it was.
    assert_eq!(fs::metadata(&path).unwrap().len(), 3);
    let error = fs::read(&path).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StaleNetworkFileHandle);
    // But from here on it is known to be another.
    wait_until("the new size", || fs::metadata(&path).unwrap().len() == 6);
    assert_eq!(fs::read(&path).unwrap(), b"longer");
    drop(fs);
    mounted.end();
}
