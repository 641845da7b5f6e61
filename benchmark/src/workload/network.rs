//! Several network interfaces, each shaped.

use super::{Action, Group, Link, Mode, Unit, Workload};
use crate::dataset::{Dataset, MIB};

/// Slow enough that two cores fill four of them.
const MEGABITS_PER_SECOND: u64 = 1000;

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let row = |interfaces: u64| Workload {
        name: format!("nic-{interfaces}"),
        group: Group::Network,
        before: None,
        action: Action::Sequential {
            files: data.streams.first(8),
            block: MIB,
            mode: Mode::Direct,
        },
        unit: Unit::GigabytesPerSecond,
        conditions: None,
        link: Some(Link {
            interfaces,
            megabits_per_second: MEGABITS_PER_SECOND,
        }),
        description: format!(
            "eight files at once over {interfaces} interfaces (--bind), each shaped to 1 Gbit/s"
        ),
    };
    [1, 2, 4].map(row).to_vec()
}
