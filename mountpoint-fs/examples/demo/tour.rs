//! What the demo shows: a walk through the bucket, a large file, and what to try next.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crc_fast::{CrcAlgorithm, Digest};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mountpoint_client::testing::server::synthetic_bytes;

use crate::Failure;
use crate::data_set::{FILES, MODEL, MODEL_SEED, MODEL_SIZE};

/// Size of one read: what a data loader asks for.
const READ_SIZE: usize = 1 << 20;

/// Lists everything and counts it.
#[expect(clippy::print_stdout, reason = "a program for the terminal")]
pub(crate) fn walk(root: &Path) -> Result<(), Failure> {
    let start = now();
    let (mut files, mut directories, mut bytes) = (0_u64, 0_u64, 0_u64);
    let mut to_visit = vec![root.to_owned()];
    while let Some(directory) = to_visit.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                directories += 1;
                to_visit.push(entry.path());
            } else {
                files += 1;
                bytes += metadata.len();
            }
        }
    }
    println!(
        "Listed {files} files in {directories} directories ({} MiB) in {:.0} ms",
        bytes >> 20,
        start.elapsed().as_secs_f64() * 1e3
    );
    if files == FILES {
        Ok(())
    } else {
        Err(format!("expected {FILES} files, saw {files}").into())
    }
}

/// Reads the large file through the mount, with a progress bar, and compares its CRC-64/NVME with
/// the one of the bytes that the server generates.
#[expect(clippy::print_stdout, reason = "a program for the terminal")]
pub(crate) fn read_and_verify(path: &Path) -> Result<(), Failure> {
    let expected = checksum_of_model();
    let bar = progress_bar(MODEL_SIZE);
    let mut file = File::open(path)?;
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    let mut buffer = vec![0; READ_SIZE];
    let mut read = 0;
    let start = now();
    loop {
        let len = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        digest.update(&buffer[..len]);
        read += len as u64;
        bar.set_position(read);
    }
    let took = start.elapsed();
    bar.finish_and_clear();
    if read != MODEL_SIZE {
        return Err(format!("{} has {MODEL_SIZE} bytes, read {read}", path.display()).into());
    }
    let checksum = digest.finalize();
    println!(
        "Read {MODEL} ({} MiB) in {:.2} s: {:.2} GB/s, CRC-64/NVME {checksum:016x}",
        MODEL_SIZE >> 20,
        took.as_secs_f64(),
        MODEL_SIZE as f64 / took.as_secs_f64() / 1e9
    );
    if checksum == expected {
        Ok(())
    } else {
        Err(format!("the checksum is wrong: expected {expected:016x}").into())
    }
}

/// What to try now.
#[expect(clippy::print_stdout, reason = "a program for the terminal")]
pub(crate) fn suggest(directory: &Path, url: &str) {
    let shown = directory.display();
    println!(
        "\nTry, in another terminal:\n\n  \
         ls -lR {shown}\n  \
         cat {shown}/README.txt\n  \
         dd if={shown}/{MODEL} of=/dev/null bs=1M status=progress\n  \
         tail -c 100 {shown}/logs/2026/01/events.log\n  \
         find {shown} -name '*.jpg' | xargs -P 8 md5sum | tail -1\n\n\
         or mount it a second time, as any bucket of an S3-compatible server:\n\n  \
         AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={} \\\n  \
         target/release/mount-s3 {} /mnt --endpoint-url {url} --force-path-style\n\n\
         Ctrl-C unmounts and ends.",
        crate::data_set::ACCESS_KEY,
        crate::data_set::SECRET_KEY,
        crate::data_set::BUCKET,
    );
}

fn checksum_of_model() -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    let step = 8 << 20;
    for start in (0..MODEL_SIZE).step_by(step) {
        digest.update(&synthetic_bytes(
            MODEL_SEED,
            start..(start + step as u64).min(MODEL_SIZE),
        ));
    }
    digest.finalize()
}

fn progress_bar(len: u64) -> ProgressBar {
    let style = "{msg} [{bar:40}] {bytes}/{total_bytes} {binary_bytes_per_sec}";
    let style = ProgressStyle::with_template(style).map(|style| style.progress_chars("=> "));
    let bar = ProgressBar::with_draw_target(Some(len), ProgressDrawTarget::stderr_with_hz(20));
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message("reading");
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

#[expect(clippy::disallowed_methods, reason = "a demonstration measures time")]
fn now() -> Instant {
    Instant::now()
}
