//! Prices of requests and bytes: built in for AWS, from a file for other stores.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use mountpoint_client::billing::BilledUsage;
use serde::Deserialize;

/// The prices of one store, in one currency. A charge that is not named is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::mount) struct Prices {
    /// A thousand PUTs, COPYs, POSTs and LISTs.
    pub(in crate::mount) put_per_1000: f64,
    /// A thousand GETs and others.
    pub(in crate::mount) get_per_1000: f64,
    /// A thousand DELETEs.
    pub(in crate::mount) delete_per_1000: f64,
    /// 2^30 bytes that are sent.
    pub(in crate::mount) upload_per_gib: f64,
    /// 2^30 bytes that are received.
    pub(in crate::mount) download_per_gib: f64,
}

/// Costs of a mount's requests by what S3 charges for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::mount) struct Cost {
    /// PUT, COPY, POST, LIST.
    pub(in crate::mount) puts: f64,
    /// GET and others.
    pub(in crate::mount) gets: f64,
    /// DELETE.
    pub(in crate::mount) deletes: f64,
    /// Bytes that were sent.
    pub(in crate::mount) sent: f64,
    /// Bytes that were received.
    pub(in crate::mount) received: f64,
}

impl Prices {
    /// The cost of `usage`.
    #[must_use]
    pub(in crate::mount) fn cost(&self, usage: &BilledUsage) -> Cost {
        let requests = |count: u64, price: f64| count as f64 * price / 1000.0;
        let bytes = |count: u64, price: f64| count as f64 * price / GIB;
        Cost {
            puts: requests(usage.puts, self.put_per_1000),
            gets: requests(usage.gets, self.get_per_1000),
            deletes: requests(usage.deletes, self.delete_per_1000),
            sent: bytes(usage.sent, self.upload_per_gib),
            received: bytes(usage.received, self.download_per_gib),
        }
    }

    /// Whether each is a number, and not below zero.
    fn is_valid(&self) -> bool {
        let each = [
            self.put_per_1000,
            self.get_per_1000,
            self.delete_per_1000,
            self.upload_per_gib,
            self.download_per_gib,
        ];
        each.iter().all(|price| price.is_finite() && *price >= 0.0)
    }
}

impl Cost {
    /// The sum.
    #[must_use]
    pub(in crate::mount) fn total(&self) -> f64 {
        self.puts + self.gets + self.deletes + self.sent + self.received
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.puts += other.puts;
        self.gets += other.gets;
        self.deletes += other.deletes;
        self.sent += other.sent;
        self.received += other.received;
    }
}

/// Prices that the user gives.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::mount) struct PriceFile {
    path: PathBuf,
    content: PriceFileContent,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFileContent {
    /// Of the mounted bucket.
    bucket: Prices,
    /// Of the bucket of `--cache-bucket` or `--cache-xz`.
    #[serde(default)]
    cache_bucket: Prices,
}

impl PriceFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// A text for the user.
    pub(in crate::mount) fn read(path: &Path) -> Result<Self, String> {
        let text = || {
            let mut text = String::new();
            File::open(path)?
                .take(PRICE_FILE_MAX)
                .read_to_string(&mut text)?;
            Ok::<_, std::io::Error>(text)
        };
        let refused = |why: String| format!("--price-file {}: {why}", path.display());
        let text = text().map_err(|error| refused(error.to_string()))?;
        let content: PriceFileContent =
            serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
        if !content.bucket.is_valid() || !content.cache_bucket.is_valid() {
            return Err(refused("a price is a number from 0".to_owned()));
        }
        Ok(Self {
            path: path.to_owned(),
            content,
        })
    }
}

/// The bucket of a shared cache, for its prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mount) enum CacheBucket {
    /// There is none.
    None,
    /// A bucket of AWS in the region of the mounted bucket.
    Amazon {
        /// Whether it is a directory bucket.
        is_express: bool,
    },
    /// A bucket at another endpoint.
    Elsewhere,
}

/// The prices of the buckets of a mount, and where they come from.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::mount) struct StorePrices {
    /// Of the mounted bucket.
    pub(in crate::mount) bucket: Prices,
    /// Of the bucket of a shared cache.
    pub(in crate::mount) cache_bucket: Prices,
    /// For people: `S3 Standard in us-east-1`.
    pub(in crate::mount) source: String,
}

impl StorePrices {
    /// The prices of a user's file.
    #[must_use]
    pub(in crate::mount) fn of_file(file: &PriceFile) -> Self {
        Self {
            bucket: file.content.bucket,
            cache_bucket: file.content.cache_bucket,
            source: file.path.display().to_string(),
        }
    }

    /// The prices of AWS in `region`, of a bucket and the bucket of a shared cache.
    #[must_use]
    pub(in crate::mount) fn of_amazon(region: &str, is_express: bool, cache: CacheBucket) -> Self {
        let list = PriceList::built_in();
        let (bucket, mut source) = list.find(region, is_express);
        let cache_bucket = match cache {
            CacheBucket::None => Prices::default(),
            CacheBucket::Elsewhere => {
                source.push_str("; prices of the cache are not known");
                Prices::default()
            }
            CacheBucket::Amazon { is_express } => {
                let (prices, name) = list.find(region, is_express);
                source.push_str(&format!("; cache: {name}"));
                prices
            }
        };
        Self {
            bucket,
            cache_bucket,
            source,
        }
    }
}

