//! Removing, making directories and renaming, with everyday tools on real mounts.

use std::io::Write as _;

use mountpoint_client::ObjectClient as _;
use mountpoint_client::testing::server::{Headers, Operation, Server};
use mountpoint_client::types::{Key, ObjectHeaders, PutCondition, PutRequest, WriteToken};

use crate::harness::{
    BUCKET, Mounted, client_of, create_to_write, mount_s3, put, read, server, shell, wait_until,
};
use crate::servers::Program;

const ALL: [&str; 3] = ["--allow-delete", "--allow-overwrite", "--allow-rename"];

/// Keys of every kind that a tree may have. Markers, a directory beside a file, odd names.
const TREE: [&str; 11] = [
    "t/a",
    "t/marked/",
    "t/marked/f",
    "t/empty/",
    "t/deep/1/2/3/4/f",
    "t/sp ace/n\u{fc}/\u{1f600}",
    "t/plus+/per%20cent",
    "t/-rf",
    "t/.hidden/.x",
    "t/a-b",
    "t/a.txt",
];

fn put_tree(server: &Server) {
    for key in TREE {
        let body = if key.ends_with('/') { "" } else { key };
        put(server, key, body);
    }
    for number in 0..1200 {
        put(server, &format!("t/many/{number:04}"), "x");
    }
}

fn keys(server: &Server) -> Vec<String> {
    server.store().keys(BUCKET)
}

#[test]
fn rm_r_removes_any_tree() {
    let server = server();
    put_tree(&server);
    put(&server, "other", "stays");
    let mounted = Mounted::new(&server, &["--allow-delete"]);
    server.log().clear();
    shell(mounted.path(), "rm -r t && test ! -e t && ls");
    assert_eq!(keys(&server), ["other"]);
    // One deletion for each object and marker, none a second time.
    let deletes = server.log().count(Operation::DeleteObject);
    assert_eq!(deletes, TREE.len() as u64 + 1200);
    shell(
        mounted.path(),
        "mkdir -p a/b/c && rmdir -p a/b/c && mkdir a && rm -r a && mkdir a/ && rmdir a && ! rmdir a 2>/dev/null",
    );
    assert_eq!(shell(mounted.path(), "ls").trim(), "other");
}

#[test]
fn rm_r_removes_nasty_trees() {
    let server = server();
    let deep = format!("t/{}f", "0123456789/".repeat(92));
    assert_eq!(deep.len(), 1015);
    let mut keys = vec![deep];
    for key in [
        "t/marker with bytes/",
        "t/marker with bytes/x",
        "t/empty marker with bytes/",
        "t/markers/in/markers/",
        "t/markers/in/",
        "t/markers/",
        "t/new\nline",
        "t/'\"$(false)`false`\\",
        "t/ ",
        "t/.../...",
        "t/*",
        "t/-f/-r",
        "t/e\u{301}/\u{e9}",
        "t/\u{1f468}\u{200d}\u{1f469}/\u{7f}\t",
        "t/a%2Fb+c",
    ] {
        keys.push(key.to_owned());
    }
    keys.extend((0..2000).map(|number| format!("t/many/{number}")));
    for key in &keys {
        put(&server, key, "bytes");
    }
    put(&server, "tt", "stays");
    let mounted = Mounted::new(&server, &["--allow-delete"]);
    shell(
        mounted.path(),
        "find t -type f | wc -l > /dev/null; rm -r t && test ! -e t",
    );
    assert_eq!(self::keys(&server), ["tt"]);
    // Programs by many authors.
    for key in keys.iter().take(16) {
        put(&server, key, "bytes");
    }
    shell(
        mounted.path(),
        "python3 -c 'import shutil; shutil.rmtree(\"t\")' && test ! -e t && mkdir -p u/v/w && find u -depth -delete && ls -A | wc -l | grep -qx 1",
    );
    assert_eq!(self::keys(&server), ["tt"]);
}

