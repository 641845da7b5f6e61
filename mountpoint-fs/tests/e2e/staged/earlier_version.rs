//! A staging directory that a killed mount of version 0.2.0 has left, `data/staging-0.2.0.tar.xz`.
//! `make_staging_directory.py` says what is in it, and made it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mountpoint_client::testing::server::{Operation, Server};
use tempfile::TempDir;

use super::write_back::{WAITS, command};
use super::{Staged, mount, stored};
use crate::harness::{BUCKET, below, mount_s3, put, server, shell};

const ARCHIVE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/e2e/data/staging-0.2.0.tar.xz"
);

const ATTRIBUTES: &str = "--posix-metadata";

/// The directory, and the server of the bucket that it is for.
struct Earlier {
    server: Server,
    staging: TempDir,
    /// What the archive has beside.
    local: TempDir,
}

impl Earlier {
    fn new() -> Self {
        let (server, staging, local) = (
            server(),
            tempfile::tempdir().unwrap(),
            tempfile::tempdir().unwrap(),
        );
        shell(
            local.path(),
            &format!(
                "python3 -m tarfile -e {ARCHIVE} . && chmod -R go= staging
                 mv staging/mount-s3-staging {0} && chmod 750 expected/directory",
                staging.path().display()
            ),
        );
        for (key, bytes) in files_below(&local.path().join("bases")) {
            put(&server, key.to_str().unwrap(), bytes);
        }
        let bucket = format!(
            "{{\"name\":\"{BUCKET}\",\"endpoint\":\"{}\"}}",
            server.url()
        );
        fs::write(staging.path().join("mount-s3-staging/bucket"), bucket).unwrap();
        Self {
            server,
            staging,
            local,
        }
    }

    /// Mounts the bucket with the directory.
    fn mount(self, args: &[&str]) -> (Server, Staged) {
        let Self {
            server,
            staging,
            local,
        } = self;
        let mounted = mount(&server, staging.path(), &[&[ATTRIBUTES], args].concat());
        let staged = Staged {
            mounted,
            staging,
            local,
        };
        (server, staged)
    }
}

/// The plain files below `folder`, by their names there.
fn files_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let listed = shell(folder, "find -type f -printf '%P\\n'");
    let content = |name: &str| (PathBuf::from(name), fs::read(folder.join(name)).unwrap());
    listed.lines().map(content).collect()
}

impl Staged {
    /// The mount shows all that was acknowledged, and nothing else.
    #[track_caller]
    fn check_shown(&self) {
        self.run(
            "diff -r --no-dereference . $L/expected && stat -c %a directory | grep -qx 750
             stat -c '%a %Y' attributes | grep -qx '640 1000000000'
             getfattr --only-values -n user.color attributes | grep -qx blue",
        );
    }
}

/// The bucket has all that was acknowledged, and nothing else.
#[track_caller]
fn check_uploaded(server: &Server, expected: &Path) {
    let mut expected = files_below(expected);
    expected.insert("directory/".into(), Vec::new());
    expected.insert("link".into(), b"small".to_vec());
    for (key, bytes) in &expected {
        let key = key.to_str().unwrap();
        assert!(stored(server, key) == *bytes, "{key}");
    }
    assert_eq!(below(server, BUCKET, "").len(), expected.len());
    let metadata = |key| {
        let object = server.store().object(BUCKET, key).unwrap();
        object.headers().metadata["mode"].clone()
    };
    let modes = ["attributes", "directory/", "link"].map(metadata);
    assert_eq!(modes, ["33184", "16872", "41471"]);
    assert_eq!(server.store().uploads(BUCKET), []);
}

#[test]
fn what_it_has_left_is_shown_and_uploaded() {
    for args in [&["--write-back", "--drain-timeout", "600"][..], &[]] {
        let (server, staged) = Earlier::new().mount(args);
        staged.check_shown();
        command(&staged, "flush");
        check_uploaded(&server, &staged.local.path().join("expected"));
        // The unfinished upload of a file was asked about; this server does not know it.
        assert!(server.log().count(Operation::ListParts) > 0);
        staged.check_shown();
        assert!(staged.mounted.unmount().success());
    }
}

/// A mount that is killed before it has uploaded anything leaves what it has found.
#[test]
fn what_it_has_left_outlives_more_kills_and_changes() {
    let (server, mut staged) = Earlier::new().mount(&WAITS);
    for name in ["small", "large", "changed", "ranges", "renamed", "inside"] {
        let change = format!(
            "f=$(find . -name {name}); printf more >> $f; mv $f $f.new; cp $f.new $f; rm $f.new"
        );
        staged.run(&format!("{change}; cd $L/expected; {change}"));
        staged = staged.again(
            Some(nix::sys::signal::Signal::SIGKILL),
            &server,
            &[&[ATTRIBUTES][..], &WAITS].concat(),
        );
        staged.check_shown();
    }
    command(&staged, "flush");
    check_uploaded(&server, &staged.local.path().join("expected"));
}

#[test]
fn the_version_that_it_has_kept_is_exported() {
    let (_server, staged) = Earlier::new().mount(&WAITS);
    let listed = command(&staged, "list");
    let kept = listed.lines().find(|line| line.contains("conflict"));
    let id = kept.and_then(|line| line.split_whitespace().next());
    let exported = staged.local.path().join("exported");
    let id = id.unwrap_or_else(|| panic!("{listed}"));
    command(
        &staged,
        &format!("export {id} {} --local-only", exported.display()),
    );
    let bytes = fs::read(exported).unwrap();
    assert_eq!((bytes.len(), &bytes[..4]), (600_000, &b"ours"[..]));
}

/// A newer version may have written anything: the directory is refused with the format's name.
#[test]
fn a_newer_format_is_refused_before_anything_is_touched() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 2] = [
        ("mount-s3 staging 9", |folder| {
            fs::write(folder.join("format"), "mount-s3 staging 9\n").unwrap();
        }),
        ("format 9", |folder| {
            let journal = fs::read_dir(folder.join("journal")).unwrap();
            let segment = journal.map(|entry| entry.unwrap().path()).max().unwrap();
            let mut bytes = fs::read(&segment).unwrap();
            bytes[8] = 9;
            fs::write(segment, bytes).unwrap();
        }),
    ];
    for (name, change) in changes {
        let earlier = Earlier::new();
        let folder = earlier.staging.path().join("mount-s3-staging");
        change(&folder);
        let before = files_below(&folder);
        for flags in [&["--write-back"][..], &[]] {
            let target = tempfile::tempdir().unwrap();
            let output = mount_s3()
                .args([BUCKET, "--endpoint-url", &earlier.server.url()])
                .args(["--force-path-style", "--foreground", "--allow-changes"])
                .args(flags)
                .arg("--staging")
                .args([earlier.staging.path(), target.path()])
                .output();
            let output = output.unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let is_named = said.contains(name) && said.contains(&*folder.to_string_lossy());
            assert!(!output.status.success() && is_named, "{said}");
            let mut after = files_below(&folder);
            // It names the process that looked.
            let lock = Path::new("lock");
            after.insert(lock.to_owned(), before[lock].clone());
            assert!(after == before, "{said}");
        }
    }
}
