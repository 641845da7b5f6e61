//! Prometheus, a collector of OpenTelemetry, the log.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use mountpoint_client::testing::server::{Operation, Server};
use mountpoint_fs::metrics::{METRICS, MetricKind};
use mountpoint_fs::mount::prometheus_name;
use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric, number_data_point};
use prost::Message as _;

use super::{ask, sum};
use crate::harness::{BUCKET, Mounted, PATIENCE, mount_s3, read, server, unmount, wait_until};

const MIB: u64 = 1 << 20;

/// Reads a file, looks for one that is not there, and writes one.
fn work(mounted: &Mounted) {
    assert_eq!(read(&mounted.join("file")).len() as u64, 3 * MIB);
    assert!(std::fs::read(mounted.join("absent")).is_err());
    std::fs::write(mounted.join("new"), vec![7; 1000]).unwrap();
}

/// Requests and bytes of GETs, when none is in flight.
fn gets(server: &Server) -> (u64, u64) {
    let log = server.log();
    assert!(log.wait_until(Operation::GetObject, PATIENCE, |gets| gets.in_flight == 0));
    let gets = log.counters(Operation::GetObject);
    (gets.requests, gets.bytes_sent)
}

#[test]
fn prometheus_gets_what_the_server_has_seen() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", 3 * MIB, 1);
    let address = "127.94.64.1:9464";
    let mounted = Mounted::unhedged(&server, &["--metrics-listen", address]);
    work(&mounted);
    let scrape = || ask(TcpStream::connect(address).unwrap());
    let get = "s3_request=\"GetObject\"";
    let (requests, bytes) = gets(&server);
    // The last reply is counted just after the program has it.
    wait_until("the count of all requests", || {
        sum(&scrape(), "s3_requests_in_flight", "") == 0
    });
    let text = scrape();
    assert_eq!(
        sum(&text, "s3_request_count_total", get),
        requests,
        "{text}"
    );
    assert_eq!(sum(&text, "s3_received_bytes_total", get), bytes, "{text}");
    let latency = "s3_request_total_latency_microseconds_count";
    assert_eq!(sum(&text, latency, get), requests, "{text}");
    let put = "s3_request=\"PutObject\"";
    assert_eq!(
        sum(&text, "s3_request_count_total", put),
        server.log().count(Operation::PutObject)
    );
    assert_eq!(sum(&text, "s3_sent_bytes_total", put), 1000, "{text}");
    assert_eq!(
        sum(&text, "fuse_total_bytes_total", "type=\"read\""),
        3 * MIB
    );
    assert_eq!(sum(&text, "fuse_total_bytes_total", "type=\"write\""), 1000);
    assert!(
        sum(&text, "fuse_request_errors_total", "errno=\"ENOENT\"") >= 1,
        "{text}"
    );
    assert!(sum(&text, "process_memory_usage_bytes", "") > MIB, "{text}");
    assert_eq!(
        sum(&text, "mount_info", "bucket=\"test-bucket\""),
        1,
        "{text}"
    );
}

/// Clients that connect and ask for nothing, as a port scan does, or a collector that hangs.
#[test]
fn silent_connections_keep_no_collector_out() {
    let server = server();
    let address = "127.94.64.2:9464";
    let _mounted = Mounted::new(&server, &["--metrics-listen", address]);
    let mut silent = Vec::new();
    for number in 0..300 {
        let mut stream = TcpStream::connect(address).unwrap();
        // Some begin to ask.
        if number % 3 == 0 {
            stream.write_all(b"GET /metrics HT").unwrap();
        }
        silent.push(stream);
    }
    let text = ask(TcpStream::connect(address).unwrap());
    assert_eq!(sum(&text, "mount_info", ""), 1, "{text}");
}

#[test]
fn a_unix_socket_is_for_its_user_alone() {
    let server = server();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("metrics.sock");
    let mounted = Mounted::new(&server, &["--metrics-listen", socket.to_str().unwrap()]);
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = ask(UnixStream::connect(&socket).unwrap());
    assert_eq!(sum(&text, "mount_info", ""), 1, "{text}");
    drop(mounted);
    assert!(!socket.exists());
}