/// A file that a directory hides survives the removal of the tree.
#[test]
fn what_a_directory_hides_is_not_removed_unseen() {
    let server = server();
    put(&server, "t/x", "hidden");
    put(&server, "t/x/y", "seen");
    let logs = tempfile::tempdir().unwrap();
    let directory = logs.path().to_str().unwrap();
    let mounted = Mounted::new(&server, &["--allow-delete", "--log-directory", directory]);
    shell(
        mounted.path(),
        "mkdir made && echo seen > made/f && ! rmdir made 2>/dev/null && rm -r made && \
         ! rm -r t 2>/dev/null && grep -qx hidden t/x && rm -r t && test ! -e t",
    );
    assert!(keys(&server).is_empty());
    let log = || {
        let texts = std::fs::read_dir(logs.path()).unwrap();
        let texts = texts.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        texts.collect::<String>()
    };
    wait_until("the log says what to do", || {
        let log = log();
        log.contains("t/ is not removed: t/x was hidden") && log.contains("rm -r")
    });
    assert!(!log().contains("made/"), "nothing was hidden: {}", log());
}

#[test]
fn nothing_is_removed_without_leave() {
    let server = server();
    put(&server, "a", "x");
    put(&server, "d/f", "x");
    put(&server, "e/", "");
    let mounted = Mounted::new(&server, &[]);
    let refused = shell(
        mounted.path(),
        "for c in 'rm a' 'rm -r d' 'rmdir e' 'rmdir d' 'mv a b' 'mv d c' 'touch a' 'chmod 600 a' 'truncate -s 0 a' \
         'ln a b' 'ln -s a b'; do LC_ALL=C $c 2>&1 && echo \"$c was done\"; done || true",
    );
    assert_eq!(
        refused.matches("Operation not permitted").count(),
        10,
        "{refused}"
    );
    assert!(refused.contains("rmdir: failed to remove 'd': Directory not empty"));
    assert!(!refused.contains("was done"), "{refused}");
    assert_eq!(keys(&server), ["a", "d/f", "e/"]);
    let changes = [
        Operation::DeleteObject,
        Operation::CopyObject,
        Operation::PutObject,
    ];
    for operation in changes {
        assert_eq!(server.log().count(operation), 0, "{operation:?}");
    }
}

#[test]
fn directories_are_made_here_or_in_the_bucket() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    shell(
        mounted.path(),
        "mkdir -p a/b && ls -d a/b && ! mkdir a 2>/dev/null && mv a/b c && ls -d c a",
    );
    assert!(keys(&server).is_empty());
    assert!(mounted.unmount().success());

    let mounted = Mounted::new(&server, &["--directory-markers"]);
    shell(mounted.path(), "mkdir -p a/b");
    assert_eq!(keys(&server), ["a/", "a/b/"]);
    assert!(mounted.unmount().success());
    let mounted = Mounted::new(&server, &["--directory-markers", "--allow-delete"]);
    shell(mounted.path(), "test -d a/b && rmdir -p a/b && test ! -e a");
    assert!(keys(&server).is_empty());
}

