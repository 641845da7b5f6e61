//! Credentials and signatures of requests: the CRT's signing configuration and our provider.

pub(crate) mod credentials;
pub(crate) mod express;
pub(crate) mod signing;
