//! Write-back: a close returns when the local disk has the file, and the upload follows.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

use mountpoint_client::testing::server::{
    Fault, Operation, RequestRecord, Rule, Server, ServerOptions,
};
use nix::sys::signal::Signal;

use super::{Staged, mount, stored};
use crate::harness::{
    ACCESS_KEY, BUCKET, PATIENCE, SECRET_KEY, below, mount_s3, put, read, server, wait_until,
};

/// Long: what is closed waits.
pub(super) const WAITS: [&str; 3] = ["--write-back", "--write-back-delay", "3600"];

/// At once.
pub(super) const UPLOADS: [&str; 3] = ["--write-back", "--write-back-delay", "0"];

/// Runs `mount-s3 staged` on the directory.
#[track_caller]
pub(super) fn command(staged: &Staged, arguments: &str) -> String {
    let program = env!("CARGO_BIN_EXE_mount-s3");
    let (task, rest) = arguments.split_once(' ').unwrap_or((arguments, ""));
    let directory = staged.staging.path().display();
    staged.run(&format!(
        "cd / && {program} staged {task} {directory} {rest}"
    ))
}

impl Staged {
    /// Ends the mount in that way, and mounts again with the same directory.
    pub(super) fn again(self, end: Option<Signal>, server: &Server, args: &[&str]) -> Self {
        let Self {
            mounted,
            staging,
            local,
        } = self;
        match end {
            None => assert!(mounted.unmount().success()),
            Some(signal) => {
                let directory = mounted.path().to_owned();
                mounted.signal(signal);
                nix::mount::umount2(&directory, nix::mount::MntFlags::MNT_DETACH).ok();
            }
        }
        Self {
            mounted: mount(server, staging.path(), args),
            staging,
            local,
        }
    }
}

#[test]
fn a_close_returns_before_the_upload_and_the_mount_shows_the_file() {
    let server = server();
    put(&server, "old", "content");
    let staged = Staged::new(&server, &UPLOADS);
    let held = server
        .faults()
        .add(Rule::on(Operation::PutObject, Fault::Hold));
    staged.run(
        "mkdir d && echo new > d/f && echo longer content > old && cat d/f old > $L/read
         printf 'new\\nlonger content\\n' | cmp - $L/read
         ls d | grep -qx f && stat -c %s d/f old | xargs | grep -qx '4 15' && sync d/f
         ! rmdir d 2> /dev/null && exec 3>> d/f && echo more >&3 && exec 3>&- && tail -n 1 d/f | grep -qx more",
    );
    assert_eq!(server.store().keys(BUCKET), ["old"]);
    assert_eq!(stored(&server, "old"), b"content");
    let listed = command(&staged, "list");
    for word in ["pending-", "d/f", "s3://test-bucket/old"] {
        assert!(listed.contains(word), "{word}: {listed}");
    }
    let status = command(&staged, "status --json");
    assert!(status.contains("\"pending\":2"), "{status}");
    server.faults().remove(held);
    let flushed = command(&staged, "flush --json");
    assert!(flushed.contains("\"left\":0"), "{flushed}");
    assert_eq!(stored(&server, "d/f"), b"new\nmore\n");
    assert_eq!(stored(&server, "old"), b"longer content\n");
    assert_eq!(command(&staged, "list"), "");
    // The bucket says what the names are from now on.
    wait_until("the file of another client", || {
        put(&server, "d/f", "another");
        read(&staged.mounted.join("d/f")) == b"another"
    });
    staged.run("rm -r d old && ls | wc -l | grep -qx 0");
    assert_eq!(server.store().keys(BUCKET), [""; 0]);
}

