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
    /// The settings that the flags select. With a cache of contents, names are trusted as well.
    #[must_use]
    pub fn names_config(&self, has_cache: bool) -> NamesConfig {
        // An index does not change.
        let of_index = self.index.as_ref().map(|_| TimeToLive::Indefinite);
        let of_cache = has_cache.then_some(TimeToLive::Seconds(CACHE_TTL.as_secs()));
        let positive = self.metadata_ttl.or(of_index).or(of_cache);
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
            has_cache,
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

/// Default of `--metadata-ttl` with `--cache`, as in mountpoint-s3.
const CACHE_TTL: Duration = Duration::from_secs(60);

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
            assert_eq!(
                flags.names_config(false),
                expected,
                "{positive:?} {negative:?}"
            );
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
        let config = flags.names_config(false);
        assert_eq!(config.ttl, Duration::from_secs(forever));
        assert!(config.opens_unasked);
    }

    #[test]
    fn a_cache_has_names_trusted() {
        let ttl = |metadata_ttl| {
            let flags = MetadataFlags {
                metadata_ttl,
                ..MetadataFlags::default()
            };
            let config = flags.names_config(true);
            (config.ttl, config.opens_unasked)
        };
        assert_eq!(ttl(None), (CACHE_TTL, true));
        let minimal = Some(TimeToLive::Minimal);
        assert_eq!(ttl(minimal), (Duration::from_secs(1), false));
        let given = Some(TimeToLive::Seconds(5));
        assert_eq!(ttl(given), (Duration::from_secs(5), true));
    }
}
