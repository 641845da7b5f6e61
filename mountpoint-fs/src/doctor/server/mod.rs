//! Asks the server, step by step, and passes each answer to its judge.
//!
//! Requests change nothing; the checks of writes, which must be asked for, stand in
//! `write_trial`.
//!
//! A step that times out is a finding, and so is the first one without an answer; then the rest is
//! left out, so that a dead server costs the time of one step.

mod bucket;
mod clock;
mod credentials;
mod features;
mod object;
mod shared_cache;
mod write_checks;
mod write_trial;

use std::future::Future;
use std::time::Duration;

use mountpoint_client::credentials::CredentialsMode;
use mountpoint_client::crt_client::{CrtClient, CrtClientOptions, Probe};
use mountpoint_client::types::{BucketInfo, ETag, ListRequest, ObjectInfo};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};
use tokio::runtime::Handle;

use crate::doctor::finding::{Area, Check, Finding};
use crate::doctor::recommendation::Change;
use crate::doctor::report::Report;
use crate::mount::MountConfig;
use bucket::RegionSource;

/// Examines the bucket. Returns the flags that the given ones lack.
pub(in crate::doctor) async fn check(
    config: &MountConfig,
    checks_writes: bool,
    report: &mut Report,
) -> Vec<Change> {
    let mut options = config.client.clone();
    options.max_attempts = options.max_attempts.min(DOCTOR_ATTEMPTS);
    options.request_deadline = DOCTOR_STEP;
    let mut visit = Visit {
        prefix: &config.fs.prefix,
        region: match options.region {
            Some(_) => RegionSource::Given,
            None => RegionSource::Found,
        },
        options,
        changes: Vec::new(),
    };
    let whole = visit.run(report);
    let in_time = tokio::time::timeout(DOCTOR_SERVER, whole).await;
    let client = match in_time {
        // Outside of the time limit, which would cut the removal off.
        Ok(Some(client)) if checks_writes => {
            let place = (config.fs.prefix.as_str(), config.fs.write.checksum);
            write_trial::check(&client, place, report).await;
            Some(client)
        }
        Ok(client) => client,
        Err(_) => {
            report.add(broken_off());
            None
        }
    };
    if let Some(source) = &config.shared_cache {
        let region = visit.options.region.clone();
        let mount = client.as_ref().map(|client| client as &dyn ObjectClient);
        let mounted = mount.map(|mount| (mount, config.fs.prefix.as_str()));
        shared_cache::check(source, (region, mounted), checks_writes, report).await;
    }
    visit.changes
}

fn broken_off() -> Finding {
    let found = format!(
        "broken off after {} s: the server is slow",
        DOCTOR_SERVER.as_secs()
    );
    let advice = "check the network and the proxy in between, and ask the operator of the server";
    Check(Area::Server, "time").error(found, advice)
}

/// One examination of a bucket.
struct Visit<'a> {
    prefix: &'a str,
    options: CrtClientOptions,
    region: RegionSource,
    changes: Vec<Change>,
}

