//! Makes an index file of synthetic keys, and measures it.
//!
//! `cargo run --release --example index_file -- KEYS FILE [images|parts]`: keys of a set of images
//! (1,300 in each directory), or of files that are named by random numbers, which share little. The
//! file is left, to be mounted with `mount-s3 bucket DIRECTORY --index FILE --no-sign-request
//! --endpoint-url http://127.0.0.1:1`.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement for a person, apart from the program"
)]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use mountpoint_client::types::{ETag, ListRequest};
use mountpoint_fs::index::{DiskWait, IndexBuilder, IndexEntry, IndexFile, IndexHeader};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, path, kind @ ..] = &arguments[..] else {
        return Err("give the number of keys and a file".into());
    };
    let count: u64 = count.parse()?;
    let key = match kind.first().map_or("images", String::as_str) {
        "images" => image,
        "parts" => part,
        other => return Err(format!("'{other}' is neither 'images' nor 'parts'").into()),
    };
    make(Path::new(path), count, key)?;
    measure(Path::new(path), count, key)
}

/// The key of a number; in the order of numbers.
type KeyOf = fn(u64, u64) -> String;

fn image(number: u64, _count: u64) -> String {
    let class = number / 1300;
    format!(
        "train/n{class:08}/n{class:08}_{:06}.JPEG",
        number * 7 % 1300 * 700
    )
}

fn part(number: u64, count: u64) -> String {
    let day = number * 365 / count;
    let (high, low) = (hash(number), hash(!number));
    format!("events/2026/{day:03}/part-{number:05}-{high:016x}-{low:016x}.snappy.parquet")
}

fn hash(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 31)
}

fn make(path: &Path, count: u64, key: KeyOf) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let header = IndexHeader {
        bucket: "bucket".to_owned(),
        ..IndexHeader::default()
    };
    let mut builder = IndexBuilder::new(path, header)?;
    for number in 0..count {
        let etag = format!("\"{:016x}{:016x}\"", hash(number), hash(number << 32));
        let time = 1_700_000_000 + number / 100 + hash(number) % 3600;
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(time);
        let size = 20_000 + hash(number) % 200_000;
        let etag = ETag::from_header(&etag);
        builder.push(IndexEntry::new(
            key(number, count),
            size,
            time,
            &etag,
            false,
        ))?;
    }
    builder.finish()?;
    let len = std::fs::metadata(path)?.len();
    println!(
        "made in {:.1} s: {} MiB, {:.1} bytes a key ({} bytes are the key itself)",
        start.elapsed().as_secs_f64(),
        len >> 20,
        ratio(len, count),
        key(0, count).len(),
    );
    Ok(())
}

fn measure(path: &Path, count: u64, key: KeyOf) -> Result<(), Box<dyn Error>> {
    let resident_before = resident()?;
    let start = Instant::now();
    let index = IndexFile::open(path)?;
    println!(
        "opened in {:.1} ms, {} KiB resident",
        start.elapsed().as_secs_f64() * 1e3,
        resident()?.saturating_sub(resident_before),
    );

    let start = Instant::now();
    let mut cursor = index.cursor(DiskWait::Allowed);
    let mut keys = 0;
    while cursor.advance()? {
        keys += 1;
    }
    assert_eq!(keys, count);
    println!("{:.0} entries a second in order", rate(keys, start));

    let start = Instant::now();
    let mut listed = 0;
    let mut request = ListRequest {
        delimiter: Some("/".to_owned()),
        prefix: key(0, count)
            .rsplit_once('/')
            .map_or("", |it| it.0)
            .to_owned()
            + "/",
        ..ListRequest::default()
    };
    while start.elapsed() < Duration::from_secs(2) {
        let page = index.list(&request, DiskWait::Refused)?;
        listed += page.objects.len() as u64;
        request.continuation_token = page.continuation_token;
    }
    println!(
        "{:.0} names of a directory a second as a LIST",
        rate(listed, start)
    );

    let start = Instant::now();
    let (finds, mut in_memory) = (1_000_000.min(count), 0);
    for find in 0..finds {
        let key = key(hash(find) % count, count);
        let found = index.find(&key, DiskWait::Refused);
        in_memory += u64::from(found.is_ok());
        let found = found.or_else(|_| index.find(&key, DiskWait::Allowed))?;
        assert!(found.is_some_and(|found| found.key.as_str() == key));
    }
    println!(
        "{:.0} random keys a second, {:.0} % of them without a wait",
        rate(finds, start),
        ratio(in_memory * 100, finds),
    );
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "figures for a person")]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

#[expect(clippy::cast_precision_loss, reason = "figures for a person")]
fn rate(count: u64, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}

/// Memory of this process, in KiB.
fn resident() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no VmRSS")?.parse()?)
}
