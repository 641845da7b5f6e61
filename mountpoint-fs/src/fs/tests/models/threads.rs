//! Many threads, each with the load of a kernel.

use std::time::Duration;

use futures::executor::block_on;
use mountpoint_client::testing::sim::Time;

use super::*;

const ROOT: InodeNo = InodeNo::ROOT;

/// One thread's share: the thread gives back every reference that it takes.
fn work(mount: &Mount, seed: usize) {
    for round in 0..60 {
        let pick = (seed * 31 + round * 17) % 7;
        let name = format!("n{pick}");
        if let Ok(directory) = block_on(mount.fs.lookup(ROOT, OsStr::new("d"))) {
            let parent = directory.attributes.ino;
            if let Ok(file) = block_on(mount.fs.lookup(parent, OsStr::new(&name))) {
                let ino = file.attributes.ino;
                let opened = block_on(mount.fs.open(ino, READ));
                drop(block_on(mount.fs.attributes(ino)));
                mount.fs.forget(ino, 1);
                if let Ok(opened) = opened {
                    mount.fs.release(opened.handle);
                }
            }
            if round % 5 == 0 {
                let handle = block_on(mount.fs.open_directory(parent)).unwrap();
                let mut sink = Sink::new(100);
                block_on(mount.fs.read_directory(handle, 0, true, &mut sink)).unwrap();
                sink.entries
                    .iter()
                    .skip(2)
                    .for_each(|entry| mount.fs.forget(entry.entry.attributes.ino, 1));
                mount.fs.release_directory(handle);
            }
            mount.fs.forget(parent, 1);
        }
        // Some operations are dropped in the middle.
        if let Some(Ok(entry)) = mount.fs.lookup(ROOT, OsStr::new("d")).now_or_never() {
            mount.fs.forget(entry.attributes.ino, 1);
        }
        match (seed + round) % 4 {
            0 => drop(
                mount
                    .bucket
                    .put_object(&format!("d/{name}"), format!("{seed} {round}")),
            ),
            1 => drop(mount.bucket.remove(&format!("d/{name}"))),
            _ => {}
        }
    }
}

#[test]
fn nothing_is_left_when_all_have_let_go() {
    let options = SimOptions {
        time: Time::Threaded,
        latency: Duration::ZERO..Duration::from_micros(300),
        ..SimOptions::default()
    };
    let mount = Mount::with_options(options, "", &["d/stays", "d/n1", "d/n2"]);
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let mount = &mount;
            scope.spawn(move || work(mount, seed));
        }
    });
    assert_eq!(mount.fs.inode_count(), 0);
}