impl Visit<'_> {
    /// The client, if the bucket can be listed.
    async fn run(&mut self, report: &mut Report) -> Option<CrtClient> {
        report.looking_at("credentials");
        let client = self.connect(report).await?;
        let source = client.credentials_source();
        report.add(credentials::found(
            &self.options.credentials,
            source.as_deref(),
        ));
        report.looking_at("bucket");
        let proxy = self.options.proxy.for_url(client.endpoint());
        report.add(bucket::proxy(proxy.map(ToString::to_string).as_deref()));
        let (client, probe) = self.reach(client, report).await?;
        self.tell_bucket(&client, &probe, report);
        let objects = self.list(&client, report).await?;
        report.looking_at("objects");
        self.read(&client, &objects, report).await;
        Some(client)
    }

    /// A client, which has credentials.
    async fn connect(&self, report: &mut Report) -> Option<CrtClient> {
        let connecting = CrtClient::connect(self.options.clone(), Handle::current());
        match step(DOCTOR_CONNECT, connecting).await {
            Some(Ok(client)) => Some(client),
            Some(Err(error)) if error.kind == ErrorKind::Credentials => {
                report.add(credentials::missing(&error));
                None
            }
            Some(Err(error)) => {
                report.add(Check(Area::Bucket, "client").failed(&error));
                None
            }
            None => {
                report.add(credentials::slow(DOCTOR_CONNECT.as_secs()));
                None
            }
        }
    }

    /// The first answer, after corrections of region and addressing. `None` without an answer.
    async fn reach(
        &mut self,
        mut client: CrtClient,
        report: &mut Report,
    ) -> Option<(CrtClient, Probe<BucketInfo>)> {
        let mut probe = step(DOCTOR_STEP, client.probe_bucket()).await;
        for _ in 0..CORRECTIONS_MAX {
            let Some(corrected) = self.correct(&client, probe.as_ref()) else {
                break;
            };
            let before = std::mem::replace(&mut self.options, corrected.options);
            let connecting = CrtClient::connect(self.options.clone(), Handle::current());
            let Some(Ok(other)) = step(DOCTOR_CONNECT, connecting).await else {
                self.options = before;
                break;
            };
            let second = step(DOCTOR_STEP, other.probe_bucket()).await;
            let is_better = second.as_ref().is_some_and(|probe| probe.outcome.is_ok());
            if !corrected.is_certain && !is_better {
                // The guess was wrong: the first answer is more informative.
                self.options = before;
                break;
            }
            if let Some(region) = corrected.region {
                self.region = region;
            }
            self.changes.push(corrected.change);
            (client, probe) = (other, second);
        }
        let seconds = DOCTOR_STEP.as_secs();
        match probe {
            Some(probe) if probe.head.is_some() => Some((client, probe)),
            Some(probe) => {
                let error = probe.outcome.as_ref().err();
                report.add(bucket::not_reached(client.endpoint(), error, seconds));
                None
            }
            None => {
                report.add(bucket::not_reached(client.endpoint(), None, seconds));
                None
            }
        }
    }

    /// The correction that an answer suggests.
    fn correct(&self, client: &CrtClient, probe: Option<&Probe<BucketInfo>>) -> Option<Correction> {
        let error = match probe.map(|probe| &probe.outcome) {
            Some(Ok(_)) => return None,
            Some(Err(error)) => error.kind.clone(),
            None => ErrorKind::Unreachable,
        };
        let mut options = self.options.clone();
        match error {
            ErrorKind::WrongRegion(Some(region)) if region != client.region() => {
                options.region = Some(region.clone());
                let reason = format!("the bucket is in {region}");
                Some(Correction {
                    options,
                    region: Some(RegionSource::Corrected {
                        from: client.region().to_owned(),
                        was_given: self.region == RegionSource::Given,
                    }),
                    change: Change::value("--region", region, reason),
                    is_certain: true,
                })
            }
            ErrorKind::Unreachable
            | ErrorKind::NoSuchBucket
            | ErrorKind::InvalidResponse
            | ErrorKind::InvalidRequest
            | ErrorKind::Denied
                if options.endpoint_url.is_some() && !options.force_path_style =>
            {
                options.force_path_style = true;
                let reason = "the server does not know the bucket by a host name";
                Some(Correction {
                    options,
                    region: None,
                    change: Change::switch("--force-path-style", reason),
                    is_certain: false,
                })
            }
            _ => None,
        }
    }

    fn tell_bucket(&self, client: &CrtClient, probe: &Probe<BucketInfo>, report: &mut Report) {
        if let Some(head) = &probe.head {
            report.add(bucket::reached(client.endpoint(), head));
            let is_signed = !matches!(self.options.credentials, CredentialsMode::Unsigned);
            report.add(clock::judge(head.clock_ahead_s, is_signed));
        }
        let style = |change: &Change| change.flag.name == "--force-path-style";
        if self.changes.iter().any(style) {
            report.add(Check(Area::Bucket, "addressing").warning(
                "the bucket is found in the path, not by a host name",
                "mount with --force-path-style",
            ));
        }
        report.add(bucket::region(client.region(), &self.region));
        report.add(bucket::head_bucket(probe));
    }

    /// The first request of a mount, and a page to choose objects from.
    ///
    /// `None` if the bucket cannot be mounted.
    async fn list(&self, client: &CrtClient, report: &mut Report) -> Option<Vec<ObjectInfo>> {
        let request = ListRequest {
            prefix: self.prefix.to_owned(),
            max_keys: Some(OBJECTS_MAX),
            ..ListRequest::default()
        };
        let listed = step(DOCTOR_STEP, client.list(request)).await;
        let listed = listed.unwrap_or_else(|| Err(slow("ListObjectsV2")));
        let outcome = listed.map(|page| page.objects);
        let counted = outcome.as_ref().map(Vec::len).map_err(Clone::clone);
        report.add(bucket::list(self.prefix, &counted));
        outcome.ok()
    }

    /// Examines further features, with an object if there is one.
    async fn read(&self, client: &CrtClient, objects: &[ObjectInfo], report: &mut Report) {
        let object = objects.iter().find(|object| object::is_readable(object));
        let seen = match object {
            Some(object) => Some(self.read_object(client, object, report).await),
            None => {
                report.add(bucket::no_object("HeadObject"));
                report.add(bucket::no_object("GetObject"));
                None
            }
        };
        report.looking_at("the server's features");
        let shape = client.probe_listing(self.prefix, OBJECTS_MAX);
        let shape = step(DOCTOR_STEP, shape).await;
        let shape = shape.map_or_else(|| Err(slow("ListObjectsV2")), |probe| probe.outcome);
        report.extend(features::listing(
            &shape,
            self.options.is_directory_bucket(),
        ));
        if let (Some(object), Some(seen)) = (object, seen) {
            self.tell_object(client, object, seen, report).await;
        }
        report.add(features::rename(self.options.is_directory_bucket()));
    }

    /// Whether an object may be read.
    async fn read_object(
        &self,
        client: &CrtClient,
        object: &ObjectInfo,
        report: &mut Report,
    ) -> Seen {
        let key = object.key.as_str();
        let probe = step(DOCTOR_STEP, client.probe_object(&object.key)).await;
        let (head, answer) = match probe {
            Some(probe) => (probe.outcome, probe.head),
            None => (Err(slow("HeadObject")), None),
        };
        report.add(bucket::on_object("HeadObject", key, &head));
        let range = get(client, object, object.etag.clone()).await;
        report.add(bucket::on_object("GetObject", key, &range));
        Seen {
            checksums: head.ok().and(answer).map(|answer| answer.checksums),
            range,
        }
    }

    /// Examines the server's answers to requests for an object.
    async fn tell_object(
        &self,
        client: &CrtClient,
        object: &ObjectInfo,
        seen: Seen,
        report: &mut Report,
    ) {
        report.add(features::range(&seen.range));
        if seen.range.is_ok() {
            let outcome = get(client, object, object::absent_version()).await;
            report.add(features::if_match(&outcome));
        }
        if let Some(names) = &seen.checksums {
            report.add(features::checksums(object.key.as_str(), names));
        }
    }
}