/// An ingress restarts: what it says meanwhile is nobody's change of an object.
#[test]
fn a_gateway_that_answers_for_a_while_ends_no_pending_file() {
    let server = server();
    put(&server, "old", "content");
    for status in [404, 403, 200] {
        let staged = Staged::new(&server, &UPLOADS);
        staged.run("ls -l > /dev/null");
        let page = Rule::on(Operation::PutObject, Fault::Page(status));
        let page = server.faults().add(page);
        staged.run("echo new > new && echo longer content > old");
        wait_until("attempts", || server.faults().fired(page) > Some(6));
        staged.run("grep -qx new new && grep -qx 'longer content' old");
        server.faults().remove(page);
        let flushed = command(&staged, "flush --json");
        assert!(flushed.contains("\"left\":0"), "{status}: {flushed}");
        assert_eq!(stored(&server, "new"), b"new\n");
        assert_eq!(stored(&server, "old"), b"longer content\n");
        assert_eq!(command(&staged, "list"), "");
        staged.run("rm new && printf content > old");
    }
}

#[test]
fn versions_arrive_in_the_order_of_their_closes() {
    let server = server();
    let staged = Staged::new(&server, &UPLOADS);
    let held = server
        .faults()
        .add(Rule::on(Operation::PutObject, Fault::Hold));
    staged.run("echo first > f");
    let log = server.log();
    assert!(log.wait_until(Operation::PutObject, PATIENCE, |it| it.in_flight > 0));
    staged.run("echo second > f; grep -qx second f; echo third >> f; grep -qx third f");
    server.faults().remove(held);
    command(&staged, "flush");
    assert_eq!(stored(&server, "f"), b"second\nthird\n");
    assert_eq!(command(&staged, "list"), "");
}

#[test]
fn what_is_removed_is_never_sent_and_names_change_before_uploads() {
    let server = server();
    put(&server, "target", "before");
    let staged = Staged::new(&server, &WAITS);
    staged.run(
        "echo 1 > removed && rm removed && ! test -e removed
         echo 2 > a && mv a b && mv b c && ! test -e a && ! test -e b && grep -qx 2 c
         echo 3 > tmp && mv tmp target && grep -qx 3 target && echo 4 > tmp && mv tmp target && grep -qx 4 target
         mkdir d && echo 5 > d/x && mv d e && grep -qx 5 e/x && ! test -e d && ls e | grep -qx x
         mkdir gone && echo 6 > gone/y && rm -r gone && ! test -e gone
         echo 7 > t && rm t && echo 8 > t
         exec 3<> open && echo 9 >&3 && rm open && stat -L -c %h /dev/fd/3 | grep -qx 0 && exec 3>&-",
    );
    assert_eq!(server.store().keys(BUCKET), ["target"]);
    assert_eq!(stored(&server, "target"), b"before");
    let is_put = |it: &RequestRecord| it.operation == Operation::PutObject;
    let put_keys = || {
        let puts = server.log().snapshot().into_iter().filter(is_put);
        puts.map(|it| it.key).collect::<BTreeSet<_>>()
    };
    assert_eq!(put_keys(), BTreeSet::new());
    let Staged { mounted, .. } = staged;
    assert!(mounted.unmount().success());
    assert_eq!(server.store().keys(BUCKET), ["c", "e/x", "t", "target"]);
    assert_eq!(stored(&server, "target"), b"4\n");
    assert_eq!(
        (stored(&server, "t"), stored(&server, "c")),
        (b"8\n".to_vec(), b"2\n".to_vec())
    );
    let keys = server.store().keys(BUCKET).into_iter().collect();
    assert_eq!(put_keys(), keys, "nothing else was sent");
}

