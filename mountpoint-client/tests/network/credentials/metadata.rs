//! Metadata of an EC2 instance beside credentials: the region and how many connections are worth
//! it.

use crate::support::child::{HANG, NO_ENDPOINT, Setting};
use crate::support::services::{HOUR, instance_metadata};
use crate::support::stub::Stub;

fn keys(setting: Setting) -> Setting {
    setting
        .variable("AWS_ACCESS_KEY_ID", "ENV")
        .variable("AWS_SECRET_ACCESS_KEY", "secret")
}

#[test]
fn region_and_connections_follow_the_instance() {
    let metadata = instance_metadata(HOUR);
    let setting = keys(Setting::behind(&[], NO_ENDPOINT)).on_instance(&metadata.url());
    let mut child = setting.start();
    child.check("connect", "ok");
    child.check("region", "eu-west-7");
    // 200 Gbit/s take 500 connections, and read-ahead may use as many.
    let debug = child.say("debug");
    assert!(debug.contains("0 of 500 in flight"), "{debug}");
}

#[test]
fn a_start_does_without_them() {
    let silent = Stub::silent();
    let started = tokio::time::Instant::now();
    let setting = keys(Setting::behind(&[], NO_ENDPOINT)).on_instance(&silent.url());
    let mut child = setting.start();
    child.check("connect", "ok");
    assert!(started.elapsed() < HANG, "{:?}", started.elapsed());
    child.check("region", "us-east-1");
    let debug = child.say("debug");
    assert!(debug.contains("0 of 64 in flight"), "{debug}");
}
