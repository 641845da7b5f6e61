//! `mount-s3`.
fn main() {}
