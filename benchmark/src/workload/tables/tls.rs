//! Rows of other groups over TLS, as S3 is read and written.

use super::{application, random, sequential, write};
use crate::dataset::Dataset;
use crate::workload::{Group, Workload};

/// Rows of groups of which not all are measured again.
const OTHERS: [&str; 2] = ["rand-4k-16t", "small-100k"];

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let others = random::table(data)
        .into_iter()
        .chain(application::table(data));
    let others = others.filter(|row| OTHERS.contains(&row.name.as_str()));
    let rows = sequential::table(data).into_iter().chain(others);
    let rows = rows.chain(write::table(data));
    rows.map(over_tls).collect()
}

fn over_tls(row: Workload) -> Workload {
    Workload {
        name: format!("tls-{}", row.name),
        group: Group::Tls,
        is_over_tls: true,
        description: format!("{}, over TLS", row.description),
        ..row
    }
}
