//! The workloads, a file for each group or two.

mod application;
mod cached;
mod first_byte;
mod loading;
mod metadata;
mod networks;
mod pattern;
mod random;
mod sequential;
mod staged;
mod tls;
mod write;

use super::Workload;
use crate::dataset::Dataset;

pub(super) fn all(data: &Dataset) -> Vec<Workload> {
    let tables = [
        sequential::table,
        cached::page::table,
        cached::disk::table,
        random::table,
        pattern::table,
        application::table,
        loading::table,
        first_byte::table,
        metadata::table,
        write::table,
        staged::table,
        tls::table,
        networks::table,
    ];
    tables.iter().flat_map(|table| table(data)).collect()
}
