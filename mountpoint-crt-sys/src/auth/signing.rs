//! How the C library signs requests.
//!
//! Knows algorithms and scopes; asks for no keys, only tells C the provider to ask.

use std::fmt;
use std::sync::Arc;

use mountpoint_s3_crt_sys as sys;
use sys::aws_signing_algorithm as algorithm;

use super::credentials::{anonymous, delegate};
use crate::allocator::Allocator;
use crate::ffi::{Handle, cursor};
use crate::{CredentialsSource, CrtError};

/// How requests are signed. Bodies are not part of any signature.
#[derive(Clone)]
pub enum Signing {
    /// Not at all.
    Unsigned,
    /// AWS Signature Version 4.
    SigV4 {
        region: String,
        /// "s3", "s3express", "s3-outposts" or "s3-object-lambda".
        service: String,
        source: Arc<dyn CredentialsSource>,
    },
    /// AWS Signature Version 4A, good in several regions.
    SigV4a {
        /// Separated by commas; "*" for all.
        regions: String,
        service: String,
        source: Arc<dyn CredentialsSource>,
    },
    /// AWS Signature Version 4 with the keys of an S3 Express session, whose token has a header of
    /// its own.
    S3Express {
        region: String,
        /// The token of session keys.
        source: Arc<dyn CredentialsSource>,
    },
}

impl fmt::Debug for Signing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned => f.write_str("Unsigned"),
            Self::SigV4 {
                region, service, ..
            } => write!(f, "SigV4({region}, {service})"),
            Self::SigV4a {
                regions, service, ..
            } => write!(f, "SigV4a({regions}, {service})"),
            Self::S3Express { region, .. } => write!(f, "S3Express({region})"),
        }
    }
}

/// The CRT's means to sign: a provider, and the settings that refer to it.
pub(crate) struct Signer<'a> {
    provider: Handle<sys::aws_credentials_provider>,
    algorithm: algorithm,
    region: &'a str,
    service: &'a str,
}

impl<'a> Signer<'a> {
    pub(crate) fn new(allocator: Allocator, signing: &'a Signing) -> Result<Self, CrtError> {
        let (source, algorithm, region, service) = match signing {
            Signing::Unsigned => (None, algorithm::AWS_SIGNING_ALGORITHM_V4, "us-east-1", "s3"),
            Signing::SigV4 {
                region,
                service,
                source,
            } => {
                let algorithm = algorithm::AWS_SIGNING_ALGORITHM_V4;
                (Some(source), algorithm, &**region, &**service)
            }
            Signing::SigV4a {
                regions,
                service,
                source,
            } => {
                let algorithm = algorithm::AWS_SIGNING_ALGORITHM_V4_ASYMMETRIC;
                (Some(source), algorithm, &**regions, &**service)
            }
            Signing::S3Express { region, source } => {
                let algorithm = algorithm::AWS_SIGNING_ALGORITHM_V4_S3EXPRESS;
                (Some(source), algorithm, &**region, "s3express")
            }
        };
        let provider = match source {
            None => anonymous(allocator)?,
            Some(source) => delegate(allocator, Arc::clone(source))?,
        };
        Ok(Self {
            provider,
            algorithm,
            region,
            service,
        })
    }

    pub(crate) fn region(&self) -> &str {
        self.region
    }

    /// Whether the keys are a session's.
    pub(crate) fn is_express(&self) -> bool {
        self.algorithm == algorithm::AWS_SIGNING_ALGORITHM_V4_S3EXPRESS
    }

    /// The settings, good as long as self. Keys go into the signature as they are on the wire,
    /// encoded once, because S3 knows keys such as `a//b` and `a/../b`; bodies are not signed, over
    /// plain HTTP neither.
    pub(crate) fn config(&self) -> sys::aws_signing_config_aws {
        let mut config = sys::aws_signing_config_aws::default();
        let (config_ptr, provider) = (&raw mut config, self.provider.as_ptr());
        // SAFETY: fills the struct with values and pointers to what self owns.
        unsafe {
            sys::aws_s3_init_default_signing_config(
                config_ptr,
                cursor(self.region.as_bytes()),
                provider,
            );
        };
        config.algorithm = self.algorithm;
        config.service = cursor(self.service.as_bytes());
        config.flags.set_use_double_uri_encode(0);
        config.flags.set_should_normalize_uri_path(0);
        config
    }
}
