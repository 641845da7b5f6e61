//! A gateway that answers in the place of S3 now and then: an ingress that restarts, a firewall, a
//! balancer, a page for people.

use std::io;
use std::path::Path;

use mountpoint_client::testing::server::{Fault, Rule, Server};

use crate::harness::{BUCKET, Mounted, put, read, server, shell};

/// The statuses of its pages.
const STATUSES: [u16; 4] = [404, 403, 502, 200];

/// Has one request of five get a page.
fn meddle(server: &Server) {
    for (number, status) in (0..).zip(STATUSES) {
        server.faults().add(Rule {
            probability: 0.05,
            seed: number,
            ..Rule::always(Fault::Page(status))
        });
    }
}

#[test]
fn pages_in_the_middle_of_everything_are_seen_by_no_program() {
    let server = server();
    server.store().put_synthetic(BUCKET, "large", 20 << 20, 1);
    for number in 0..20 {
        put(
            &server,
            &format!("d/{number}"),
            format!("content {number}\n"),
        );
    }
    let mounted = Mounted::new(&server, &["--allow-changes"]);
    meddle(&server);
    shell(
        mounted.path(),
        "set -e
         test $(ls d | wc -l) = 20 && test $(cat d/* | grep -c content) = 20
         md5sum < large > /dev/null
         mkdir new && for i in $(seq 20); do echo $i > new/$i; done
         test $(cat new/* | sort -n | tail -n 1) = 20
         for i in $(seq 10); do mv new/$i d/moved-$i; done
         for i in $(seq 11 20); do rm new/$i; done
         ! ls new/11 2> /dev/null && rmdir new && ! test -e new
         echo more >> d/1 && tail -n 1 d/1 | grep -q more
         head -c 9000000 /dev/zero > zeros && test $(stat -c %s zeros) = 9000000
         mv d e && test $(ls e | wc -l) = 30 && rm -r e && ! test -e e",
    );
    assert_eq!(server.store().keys(BUCKET), ["large", "zeros"]);
}

#[track_caller]
fn fails_with_eio<T: std::fmt::Debug>(what: &str, outcome: io::Result<T>) {
    let error = outcome.expect_err(what);
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{what}: {error}");
}

/// As long as only the gateway answers, nothing is known of any object.
#[test]
fn a_page_is_no_word_about_an_object() {
    let server = server();
    put(&server, "file", "content");
    put(&server, "open", vec![7; 3 << 20]);
    let mounted = Mounted::with(&server, &["--allow-changes"], |command| {
        command.env("AWS_MAX_ATTEMPTS", "3");
    });
    let open = std::fs::File::open(mounted.join("open")).unwrap();
    assert_eq!(read(&mounted.join("file")), b"content");
    let known = |name: &str| mounted.join(name);
    for status in STATUSES {
        let rule = server.faults().add(Rule::always(Fault::Page(status)));
        fails_with_eio("rm", std::fs::remove_file(known("file")));
        fails_with_eio("create", std::fs::write(known("new"), "new"));
        fails_with_eio("replace", std::fs::write(known("file"), "other"));
        fails_with_eio("rename", std::fs::rename(known("file"), known("other")));
        fails_with_eio("read", read_at(&open, 2 << 20));
        fails_with_eio("list", list(&known("absent")));
        server.faults().remove(rule);
        assert_eq!(server.store().keys(BUCKET), ["file", "open"], "{status}");
    }
    assert_eq!(read(&known("file")), b"content");
    assert_eq!(read_at(&open, 2 << 20).unwrap(), [7; 100]);
}

fn read_at(file: &std::fs::File, offset: u64) -> io::Result<[u8; 100]> {
    use std::os::unix::fs::FileExt as _;
    let mut bytes = [0; 100];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

fn list(directory: &Path) -> io::Result<()> {
    std::fs::metadata(directory).map(drop)
}
