//! What a mount measures, compared with what the server has seen, at each sink.

mod captures;
mod causes;
mod programs;
mod sinks;
pub(crate) mod stats;

use std::io::{Read, Write};

/// The text that a server of HTTP sends for `/metrics`.
fn ask(mut stream: impl Write + Read) -> String {
    let request = "GET /metrics HTTP/1.1\r\nHost: mount\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer
}

/// The sum of a metric's numbers over all lines that have `labels`.
fn sum(text: &str, metric: &str, labels: &str) -> u64 {
    let numbers = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(metric)?;
        let is_whole = rest.starts_with(['{', ' ']);
        (is_whole && rest.contains(labels)).then(|| rest.rsplit(' ').next().unwrap())
    });
    numbers.map(|number| number.parse::<u64>().unwrap()).sum()
}
