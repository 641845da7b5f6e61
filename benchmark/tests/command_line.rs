//! What the benchmark says to a command line, before it measures anything.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[track_caller]
fn check(arguments: &[&str], success: bool, expected: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_benchmark"));
    command.args(arguments).env_remove("AWS_ACCESS_KEY_ID");
    let output = command.output().expect("the benchmark can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), success, "{arguments:?}: {said}");
    assert!(said.contains(expected), "{arguments:?}: {said}");
}

#[test]
fn workloads_are_listed() {
    check(&["--workload", "list"], true, "seq-1x256k");
}

#[test]
fn what_cannot_be_measured_is_said_at_once() {
    check(&["--workload", "fast"], false, "--workload list shows them");
    check(&["--workload", "seq"], false, "nothing to measure");
    check(&["--peer", "other"], false, "known are mount-s3");
    check(&["--bucket", "b"], false, "--endpoint-url");
    let slowed = ["--endpoint-url", "http://127.0.0.1:1", "--latency-ms", "1"];
    check(&slowed, false, "cannot be used with");
    let far = [
        "--endpoint-url",
        "http://127.0.0.1:1",
        "--workload",
        "ttfb-20ms",
    ];
    check(&far, false, "no workload is left");
    // With a system that could be measured; the credentials are missing.
    let given = [
        "--endpoint-url",
        "http://127.0.0.1:1",
        "--mount-s3",
        "true",
        "--workload",
        "ttfb",
    ];
    check(&given, false, "AWS_ACCESS_KEY_ID");
}

/// As the whole benchmark does with the same flags.
#[test]
fn a_server_alone_behaves_as_its_command_line_says() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_benchmark"))
        .args(["serve", "--quick", "--latency-ms", "300"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server can be started");
    let mut url = String::new();
    let mut output = BufReader::new(server.stdout.take().expect("it prints its address"));
    output.read_line(&mut url).expect("it prints its address");
    let address = url.trim().strip_prefix("http://").expect("a URL");
    let mut connection = TcpStream::connect(address).expect("it listens there");
    #[expect(
        clippy::disallowed_methods,
        reason = "a server in another process owns its time"
    )]
    let asked = Instant::now();
    write!(
        connection,
        "GET /benchmark/large/000000 HTTP/1.1\r\nHost: {address}\r\n\r\n"
    )
    .expect("it takes a request");
    connection.read_exact(&mut [0]).expect("it answers");
    let took = asked.elapsed();
    // It ends with its input.
    drop(server.stdin.take());
    let status = server.wait().expect("it was started");
    assert!(status.success(), "{status}");
    assert!(took >= Duration::from_millis(300), "{took:?}");
}
