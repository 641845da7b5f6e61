//! The bucket of the shared cache.

use mountpoint_client::ObjectClient;

use super::DOCTOR_SERVER;
use crate::doctor::finding::{Area, Check};
use crate::doctor::report::Report;
use crate::mount::SharedCacheSource;

const CHECK: &str = "shared cache";

/// Examines the bucket of `source`; with `writes`, by an object that every mount writes. Of the
/// mounted bucket there are the region and, if it answers, a client and the prefix.
pub(in crate::doctor) async fn check(
    source: &SharedCacheSource,
    (region, mounted): (Option<String>, Option<(&dyn ObjectClient, &str)>),
    writes: bool,
    report: &mut Report,
) {
    report.looking_at(CHECK);
    let bucket = &source.config.bucket;
    let examined = tokio::time::timeout(DOCTOR_SERVER, source.examine(region, mounted, writes));
    let seconds = DOCTOR_SERVER.as_secs();
    let found = match examined.await {
        Ok(Ok(())) => {
            let what = match writes {
                true => "can be read and written",
                false => "can be read; --check-writes tells whether it can be written",
            };
            let found = format!("the bucket '{bucket}' {what}");
            return report.add(Check(Area::Bucket, CHECK).ok(found));
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("the server of bucket '{bucket}' did not answer within {seconds} s"),
    };
    let advice = "create the bucket, grant what it needs, or mount without the flag";
    report.add(Check(Area::Bucket, CHECK).error(found, advice));
}