/// A change of the name of an object that has newer bytes here stores them before.
#[test]
fn files_with_objects_are_stored_before_their_names_change() {
    let server = server();
    put(&server, "f", "old");
    put(&server, "d/g", "old");
    let staged = Staged::new(&server, &WAITS);
    staged.run("echo new > f && mv f f2 && grep -qx new f2 && echo new > d/g && mv d d2 && grep -qx new d2/g");
    assert_eq!(server.store().keys(BUCKET), ["d2/g", "f2"]);
    assert_eq!(stored(&server, "f2"), b"new\n");
    // A kill brings no old name back.
    let staged = staged.again(Some(Signal::SIGKILL), &server, &WAITS);
    staged.run("ls -R | grep -v : | sort | xargs | grep -qx 'd2 f2 g'");
    staged.run("echo newer > f2 && rm f2");
    let staged = staged.again(Some(Signal::SIGKILL), &server, &WAITS);
    assert_eq!(command(&staged, "list"), "");
    assert_eq!(server.store().keys(BUCKET), ["d2/g"]);
}

#[test]
fn what_is_not_uploaded_in_time_stays_for_the_next_mount() {
    let server = server();
    put(&server, "old", "0123456789");
    let timeout = [&UPLOADS[..], &["--drain-timeout", "1"]].concat();
    let staged = Staged::new(&server, &timeout);
    let held = server
        .faults()
        .add(Rule::on(Operation::PutObject, Fault::Hold));
    staged.run(
        "mkdir -p a/b && for i in $(seq 20); do seq $i > a/b/$i; done
         head -c 3000000 /dev/urandom > large && printf XY | dd of=old bs=1 seek=3 conv=notrunc status=none
         cp -r . $L/copy",
    );
    let Staged {
        mounted,
        staging,
        local,
    } = staged;
    let program = env!("CARGO_BIN_EXE_mount-s3");
    let directory = staging.path().display().to_string();
    let log = mounted.log_file();
    assert!(mounted.unmount().success());
    let log = crate::harness::text_of(&log);
    assert!(
        log.contains("22 files") && log.contains(&format!("--staging {directory}")),
        "{log}"
    );
    let shell = |script: &str| crate::harness::shell(std::path::Path::new("/"), script);
    let listed = shell(&format!("{program} staged list {directory}"));
    assert_eq!(listed.matches("pending-").count(), 22, "{listed}");
    let exported = local.path().join("exported").display().to_string();
    shell(&format!(
        "id=$({program} staged list {directory} | awk '/large/ {{ print $1 }}')
         {program} staged export {directory} $id {exported} && cmp {exported} {}/copy/large",
        local.path().display()
    ));
    let said = shell(&format!("! {program} staged flush {directory} 2>&1"));
    assert!(said.contains("the next one uploads them"), "{said}");
    let staged = Staged {
        mounted: mount(&server, staging.path(), &UPLOADS),
        staging,
        local,
    };
    // The bucket does not have them, and the mount shows them.
    assert_eq!(server.store().keys(BUCKET), ["old"]);
    staged.run("diff -r . $L/copy && ls a/b | wc -l | grep -qx 20 && echo more >> a/b/2");
    server.faults().remove(held);
    staged.run("mv a/b/1 a/b/one");
    command(&staged, "flush");
    staged.run("cd $L/copy && mv a/b/1 a/b/one && echo more >> a/b/2 && cd - && diff -r . $L/copy");
    let copy = staged.local.path().join("copy");
    for (key, bytes) in below(&server, BUCKET, "") {
        assert_eq!(bytes, read(&copy.join(&key)), "{key}");
    }
    assert_eq!(server.store().keys(BUCKET).len(), 22);
    assert_eq!(stored(&server, "old"), b"012XY56789");
}

#[test]
fn a_second_signal_ends_the_wait_for_uploads() {
    let server = server();
    let staged = Staged::new(
        &server,
        &[&UPLOADS[..], &["--drain-timeout", "3600"]].concat(),
    );
    let held = server
        .faults()
        .add(Rule::on(Operation::PutObject, Fault::Hold));
    staged.run("echo 1 > f");
    let Staged {
        mounted,
        staging,
        local,
    } = staged;
    nix::sys::signal::kill(mounted.pid(), Signal::SIGTERM).unwrap();
    wait_until("the wait", || {
        mounted.log().contains("another signal ends the wait")
    });
    let (status, _) = mounted.signal(Signal::SIGINT);
    assert!(status.success());
    server.faults().remove(held);
    let staged = Staged {
        mounted: mount(&server, staging.path(), &WAITS),
        staging,
        local,
    };
    staged.run("grep -qx 1 f");
    command(&staged, "flush");
    assert_eq!(stored(&server, "f"), b"1\n");
}

