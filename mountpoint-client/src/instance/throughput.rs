//! The throughput of an EC2 instance's network, by its type.
//!
//! The figures are EC2's own; `data/instance_throughput.py` writes the table and says where they
//! come from. They decide how many connections are opened. Pure.

/// Gigabits per second of an instance type, as `c5n.18xlarge`; `None` if the type is not known.
#[must_use]
pub fn instance_throughput_gbps(instance_type: &str) -> Option<f64> {
    let (family, size) = instance_type.split_once('.')?;
    families()
        .find(|(name, _)| *name == family)?
        .1
        .find(|(name, _)| *name == size)
        .map(|(_, gbps)| gbps)
}

/// A line for each family: its name, then `SIZE=GBPS` for each of its sizes, between tabs.
const TABLE: &str = include_str!("../../data/instance_throughput.tsv");

/// Families by name, with what each of their sizes carries.
fn families() -> impl Iterator<Item = (&'static str, impl Iterator<Item = (&'static str, f64)>)> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let (family, sizes) = line.split_once('\t')?;
        let sizes = sizes.split('\t').filter_map(|size| {
            let (size, gbps) = size.split_once('=')?;
            Some((size, gbps.parse().ok()?))
        });
        Some((family, sizes))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn types_and_what_they_carry() {
        for (instance_type, gbps) in [
            ("m5.large", Some(10.0)),
            ("m5.metal", Some(25.0)),
            ("c5n.18xlarge", Some(100.0)),
            ("c6in.32xlarge", Some(200.0)),
            ("c7gn.16xlarge", Some(200.0)),
            ("r7i.metal-48xl", Some(50.0)),
            ("m8g.4xlarge", Some(15.0)),
            ("g6e.48xlarge", Some(400.0)),
            ("g7e.48xlarge", Some(1600.0)),
            ("c8gn.48xlarge", Some(600.0)),
            ("i7ie.48xlarge", Some(200.0)),
            ("p3.16xlarge", Some(25.0)),
            ("p4d.24xlarge", Some(400.0)),
            ("p5.48xlarge", Some(3200.0)),
            ("p6-b200.48xlarge", Some(3200.0)),
            ("p6-b300.48xlarge", Some(6400.0)),
            ("trn1.32xlarge", Some(800.0)),
            ("trn2.48xlarge", Some(3200.0)),
            ("u7in-32tb.224xlarge", Some(200.0)),
            ("t3.micro", Some(5.0)),
            ("m5.5xlarge", None),
            ("zz9.large", None),
            ("c5", None),
            ("", None),
            (".", None),
            ("# Written by instance_throughput.py", None),
            ("m5\tlarge.xlarge", None),
            ("m5.large=10\txlarge", None),
        ] {
            assert_eq!(
                instance_throughput_gbps(instance_type),
                gbps,
                "{instance_type}"
            );
        }
    }

    #[test]
    fn every_entry_of_the_table_is_read_once() {
        let mut seen = HashSet::new();
        for (family, sizes) in families() {
            for (size, gbps) in sizes {
                assert!(seen.insert((family, size)), "{family}.{size} stands twice");
                assert!((0.1..=6400.0).contains(&gbps), "{family}.{size}: {gbps}");
            }
        }
        assert_eq!(seen.len(), TABLE.matches('=').count());
    }
}