/// Other settings to try.
struct Correction {
    options: CrtClientOptions,
    /// The new region, if the correction is one.
    region: Option<RegionSource>,
    change: Change,
    /// The server named the correction; otherwise it is a guess.
    is_certain: bool,
}

/// Results of requests for an object.
struct Seen {
    /// `None` if HeadObject failed.
    checksums: Option<Vec<String>>,
    range: Result<(), ClientError>,
}

/// Reads a few bytes of a version of an object.
async fn get(client: &CrtClient, object: &ObjectInfo, version: ETag) -> Result<(), ClientError> {
    let range = object::range_of(object.size);
    let get = object::get(client, &object.key, range, version);
    let outcome = step(DOCTOR_STEP, get).await;
    outcome.unwrap_or_else(|| Err(slow("GetObject")))
}

/// The output of `future`, if it is ready in time.
async fn step<T>(time_max: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time_max, future).await.ok()
}

fn slow(request: &str) -> ClientError {
    let seconds = DOCTOR_STEP.as_secs();
    ClientError::new(
        ErrorKind::Transient,
        format!("{request}: no answer within {seconds} s"),
    )
}

/// Objects to list: enough to see an order and to find a readable one.
const OBJECTS_MAX: u16 = 100;
/// Bound of corrections: a region and a way of addressing.
const CORRECTIONS_MAX: usize = 2;

/// How long the doctor waits for region and credentials. An SSO or assume-role provider makes a few
/// requests.
const DOCTOR_CONNECT: Duration = Duration::from_secs(8);

/// Attempts of one request of the doctor: more would hide failures that a mount meets.
const DOCTOR_ATTEMPTS: u32 = 3;

/// How long the doctor waits for one answer of the server.
const DOCTOR_STEP: Duration = Duration::from_secs(5);

/// How long the doctor waits for the server in all. A dead endpoint then takes less than 20 s
/// altogether.
const DOCTOR_SERVER: Duration = Duration::from_secs(15);
