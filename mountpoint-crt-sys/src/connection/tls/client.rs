//! Whom TLS trusts, and which server it expects.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CipherSuite, ClientConfig, RootCertStore};

use super::failure::TlsFailure;
use crate::CrtError;
use crate::error::OwnError;

/// Whom TLS trusts. Clones share what is made of it, and the sessions that can be resumed.
#[derive(Clone, Default)]
pub struct TlsOptions {
    trust: Arc<Trust>,
}

#[derive(Default)]
struct Trust {
    ca_bundle: Option<Vec<u8>>,
    /// Made when the first client needs it: the certificates of the operating system are many.
    config: OnceLock<Arc<ClientConfig>>,
}

/// TLS as one client speaks it, to one server.
pub(crate) struct TlsClient {
    pub(super) config: Arc<ClientConfig>,
    pub(super) server: ServerName<'static>,
    /// How long a handshake may take.
    pub(super) handshake_max: Duration,
}

impl TlsOptions {
    /// Trust in the authorities of a PEM bundle, or of the operating system.
    #[must_use]
    pub fn new(ca_bundle: Option<Vec<u8>>) -> Self {
        let config = OnceLock::new();
        Self {
            trust: Arc::new(Trust { ca_bundle, config }),
        }
    }

    pub(crate) fn ca_bundle(&self) -> Option<&[u8]> {
        self.trust.ca_bundle.as_deref()
    }

    /// TLS with the server of this name or address, an IPv6 address without brackets.
    pub(crate) fn client(
        &self,
        host: &str,
        handshake_max: Duration,
    ) -> Result<Arc<TlsClient>, CrtError> {
        let server = ServerName::try_from(host.to_owned()).map_err(|_| OwnError::Endpoint)?;
        Ok(Arc::new(TlsClient {
            config: self.config()?,
            server,
            handshake_max,
        }))
    }

    fn config(&self) -> Result<Arc<ClientConfig>, CrtError> {
        if let Some(config) = self.trust.config.get() {
            return Ok(Arc::clone(config));
        }
        let authorities = match &self.trust.ca_bundle {
            Some(bundle) => authorities_of(bundle)?,
            None => authorities_of_system(),
        };
        let config = new_config(authorities)?;
        Ok(Arc::clone(self.trust.config.get_or_init(|| config)))
    }
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("has_ca_bundle", &self.trust.ca_bundle.is_some())
            .finish_non_exhaustive()
    }
}

fn authorities_of(bundle: &[u8]) -> Result<RootCertStore, CrtError> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        let certificate = certificate.map_err(|_| OwnError::CaBundle)?;
        store.add(certificate).map_err(|_| OwnError::CaBundle)?;
    }
    if store.is_empty() {
        return Err(OwnError::CaBundle.into());
    }
    Ok(store)
}

/// None at all trusts nobody; then the handshake says so.
fn authorities_of_system() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!("certificates of the operating system: {error}");
    }
    let mut store = RootCertStore::empty();
    // Operating systems keep old ones that cannot be used.
    let (used, ignored) = store.add_parsable_certificates(found.certs);
    tracing::debug!(used, ignored, "certificates of the operating system");
    store
}

fn new_config(authorities: RootCertStore) -> Result<Arc<ClientConfig>, CrtError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsFailure::handshake(error.to_string()))?;
    let mut config = builder
        .with_root_certificates(authorities)
        .with_no_client_auth();
    // The keys stay in this process: bytes are decrypted here, not in rustls.
    config.enable_secret_extraction = true;
    Ok(Arc::new(config))
}

/// AES with keys of 128 bits first, as the AWS tools ask for: a quarter less work than with 256.
fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider
        .cipher_suites
        .sort_by_key(|suite| !FIRST.contains(&suite.suite()));
    provider
}

const FIRST: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];