#[test]
fn another_clients_change_is_not_replaced_after_a_kill() {
    let server = server();
    put(&server, "f", "one");
    let staged = Staged::new(&server, &WAITS);
    staged.run("echo mine > f && echo new > g");
    put(&server, "f", "another's");
    put(&server, "g", "another's");
    let staged = staged.again(Some(Signal::SIGKILL), &server, &WAITS);
    staged.run("grep -qx mine f && grep -qx new g");
    let (program, directory) = (env!("CARGO_BIN_EXE_mount-s3"), staged.staging.path());
    staged.run(&format!(
        "cd / && ! {program} staged flush {}",
        directory.display()
    ));
    for key in ["f", "g"] {
        assert_eq!(stored(&server, key), b"another's");
        assert_eq!(read(&staged.mounted.join(key)), b"another's");
    }
    let listed = command(&staged, "list --json");
    assert_eq!(listed.matches("\"state\":\"kept\"").count(), 2, "{listed}");
}

#[test]
fn a_directory_with_pending_files_serves_no_other_bucket() {
    let server = server();
    server.store().create_bucket("other-bucket");
    let staged = Staged::new(&server, &[&WAITS[..], &["--drain-timeout", "0"]].concat());
    staged.run("echo 1 > f");
    let Staged {
        mounted, staging, ..
    } = staged;
    assert!(mounted.unmount().success());
    let target = tempfile::tempdir().unwrap();
    let mut command = mount_s3();
    let output = command
        .args([
            "other-bucket",
            "--endpoint-url",
            &server.url(),
            "--force-path-style",
        ])
        .args(["--foreground", "--allow-changes", "--staging"])
        .arg(staging.path())
        .arg(target.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(BUCKET), "{said}");
    assert_eq!(server.store().keys("other-bucket"), [""; 0]);
    drop(mount(&server, staging.path(), &[]));
    assert_eq!(stored(&server, "f"), b"1\n");
}

/// Writers wait for uploads while the directory is full, and are refused when none makes room.
#[test]
fn a_full_directory_refuses_writes_and_takes_them_again() {
    let server = server();
    let disk = tempfile::tempdir().unwrap();
    let path = disk.path().display().to_string();
    crate::harness::shell(
        disk.path(),
        // A segment of the journal and some room for files.
        &format!("mount -t tmpfs -o size=140m tmpfs {path}"),
    );
    let mounted = mount(&server, disk.path(), &UPLOADS);
    let held = server
        .faults()
        .add(Rule::on(Operation::PutObject, Fault::Hold));
    let piece = vec![7; 4 << 20];
    let write = |name: &str| {
        let mut file = File::create(mounted.join(name))?;
        file.write_all(&piece)?;
        nix::unistd::close(file).map_err(std::io::Error::from)
    };
    let mut closed = 0;
    let error = loop {
        match write(&format!("f{closed}")) {
            Ok(()) => closed += 1,
            Err(error) => break error,
        }
        assert!(closed < 100);
    };
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    server.faults().remove(held);
    write("again").unwrap();
    assert!(mounted.unmount().success());
    for number in 0..closed {
        assert!(stored(&server, &format!("f{number}")) == piece, "{number}");
    }
    assert!(stored(&server, "again") == piece);
    crate::harness::shell(std::path::Path::new("/"), &format!("umount {path}"));
}

