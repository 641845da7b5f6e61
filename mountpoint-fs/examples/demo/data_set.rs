//! The demo's bucket: a few directories as a training job has them, generated.

use std::io;

use mountpoint_client::testing::server::{Server, ServerOptions};

pub(crate) const BUCKET: &str = "demo";
pub(crate) const ACCESS_KEY: &str = "demo-access-key";
pub(crate) const SECRET_KEY: &str = "demo-secret-key";

/// The large file, and its size in bytes: "several hundred MiB" that exist only as a rule.
pub(crate) const MODEL: &str = "models/weights.bin";
pub(crate) const MODEL_SIZE: u64 = 512 << 20;
pub(crate) const MODEL_SEED: u64 = 42;

const CLASSES: u32 = 8;
const IMAGES_PER_CLASS: u32 = 25;
const IMAGE_SIZE: u64 = 110 * 1024;

const README: &str = "\
This directory is a bucket. Its files are objects, fetched when they are read.

  models/weights.bin   512 MiB, to read in a stream
  images/class-N/      200 small files, as a data loader sees them
  logs/                text, by year and month
";

/// A running server with the data set in it.
pub(crate) fn start_server() -> io::Result<Server> {
    let credentials = Some((ACCESS_KEY.to_owned(), SECRET_KEY.to_owned()));
    let server = Server::start(ServerOptions {
        credentials,
        ..ServerOptions::default()
    })?;
    let store = server.store();
    store.create_bucket(BUCKET);
    store.put(BUCKET, "README.txt", README.as_bytes());
    store.put_synthetic(BUCKET, MODEL, MODEL_SIZE, MODEL_SEED);
    for class in 0..CLASSES {
        for image in 0..IMAGES_PER_CLASS {
            let key = format!("images/class-{class}/img-{image:04}.jpg");
            store.put_synthetic(
                BUCKET,
                &key,
                IMAGE_SIZE,
                u64::from(class * IMAGES_PER_CLASS + image),
            );
        }
    }
    for month in 1..=12 {
        let text = format!("month {month}: nothing happened\n").repeat(100);
        store.put(
            BUCKET,
            &format!("logs/2026/{month:02}/events.log"),
            text.into_bytes(),
        );
    }
    Ok(server)
}

/// Files in the bucket.
pub(crate) const FILES: u64 = 1 + 1 + (CLASSES * IMAGES_PER_CLASS) as u64 + 12;
