//! How long names and attributes are remembered.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::TimeToLive;
use crate::config::NamesConfig;

/// Flags under "Metadata options".
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Metadata options")]
pub struct MetadataFlags {
    /// How long names and attributes are remembered, and files opened without asking whether they
    /// are the newest [default: minimal, 1 s, and every open asks]
    #[arg(long, value_name = "SECONDS|indefinite|minimal")]
    pub metadata_ttl: Option<TimeToLive>,

    /// How long the absence of a name is remembered [default: that of --metadata-ttl; minimal is
    /// not at all]
    #[arg(long, value_name = "SECONDS|indefinite|minimal")]
    pub negative_metadata_ttl: Option<TimeToLive>,

    /// Take names, sizes, times and versions from this file, which `mount-s3 index` made, and ask
    /// S3 for bytes alone; the mount is read-only
    #[arg(long, value_name = "FILE")]
    pub index: Option<PathBuf>,
}

impl MetadataFlags {
    /// The settings that the flags select.
    #[must_use]
    pub fn names_config(&self) -> NamesConfig {
        // An index does not change.
        let unless_given = self.index.as_ref().map(|_| TimeToLive::Indefinite);
        let positive = self.metadata_ttl.or(unless_given);
        let positive = positive.and_then(TimeToLive::duration);
        let negative = match self.negative_metadata_ttl {
            Some(ttl) => ttl.duration(),
            None => positive,
        };
        let minimal = NamesConfig::default();
        let is_negative_minimal = negative.is_none() && self.negative_metadata_ttl.is_some();
        NamesConfig {
            ttl: positive.unwrap_or(minimal.ttl),
            negative_ttl: negative.unwrap_or(minimal.negative_ttl),
            create_ttl: match is_negative_minimal {
                true => Duration::ZERO,
                false => minimal.create_ttl,
            },
            opens_unasked: positive.is_some(),
            ..minimal
        }
    }

    /// Differences between the flags and the mount's behaviour.
    pub(in crate::cli) fn warnings(&self) -> Vec<String> {
        [
            ("metadata-ttl", self.metadata_ttl),
            ("negative-metadata-ttl", self.negative_metadata_ttl),
        ]
        .into_iter()
        .filter(|(_, ttl)| *ttl == Some(TimeToLive::Seconds(0)))
        .map(|(flag, _)| format!("--{flag} 0 means 'minimal'; write --{flag} minimal"))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_what_they_mean() {
        let check = |positive: &str, negative: &str, ttl, negative_ttl, opens_unasked| {
            let parse = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
            let flags = MetadataFlags {
                metadata_ttl: parse(positive),
                negative_metadata_ttl: parse(negative),
                index: None,
            };
            let expected = NamesConfig {
                ttl: Duration::from_secs(ttl),
                negative_ttl: Duration::from_secs(negative_ttl),
                create_ttl: match negative {
                    "minimal" | "0" => Duration::ZERO,
                    _ => Duration::from_secs(1),
                },
                opens_unasked,
                ..NamesConfig::default()
            };
            assert_eq!(flags.names_config(), expected, "{positive:?} {negative:?}");
        };
        let forever = u64::from(u32::MAX);
        check("", "", 1, 0, false);
        check("minimal", "", 1, 0, false);
        check("0", "0", 1, 0, false);
        check("60", "", 60, 60, true);
        check("60", "minimal", 60, 0, true);
        check("60", "5", 60, 5, true);
        check("", "5", 1, 5, false);
        check("indefinite", "", forever, forever, true);
        check("18446744073709551615", "minimal", forever, 0, true);
        let flags = MetadataFlags {
            index: Some(PathBuf::from("names")),
            ..MetadataFlags::default()
        };
        let config = flags.names_config();
        assert_eq!(config.ttl, Duration::from_secs(forever));
        assert!(config.opens_unasked);
    }
}