#[test]
fn attributes_of_pending_files_outlive_a_kill() {
    let server = server();
    let staged = Staged::new(&server, &WAITS);
    staged.run("echo 1 > f && chmod 600 f && touch -d @1000000000 f && truncate -s 1 f && setfattr -n user.a -v b f || true; chmod 640 f");
    let staged = staged.again(Some(Signal::SIGKILL), &server, &WAITS);
    assert_eq!(staged.run("stat -c '%a %s' f"), "640 1\n");
    assert_eq!(server.store().keys(BUCKET), [""; 0]);
}

const PROGRAMS: &str = "
git config --global user.email a@b && git config --global user.name n && git config --global gc.auto 0
git init -q -b main $L/origin && cd $L/origin && for i in 1 2 3; do seq $((i * 1000)) > $i; done && git add . && git commit -qm first && cd - > /dev/null
git clone -q $L/origin work && cd work && seq 5000 > new && git add new && git commit -qm second && git mv 1 one && git commit -qm third
git gc -q && git fsck --strict && cd ..
mkdir $L/tree && for i in $(seq 30); do mkdir $L/tree/$i && for j in $(seq 100); do echo $i $j > $L/tree/$i/$j; done; done
tar cf $L/tree.tar -C $L tree && tar xf $L/tree.tar && diff -r tree $L/tree
python3 -c \"
import sqlite3
db = sqlite3.connect('a.db')
db.execute('create table t (a integer primary key, b text)')
for batch in range(20):
    with db: db.executemany('insert into t(b) values (?)', [(str(i),) for i in range(100)])
assert db.execute('select count(*) from t').fetchone()[0] == 2000
db.close()\"
";

#[test]
fn programs_find_what_they_wrote_here_and_on_the_next_mount() {
    let server = server();
    let staged = Staged::new(&server, &["--write-back", "--drain-timeout", "600"]);
    staged.run(PROGRAMS);
    let staged = staged.again(None, &server, &[]);
    staged.run(
        "git config --global --add safe.directory '*' && diff -r tree $L/tree && cd work && git fsck --strict
         git status --porcelain | wc -l | grep -qx 0 && sqlite3 ../a.db 'pragma integrity_check; select count(*) from t' | xargs | grep -qx 'ok 2000'",
    );
    assert_eq!(command(&staged, "list"), "");
}

/// The server is stopped, and another one is started in its place.
#[test]
fn files_are_made_and_read_while_s3_is_away() {
    let server_at = |address: SocketAddr| {
        let credentials = Some((ACCESS_KEY.to_owned(), SECRET_KEY.to_owned()));
        let server = Server::start(ServerOptions {
            address,
            credentials,
            ..ServerOptions::default()
        })?;
        server.store().create_bucket(BUCKET);
        std::io::Result::Ok(server)
    };
    let server = server_at(SocketAddr::from((Ipv4Addr::new(127, 0, 71, 8), 0))).unwrap();
    let address = server.address();
    put(&server, "d/there", "before");
    let staged = Staged::new(&server, &UPLOADS);
    staged.run("ls d && mkdir made");
    drop(server);
    staged.run(
        "for f in d/new made/new top; do echo $f > $f && echo more >> $f && grep -qx $f $f; done",
    );
    assert!(command(&staged, "list").contains("made/new"));
    let mut started = None;
    wait_until("the address", || {
        started = server_at(address).ok();
        started.is_some()
    });
    let server = started.unwrap();
    command(&staged, "flush");
    assert_eq!(server.store().keys(BUCKET), ["d/new", "made/new", "top"]);
    assert_eq!(stored(&server, "d/new"), b"d/new\nmore\n");
}

/// "Nothing is pending" would be taken for the truth, by `flush && shutdown` above all.
#[test]
fn a_directory_that_is_no_staging_directory_is_named() {
    let (_server, staged) = super::staged();
    for task in ["flush", "status", "list"] {
        let output = mount_s3()
            .args(["staged", task, staged.mounted.path().to_str().unwrap()])
            .output()
            .unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{task}: {told}");
        assert!(told.contains("not the mount"), "{task}: {told}");
    }
}
