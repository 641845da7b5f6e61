//! What the network of an EC2 instance carries, by its type.
//!
//! From the instance type pages that AWS publishes, as of 2026; where they say "up to", that. It decides how many
//! connections are opened, so a family that is not here only gets the default. Pure.

/// Gigabits per second of an instance type, as `c5n.18xlarge`; `None` if it is not known.
#[must_use]
pub fn instance_throughput_gbps(instance_type: &str) -> Option<f64> {
    let (family, size) = instance_type.split_once('.')?;
    let (_, sizes) = FAMILIES
        .iter()
        .find(|(families, _)| families.split(' ').any(|name| name == family))?;
    sizes
        .iter()
        .find(|(names, _)| names.split(' ').any(|name| name == size))
        .map(|(_, gbps)| *gbps)
}

type Sizes = &'static [(&'static str, f64)];

/// Families with the same sizes, and what each size carries.
const FAMILIES: &[(&str, Sizes)] = &[
    (
        "m5 m5d r5 r5d r5b",
        &[
            ("large xlarge 2xlarge 4xlarge 8xlarge", 10.0),
            ("12xlarge", 12.0),
            ("16xlarge", 20.0),
            ("24xlarge metal", 25.0),
        ],
    ),
    (
        "m5a m5ad r5a r5ad",
        &[
            ("large xlarge 2xlarge 4xlarge 8xlarge 12xlarge", 10.0),
            ("16xlarge", 12.0),
            ("24xlarge", 20.0),
        ],
    ),
    (
        "m5n m5dn r5n r5dn",
        &[
            ("large xlarge 2xlarge 4xlarge 8xlarge", 25.0),
            ("12xlarge", 50.0),
            ("16xlarge", 75.0),
            ("24xlarge metal", 100.0),
        ],
    ),
    (
        "m5zn",
        &[
            ("large xlarge 2xlarge 3xlarge", 25.0),
            ("6xlarge", 50.0),
            ("12xlarge metal", 100.0),
        ],
    ),
    (
        "c5 c5d",
        &[
            ("large xlarge 2xlarge 4xlarge", 10.0),
            ("9xlarge 12xlarge", 12.0),
            ("18xlarge 24xlarge metal", 25.0),
        ],
    ),
    (
        "c5n",
        &[
            ("large xlarge 2xlarge 4xlarge", 25.0),
            ("9xlarge", 50.0),
            ("18xlarge metal", 100.0),
        ],
    ),
    (
        "c6i c6id m6i m6id r6i r6id c6a m6a r6a",
        &[
            ("large xlarge 2xlarge 4xlarge 8xlarge", 12.5),
            ("12xlarge", 18.75),
            ("16xlarge", 25.0),
            ("24xlarge", 37.5),
            ("32xlarge 48xlarge metal", 50.0),
        ],
    ),
    (
        "c6in m6in m6idn r6in r6idn",
        &[
            ("large", 25.0),
            ("xlarge", 30.0),
            ("2xlarge", 40.0),
            ("4xlarge 8xlarge", 50.0),
            ("12xlarge", 75.0),
            ("16xlarge", 100.0),
            ("24xlarge", 150.0),
            ("32xlarge metal", 200.0),
        ],
    ),
    (
        "c6g c6gd m6g m6gd r6g r6gd",
        &[
            ("medium large xlarge 2xlarge 4xlarge", 10.0),
            ("8xlarge", 12.0),
            ("12xlarge", 20.0),
            ("16xlarge metal", 25.0),
        ],
    ),
    (
        "c6gn",
        &[
            ("medium", 16.0),
            ("large xlarge 2xlarge 4xlarge", 25.0),
            ("8xlarge", 50.0),
            ("12xlarge", 75.0),
            ("16xlarge", 100.0),
        ],
    ),
    (
        "c7g c7gd m7g m7gd r7g r7gd",
        &[
            ("medium large xlarge", 12.5),
            ("2xlarge 4xlarge 8xlarge", 15.0),
            ("12xlarge", 22.5),
            ("16xlarge metal", 30.0),
        ],
    ),
    (
        "c7gn",
        &[
            ("medium", 25.0),
            ("large", 30.0),
            ("xlarge", 40.0),
            ("2xlarge 4xlarge", 50.0),
            ("8xlarge", 100.0),
            ("12xlarge", 150.0),
            ("16xlarge metal", 200.0),
        ],
    ),
    (
        "c7i m7i r7i c7a m7a r7a",
        &[
            ("medium large xlarge 2xlarge 4xlarge 8xlarge", 12.5),
            ("12xlarge", 18.75),
            ("16xlarge", 25.0),
            ("24xlarge metal-24xl", 37.5),
            ("32xlarge 48xlarge metal-48xl", 50.0),
        ],
    ),
    (
        "c8g m8g r8g",
        &[
            ("medium large xlarge", 12.5),
            ("2xlarge 4xlarge 8xlarge", 15.0),
            ("12xlarge", 22.5),
            ("16xlarge", 30.0),
            ("24xlarge metal-24xl", 40.0),
            ("48xlarge metal-48xl", 50.0),
        ],
    ),
    (
        "i3",
        &[
            ("large xlarge 2xlarge 4xlarge 8xlarge", 10.0),
            ("16xlarge metal", 25.0),
        ],
    ),
    (
        "i3en",
        &[
            ("large xlarge 2xlarge 3xlarge 6xlarge", 25.0),
            ("12xlarge", 50.0),
            ("24xlarge metal", 100.0),
        ],
    ),
    (
        "i4i",
        &[
            ("large xlarge", 10.0),
            ("2xlarge", 12.0),
            ("4xlarge", 25.0),
            ("8xlarge", 18.75),
            ("16xlarge", 37.5),
            ("32xlarge metal", 75.0),
        ],
    ),
    (
        "t3 t3a t4g",
        &[("nano micro small medium large xlarge 2xlarge", 5.0)],
    ),
    (
        "g4dn",
        &[
            ("xlarge 2xlarge 4xlarge", 25.0),
            ("8xlarge 12xlarge 16xlarge", 50.0),
            ("metal", 100.0),
        ],
    ),
    (
        "g5 g6",
        &[
            ("xlarge 2xlarge", 10.0),
            ("4xlarge 8xlarge 16xlarge", 25.0),
            ("12xlarge", 40.0),
            ("24xlarge", 50.0),
            ("48xlarge", 100.0),
        ],
    ),
    ("p3", &[("2xlarge 8xlarge", 10.0), ("16xlarge", 25.0)]),
    ("p3dn", &[("24xlarge", 100.0)]),
    ("p4d p4de", &[("24xlarge", 400.0)]),
    ("p5 p5e p5en", &[("48xlarge", 3200.0)]),
    ("trn1", &[("2xlarge", 12.5), ("32xlarge", 800.0)]),
    ("trn1n", &[("32xlarge", 1600.0)]),
    ("trn2", &[("48xlarge", 3200.0)]),
    (
        "inf2",
        &[
            ("xlarge", 15.0),
            ("8xlarge", 25.0),
            ("24xlarge", 50.0),
            ("48xlarge", 100.0),
        ],
    ),
];

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
            ("p4d.24xlarge", Some(400.0)),
            ("trn1.32xlarge", Some(800.0)),
            ("trn2.48xlarge", Some(3200.0)),
            ("t3.micro", Some(5.0)),
            ("m5.5xlarge", None),
            ("zz9.large", None),
            ("c5", None),
            ("", None),
            ("m5 m5d.large", None),
            ("m5.large xlarge", None),
        ] {
            assert_eq!(
                instance_throughput_gbps(instance_type),
                gbps,
                "{instance_type}"
            );
        }
    }

    #[test]
    fn no_type_is_listed_twice() {
        let mut seen = HashSet::new();
        for (families, sizes) in FAMILIES {
            for family in families.split(' ') {
                for (names, gbps) in *sizes {
                    for size in names.split(' ') {
                        assert!(seen.insert((family, size)), "{family}.{size}");
                        assert!((1.0..=3200.0).contains(gbps), "{family}.{size}");
                    }
                }
            }
        }
    }
}