#[test]
fn an_address_in_use_ends_the_start() {
    let server = server();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let mut command = mount_s3();
    command.args([
        BUCKET,
        "--endpoint-url",
        &server.url(),
        "--force-path-style",
    ]);
    command
        .arg(directory.path())
        .args(["--metrics-listen", &address]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    let expected = format!("--metrics-listen {address}: Address already in use");
    assert!(text.contains(&expected), "{text}");
}

/// A collector: the address, and the bodies that it gets.
fn collector() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, bodies) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap().to_lowercase();
            assert!(head.starts_with("post /v1/metrics http/1.1\r\n"), "{head}");
            let (_, len) = head.split_once("content-length: ").unwrap();
            let len = len.split("\r\n").next().unwrap().parse().unwrap();
            let mut body = vec![0; len];
            stream.read_exact(&mut body).unwrap();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(answer).unwrap();
            if sender.send(body).is_err() {
                return;
            }
        }
    });
    (format!("http://{address}"), bodies)
}

#[test]
fn a_collector_gets_differences_that_add_up() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", 3 * MIB, 1);
    let (url, bodies) = collector();
    let flags = ["--otlp-endpoint", &url, "--otlp-export-interval", "1"];
    let mounted = Mounted::unhedged(&server, &flags);
    let first = bodies.recv_timeout(PATIENCE).unwrap();
    work(&mounted);
    // The last export has what came after all others.
    assert!(mounted.unmount().success());
    let (requests, _) = gets(&server);
    let bodies = std::iter::once(first).chain(bodies.try_iter());
    let mut found = 0;
    for body in bodies {
        let export = ExportMetricsServiceRequest::decode(body.as_slice()).unwrap();
        let resource = &export.resource_metrics[0];
        let attributes = &resource.resource.as_ref().unwrap().attributes;
        assert!(
            attributes
                .iter()
                .any(|attribute| attribute.key == "s3.bucket")
        );
        let metrics = resource
            .scope_metrics
            .iter()
            .flat_map(|scope| &scope.metrics);
        for metric in metrics.filter(|metric| metric.name == "s3.request_count") {
            let Some(metric::Data::Sum(sum)) = &metric.data else {
                panic!("{metric:?}");
            };
            assert!(sum.is_monotonic);
            for point in &sum.data_points {
                let of_get = format!("{:?}", point.attributes).contains("\"GetObject\"");
                let Some(number_data_point::Value::AsInt(count)) = point.value else {
                    panic!("{point:?}");
                };
                assert!(point.start_time_unix_nano < point.time_unix_nano);
                found += if of_get { count } else { 0 };
            }
        }
    }
    assert_eq!(u64::try_from(found).unwrap(), requests);
}