/// Prices of AWS by region.
#[derive(Debug, Deserialize)]
struct PriceList {
    date: String,
    standard: BTreeMap<String, Prices>,
    express: BTreeMap<String, Prices>,
}

impl PriceList {
    /// The list of this version of the program.
    fn built_in() -> Self {
        serde_json::from_str(include_str!("price_list.json")).expect("a test reads it")
    }

    /// The prices of a bucket in `region`, and their name.
    fn find(&self, region: &str, is_express: bool) -> (Prices, String) {
        let (prices, class) = match is_express {
            true => (&self.express, "S3 Express One Zone"),
            false => (&self.standard, "S3 Standard"),
        };
        let date = &self.date;
        match prices.get(region) {
            Some(prices) => (*prices, format!("{class} in {region}, {date}")),
            None => {
                let prices = prices.get(REGION_DEFAULT).copied().unwrap_or_default();
                let name = format!(
                    "{class} in {REGION_DEFAULT}, {date}: the prices of {region} are not known, \
                     --price-file gives them"
                );
                (prices, name)
            }
        }
    }
}

/// The region whose prices stand for those of regions that are not in the list.
const REGION_DEFAULT: &str = "us-east-1";

/// Bytes of a GiB, which AWS calls GB.
const GIB: f64 = (1_u64 << 30) as f64;

/// Most bytes of a price file that are read: a file has a few hundred.
const PRICE_FILE_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// The cost of a million of each request and a TiB each way, to a hundredth of a cent.
    #[track_caller]
    fn check(prices: &Prices, puts: f64, gets: f64, bytes: f64) {
        let million = BilledUsage {
            puts: 1_000_000,
            gets: 1_000_000,
            deletes: 1_000_000,
            sent: 1 << 40,
            received: 1 << 40,
        };
        let cost = prices.cost(&million);
        let is = |value: f64, expected: f64| (value - expected).abs() < 1e-4;
        assert!(is(cost.puts, puts) && is(cost.gets, gets), "{cost:?}");
        assert!(is(cost.sent + cost.received, bytes), "{cost:?}");
        assert!(is(cost.total(), puts + gets + bytes), "{cost:?}");
    }

    #[test]
    fn prices_of_amazon() {
        let standard = StorePrices::of_amazon("us-east-1", false, CacheBucket::None);
        assert_eq!(standard.source, "S3 Standard in us-east-1, 2026-11-24");
        check(&standard.bucket, 5.0, 0.4, 0.0);
        check(&standard.cache_bucket, 0.0, 0.0, 0.0);
        let express = CacheBucket::Amazon { is_express: true };
        let frankfurt = StorePrices::of_amazon("eu-central-1", false, express);
        check(&frankfurt.bucket, 5.4, 0.43, 0.0);
        check(&frankfurt.cache_bucket, 1.13, 0.03, 1024.0 * 0.0038);
        assert!(
            frankfurt.source.ends_with(
                "; cache: S3 Express One Zone in us-east-1, 2026-11-24: the prices of \
                 eu-central-1 are not known, --price-file gives them"
            ),
            "{}",
            frankfurt.source
        );
        let london = StorePrices::of_amazon("eu-west-2", false, CacheBucket::None);
        assert_eq!(london.source, "S3 Standard in eu-west-2, 2026-11-24");
        check(&london.bucket, 5.3, 0.42, 0.0);
        let unknown = StorePrices::of_amazon("xx-nowhere-9", false, CacheBucket::Elsewhere);
        assert_eq!(unknown.bucket, standard.bucket);
        assert!(unknown.source.contains("xx-nowhere-9 are not known"));
        assert!(
            unknown
                .source
                .ends_with("; prices of the cache are not known")
        );
    }

    #[test]
    fn all_prices_of_the_list_are_valid() {
        let list = PriceList::built_in();
        for prices in list.standard.values().chain(list.express.values()) {
            assert!(prices.is_valid() && prices.put_per_1000 > 0.0 && prices.get_per_1000 > 0.0);
        }
    }

    #[test]
    fn price_files_are_checked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("prices.json");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            PriceFile::read(&path)
        };
        let file = read(r#"{"bucket": {"put_per_1000": 2, "download_per_gib": 0.5}}"#).unwrap();
        let prices = StorePrices::of_file(&file);
        check(&prices.bucket, 2000.0, 0.0, 512.0);
        assert_eq!(prices.cache_bucket, Prices::default());
        for (text, expected) in [
            ("", "EOF"),
            ("{}", "missing field `bucket`"),
            (r#"{"bucket": {"put": 1}}"#, "unknown field `put`"),
            (r#"{"bucket": {"put_per_1000": -1}}"#, "a number from 0"),
            (r#"{"bucket": {"put_per_1000": "1"}}"#, "invalid type"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with("--price-file /"), "{error}");
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(PriceFile::read(Path::new("/nowhere")).is_err());
    }
}
