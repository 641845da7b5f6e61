//! Servers that tell another ETag at the completion of an upload than in HEAD.

use mountpoint_client::testing::server::{Fault, Operation, Rule};

use crate::harness::{BUCKET, Mounted, read, server, shell};

/// A file that was stored in parts is changed: each change names the version that the server
/// compares.
#[test]
fn files_of_a_server_with_two_etags_can_be_changed() {
    let server = server();
    let other = Fault::ElementText("ETag", "of-the-completion");
    let id = server
        .faults()
        .add(Rule::on(Operation::CompleteMultipartUpload, other));
    let mounted = Mounted::unhedged(&server, &["--allow-changes", "--debug"]);
    let stored = |key: &str| server.store().object(BUCKET, key).unwrap().bytes().to_vec();
    for name in ["first", "second"] {
        shell(
            mounted.path(),
            &format!(
                "head -c 12M /dev/zero > {name} && truncate -s 7M {name} && printf end >> {name}"
            ),
        );
        let expected = [&vec![0; 7 << 20][..], b"end"].concat();
        assert!(stored(name) == expected, "{name}");
        assert!(read(&mounted.join(name)) == expected, "{name}");
    }
    assert!(server.faults().fired(id).unwrap() >= 6);
    let log = mounted.log();
    let told = log.matches("the server tells other ETags");
    assert_eq!(told.count(), 1, "{log}");
}