#[test]
fn mv_moves_files_and_directories_on_the_server() {
    let server = server();
    put_tree(&server);
    let headers = Headers {
        content_type: Some("text/plain".to_owned()),
        storage_class: Some("STANDARD_IA".to_owned()),
        ..Headers::default()
    };
    server
        .store()
        .put_with(BUCKET, "f", "bytes", headers.clone());
    server.store().put_synthetic(BUCKET, "t/big", 3 << 30, 1);
    let mounted = Mounted::new(&server, &ALL);
    server.log().clear();
    shell(
        mounted.path(),
        "mv f t/g && test ! -e f && cat t/g && cat t/deep/1/2/3/4/f",
    );
    let mut moved = server.store().object(BUCKET, "t/g").unwrap().headers();
    let token = moved.metadata.remove(WriteToken::METADATA_NAME);
    assert!(token.is_some(), "the copy has no token of its own");
    assert_eq!(moved, headers);
    shell(
        mounted.path(),
        "mv t u && ls u/deep/1/2/3/4/f u/sp*/n* && test ! -e t",
    );
    assert!(keys(&server).iter().all(|key| key.starts_with("u/")));
    assert_eq!(keys(&server).len(), TREE.len() + 1200 + 2);
    assert_eq!(
        server.store().object(BUCKET, "u/big").unwrap().size(),
        3 << 30
    );
    // The claim of the new name, and its trial.
    assert_eq!(server.log().count(Operation::PutObject), 2);
    // A trial of the server, 1,213 objects below the directory, one before it; a trial and two
    // batches.
    assert_eq!(server.log().count(Operation::CopyObject), 1 + 1 + 1213);
    assert_eq!(server.log().count(Operation::DeleteObjects), 1 + 2);
    shell(
        mounted.path(),
        "mv -n u/a u/a-b && test -e u/a && mv u/a u/a-b && test ! -e u/a && mkdir new && mv -T u new && mv new/many new/m2 \
         && ls new/m2 | wc -l | grep -qx 1200 && rm -r new",
    );
    assert!(keys(&server).is_empty(), "{:?}", keys(&server).first());
}

/// As Rust's `tempfile` does with `persist`, and safetensors from 0.8 on.
#[test]
fn a_process_renames_a_file_before_it_closes_it() {
    let server = server();
    put(&server, "old", "old");
    let mounted = Mounted::new(&server, &ALL);
    let mut file = create_to_write(mounted.join("new.tmp")).unwrap();
    file.set_len(5).unwrap();
    file.write_all(b"bytes").unwrap();
    std::fs::rename(mounted.join("new.tmp"), mounted.join("old")).unwrap();
    assert_eq!(keys(&server), ["old"]);
    assert_eq!(read(&mounted.join("old")), b"bytes");
    file.sync_all().unwrap();
    nix::unistd::close(file).unwrap();
    // A later write goes to the new name.
    let mut file = create_to_write(mounted.join("log")).unwrap();
    file.write_all(b"one").unwrap();
    std::fs::rename(mounted.join("log"), mounted.join("log.1")).unwrap();
    file.write_all(b"two").unwrap();
    nix::unistd::close(file).unwrap();
    assert_eq!(keys(&server), ["log.1", "old"]);
    assert_eq!(read(&mounted.join("log.1")), b"onetwo");
}

#[test]
fn a_directory_bucket_renames_natively() {
    const EXPRESS: &str = "moved--usw2-az1--x-s3";
    let server = Server::start_with_bucket(EXPRESS).unwrap();
    for key in ["a", "d/1", "d/2/3"] {
        server.store().put(EXPRESS, key, key);
    }
    let mut command = mount_s3();
    command.args([EXPRESS, "--endpoint-url", &server.url(), "--allow-rename"]);
    let mounted = Mounted::start(command);
    shell(
        mounted.path(),
        "mv a b && cat b | grep -qx a && mv d e && cat e/2/3 | grep -qx d/2/3",
    );
    assert_eq!(server.store().keys(EXPRESS), ["b", "e/1", "e/2/3"]);
    assert_eq!(server.log().count(Operation::RenameObject), 3);
    // The trial of the first claim.
    assert_eq!(server.log().count(Operation::CopyObject), 1);
}