/// Each metric of the documents is at each sink of a mount that has just begun, the counters and
/// distributions with 0: an alarm on the first error needs the number before.
#[test]
fn every_metric_exists_from_the_start_at_each_sink() {
    let server = server();
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).display().to_string();
    let (url, bodies) = collector();
    let socket = place("socket");
    let flags = [
        &["--metrics-listen", &socket][..],
        &["--otlp-endpoint", &url, "--otlp-export-interval", "1"],
        &["--log-metrics"],
    ];
    let mounted = Mounted::new(&server, &flags.concat());
    let text = ask(UnixStream::connect(&socket).unwrap());
    let body = bodies.recv_timeout(PATIENCE).unwrap();
    let export = ExportMetricsServiceRequest::decode(body.as_slice()).unwrap();
    let scopes = export
        .resource_metrics
        .iter()
        .flat_map(|it| &it.scope_metrics);
    let exported: Vec<_> = scopes.flat_map(|it| &it.metrics).collect();
    assert!(mounted.log().contains("is mounted at"));
    wait_until("the first summary", || {
        mounted.log().contains("write.uploads")
    });
    let log = mounted.log();
    for metric in METRICS {
        let name = prometheus_name(metric);
        let suffix = match metric.kind {
            MetricKind::Histogram => "_count",
            MetricKind::Counter | MetricKind::Gauge => "",
        };
        let has = |line: &str| {
            let rest = line.strip_prefix(&format!("{name}{suffix}"));
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        };
        assert!(text.lines().any(has), "{name} in {text}");
        let is_it = |it: &&Metric| it.name == metric.name;
        assert!(exported.iter().any(is_it), "{}", metric.name);
        let line = format!("mountpoint_s3_fs::metrics: {} ", metric.name);
        assert!(log.contains(&line), "{line} in {log}");
    }
    for labels in [
        "fuse_request=\"read\",errno=\"EIO\"",
        "fuse_request=\"fsync\",errno=\"EIO\"",
    ] {
        let line = format!("fuse_request_errors_total{{{labels}}} 0");
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

/// A mount at a relative path, in the background, which leaves its working directory.
#[test]
fn a_relative_directory_is_absolute_at_each_sink() {
    let server = server();
    let (url, bodies) = collector();
    let base = tempfile::tempdir().unwrap();
    let base = base.path().canonicalize().unwrap();
    for name in ["mnt", "cwd"] {
        std::fs::create_dir(base.join(name)).unwrap();
    }
    std::os::unix::fs::symlink(base.join("mnt"), base.join("link")).unwrap();
    let mut command = mount_s3();
    command.current_dir(base.join("cwd"));
    command.args([BUCKET, "../link", "--endpoint-url", &server.url()]);
    command.args(["--force-path-style", "--otlp-endpoint", &url]);
    command.args(["--otlp-export-interval", "1"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let directory = base.join("mnt");
    let expected = directory.to_str().unwrap();
    let document = super::stats::document(&directory);
    let body = bodies.recv_timeout(PATIENCE).unwrap();
    unmount(&directory);
    assert_eq!(document["mount"]["directory"], expected);
    let info = document["metrics"].as_array().unwrap().iter();
    let mut info = info.filter(|metric| metric["name"] == "mount.info");
    assert_eq!(info.next().unwrap()["labels"]["directory"], expected);
    let export = ExportMetricsServiceRequest::decode(body.as_slice()).unwrap();
    let resource = export.resource_metrics[0].resource.as_ref().unwrap();
    let attributes = resource.attributes.iter();
    let mut attributes = attributes.filter(|attribute| attribute.key == "mount.directory");
    let attribute = format!("{:?}", attributes.next().unwrap());
    assert!(
        attribute.contains(&format!("\"{expected}\"")),
        "{attribute}"
    );
}

#[test]
fn a_collector_that_is_away_costs_a_line_of_the_log() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", 3 * MIB, 1);
    let away = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", away.local_addr().unwrap());
    drop(away);
    let flags = ["--otlp-endpoint", &url, "--otlp-export-interval", "1"];
    let mounted = Mounted::new(&server, &flags);
    wait_until("the line", || {
        mounted.log().contains("no metrics were sent")
    });
    work(&mounted);
    let log = mounted.log();
    assert_eq!(log.matches("no metrics were sent").count(), 1, "{log}");
    let (status, _) = mounted.signal(Signal::SIGTERM);
    assert!(status.success());
}

#[test]
fn the_log_has_a_summary() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", 3 * MIB, 1);
    let log = tempfile::tempdir().unwrap();
    let directory = log.path().to_str().unwrap();
    let mounted = Mounted::unhedged(&server, &["--log-metrics", "--log-directory", directory]);
    work(&mounted);
    assert!(mounted.unmount().success());
    let (requests, _) = gets(&server);
    let file = std::fs::read_dir(log.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    let lines = text.lines().filter_map(|line| {
        let (before, line) = line.split_once("mountpoint_s3_fs::metrics: ")?;
        assert!(before.contains(" INFO "), "{before}");
        line.split_once(": ")
    });
    let lines: Vec<_> = lines.collect();
    let gets = lines
        .iter()
        .filter(|(name, _)| *name == "s3.request_count [s3_request=GetObject]");
    let sum: u64 = gets.map(|(_, count)| count.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, requests, "{text}");
    let latency = "fuse.request_latency  (μs)[fuse_request=read]";
    let values = lines.iter().filter(|(name, _)| *name == latency);
    assert!(values.clone().count() > 0, "{text}");
    for (_, value) in values {
        assert!(
            value.starts_with("n=") && value.contains(" p99="),
            "{value}"
        );
    }
}
