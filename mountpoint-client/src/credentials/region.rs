//! The region to use where the caller gives none.

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::imds;
use aws_config::imds::region::ImdsRegionProvider;
use aws_config::meta::region::{ProvideRegion, RegionProviderChain};
use aws_config::profile::ProfileFileRegionProvider;
use aws_sdk_s3::config::Region;

/// Environment, profile, then, where it is worth asking, instance metadata.
pub(crate) async fn find_region(
    profile: Option<&str>,
    metadata: Option<imds::Client>,
) -> Option<Region> {
    // The SDK takes a variable that is set to nothing for a region without a name.
    let environment = EnvironmentVariableRegionProvider::new().region().await;
    if let Some(region) = environment.filter(|region| !region.as_ref().is_empty()) {
        return Some(region);
    }
    let mut profile_files = ProfileFileRegionProvider::builder();
    if let Some(profile) = profile {
        profile_files = profile_files.profile_name(profile);
    }
    let mut chain = RegionProviderChain::first_try(profile_files.build());
    if let Some(metadata) = metadata {
        chain = chain.or_else(ImdsRegionProvider::builder().imds_client(metadata).build());
    }
    chain.region().await
}