#[test]
fn touch_and_truncate_are_done_by_the_server() {
    let server = server();
    server.store().put_synthetic(BUCKET, "f", 20 << 20, 7);
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    server.store().set_modified(BUCKET, "f", old);
    let mounted = Mounted::new(&server, &ALL);
    server.log().clear();
    shell(
        mounted.path(),
        "before=$(stat -c %Y f) && touch f && test $(stat -c %Y f) -gt $before && cp f /dev/null && chmod 644 f \
         && chown $(id -u):$(id -g) f",
    );
    nix::unistd::truncate(&mounted.join("f"), 11_000_000).unwrap();
    let mut expected = mountpoint_client::testing::server::synthetic_bytes(7, 0..11_000_000);
    let object = server.store().object(BUCKET, "f").unwrap();
    assert!(object.bytes() == expected, "the first 11 MB stay");
    nix::unistd::truncate(&mounted.join("f"), 12_000_000).unwrap();
    expected.resize(12_000_000, 0);
    let object = server.store().object(BUCKET, "f").unwrap();
    assert!(object.bytes() == expected, "zeros follow");
    assert!(read(&mounted.join("f")) == expected);
    nix::unistd::truncate(&mounted.join("f"), 0).unwrap();
    shell(mounted.path(), "test ! -s f");
    assert_eq!(server.store().object(BUCKET, "f").unwrap().size(), 0);
    let counts = [
        // The first is a trial of the server.
        (Operation::CopyObject, 2),
        // Both cuts that leave bytes.
        (Operation::UploadPartCopy, 2),
        (Operation::PutObject, 2),
    ];
    for (operation, count) in counts {
        assert_eq!(server.log().count(operation), count, "{operation:?}");
    }
}

/// Puts a tree into a foreign server's bucket, moves and removes it.
fn change_on(server: &Program) {
    let (runtime, client) = client_of(server);
    for key in (0..20).map(|number| format!("d/s{}/f {number}", number % 3)) {
        let put = PutRequest {
            body: key.clone().into(),
            key: Key::parse(&key).unwrap(),
            condition: PutCondition::None,
            checksum: None,
            headers: ObjectHeaders::default(),
        };
        runtime.block_on(client.put(put)).unwrap();
    }
    let mounted = Mounted::on(server, &[&["--directory-markers"][..], &ALL[..]].concat());
    shell(
        mounted.path(),
        "mkdir -p m/n && mv d m/n/e && test ! -e d && test $(find m -type f | wc -l) = 20 \
         && mv 'm/n/e/s1/f 1' top && grep -qx 'd/s1/f 1' top && mv -f top 'm/n/e/s1/f 4' \
         && grep -qx 'd/s1/f 1' 'm/n/e/s1/f 4' && ! mv -T 'm/n/e/s0/f 0' m/n 2>/dev/null \
         && touch 'm/n/e/s0/f 0' && grep -qx 'd/s0/f 0' 'm/n/e/s0/f 0'",
    );
    nix::unistd::truncate(&mounted.join("m/n/e/s0/f 0"), 3).unwrap();
    shell(
        mounted.path(),
        "test $(cat 'm/n/e/s0/f 0') = d/s && rm -r m && test -z \"$(ls)\"",
    );
}

#[test]
fn changes_on_minio() {
    change_on(&Program::minio());
}

#[test]
fn changes_on_versitygw() {
    change_on(&Program::versitygw());
}

#[test]
fn attributes_and_links_are_kept_in_metadata() {
    let server = server();
    let metadata = [
        ("mode", "33152"),
        ("uid", "7"),
        ("gid", "8"),
        ("mtime", "1000000000"),
    ];
    let headers = Headers {
        metadata: metadata
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..Headers::default()
    };
    server.store().put_with(BUCKET, "d/f", "bytes", headers);
    put(&server, "d/g", "more");
    let flags = [
        "--posix-metadata",
        "--allow-delete",
        "--allow-overwrite",
        "--allow-rename",
    ];
    let mounted = Mounted::new(&server, &flags);
    shell(
        mounted.path(),
        "test \"$(stat -c '%a %u %g %Y' d/f)\" = '600 7 8 1000000000' && ls -lR > /dev/null && chmod 711 d/g \
         && chown 3:4 d/g && touch -d @1234567890.5 d/g && ln -s f d/l && ln -s nowhere broken && chmod 700 d \
         && touch -d @99 d && mkdir -m 711 e && mv d/g e/g && cat d/l | grep -qx bytes && ln d/f d/h && cmp d/f d/h",
    );
    assert!(mounted.unmount().success());
    let mounted = Mounted::new(&server, &flags);
    shell(
        mounted.path(),
        "test \"$(stat -c '%a %u %g %.1Y' e/g)\" = '711 3 4 1234567890.5' && test \"$(readlink d/l)\" = f \
         && test \"$(readlink broken)\" = nowhere && test \"$(stat -c '%a %Y' d)\" = '700 99' \
         && test \"$(find . -type l | wc -l)\" = 2 && rm -r d e broken && test -z \"$(ls)\"",
    );
    assert!(keys(&server).is_empty(), "{:?}", keys(&server));
}

/// The owner of a mount keeps the bits; others lose them with what they change. A `stat` that asks
/// for more than the mode asks the mount again after a write.
#[test]
fn set_id_bits_go_with_a_write_and_stay_where_it_is_refused() {
    let server = server();
    let other = "setpriv --reuid 1000 --clear-groups sh -c";
    let mounted = Mounted::new(&server, &["--allow-changes", "--allow-other"]);
    shell(
        mounted.path(),
        &format!(
            "for f in new cut kept; do echo 1 > $f; chmod 6777 $f; done; echo 2 > kept; {other} 'echo 2 > new'; {other} ': > cut'; \
             stat -c '%a %s %Z' new cut kept | cut -d' ' -f1 | diff - <(printf '777\\n777\\n6777\\n') && test $(cat new) = 2 && test ! -s cut"
        ),
    );
    drop(mounted);
    let mounted = Mounted::new(&server, &["--posix-metadata", "--allow-other"]);
    server.log().clear();
    shell(
        mounted.path(),
        &format!(
            "stat -c %a new cut kept | diff - <(printf '777\\n777\\n6777\\n'); {other} ': > kept' && exit 1; test $(stat -c %a kept) = 6777"
        ),
    );
    assert_eq!(server.log().count(Operation::CopyObject), 0);
    assert_eq!(server.log().count(Operation::PutObject), 0);
}

/// Connects to a socket in the mount; a name that was looked up again leads there, too.
const SOCKET: &str = "
import os, socket, stat, time
server = socket.socket(socket.AF_UNIX); server.bind('s'); server.listen()
assert stat.S_ISSOCK(os.stat('s').st_mode)
for pause in [0, 1.2]:
    time.sleep(pause)
    client = socket.socket(socket.AF_UNIX); client.connect('s')
    client.send(b'hello'); assert server.accept()[0].recv(5) == b'hello'
";

#[test]
fn hard_links_pipes_and_sockets_are_made() {
    for more in [&[][..], &["--staging"], &["--staging", "--write-back"]] {
        let server = server();
        put(&server, "f", "file");
        let local = tempfile::tempdir().unwrap();
        let mut flags = vec!["--allow-changes"];
        for flag in more {
            flags.push(flag);
            if *flag == "--staging" {
                flags.push(local.path().to_str().unwrap());
            }
        }
        let mounted = Mounted::new(&server, &flags);
        shell(
            mounted.path(),
            "ln f g && ! ln f g && rm f && test \"$(cat g)\" = file && test \"$(stat -c %h g)\" = 1 \
             && echo new > n && chmod 640 n && ln n m && test \"$(stat -c '%a %h' m n)\" = $'640 1\\n640 1' \
             && cp -a n k && ln -s n l && ln l j && test \"$(readlink j)\" = n \
             && mkfifo -m 600 p && test -p p && (echo through > p & test \"$(cat p)\" = through) \
             && mv p q && test -p q && rm q",
        );
        shell(mounted.path(), &format!("python3 -c \"{SOCKET}\""));
        let stored = server.store().object(BUCKET, "g").unwrap();
        assert_eq!(stored.bytes(), "file");
    }
}
