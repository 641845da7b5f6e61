//! The authorities that TLS trusts.
//!
//! Knows certificates, no connection. Returns usable certificates only: one that cannot be read
//! would make the SDK's client panic and the CRT refuse the whole bundle.

use aws_smithy_http_client::tls::{TlsContext, TrustStore};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::{ClientError, ErrorKind};

/// Trust in the authorities of a PEM bundle, or in the operating system's.
pub(crate) fn trust(ca_bundle: Option<&[u8]>) -> Result<TlsContext, ClientError> {
    let store = match ca_bundle {
        None => TrustStore::default(),
        Some(bundle) => TrustStore::empty().with_pem_certificate(authorities(bundle)?),
    };
    let context = TlsContext::builder().with_trust_store(store).build();
    context.map_err(|error| refuse(format!("{BUNDLE} cannot be used: {error}")))
}

/// Trust in nobody, for connections without TLS: reading the certificates of the operating system
/// costs some 60 ms.
pub(super) fn no_trust() -> TlsContext {
    let context = TlsContext::builder().with_trust_store(TrustStore::empty());
    context.build().expect("nothing in it can be wrong")
}

/// The certificates of a bundle that can be authorities, in PEM form. Bundles of operating systems
/// hold old ones that cannot; at least one must.
pub(crate) fn authorities(bundle: &[u8]) -> Result<Vec<u8>, ClientError> {
    let mut store = RootCertStore::empty();
    let mut pem = String::new();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        let certificate = certificate
            .map_err(|error| refuse(format!("{BUNDLE} is not in PEM format: {error}")))?;
        if store.add(certificate.clone()).is_ok() {
            pem.push_str("-----BEGIN CERTIFICATE-----\n");
            pem.push_str(&BASE64_STANDARD.encode(&certificate));
            pem.push_str("\n-----END CERTIFICATE-----\n");
        }
    }
    if pem.is_empty() {
        let what = format!("{BUNDLE} holds no usable certificate in PEM format");
        return Err(refuse(what));
    }
    Ok(pem.into_bytes())
}

fn refuse(what: String) -> ClientError {
    ClientError::new(ErrorKind::InvalidRequest, what)
}

const BUNDLE: &str = "the CA bundle (--ca-bundle, AWS_CA_BUNDLE)";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bundle: &[u8], reason: &str) {
        let error = trust(Some(bundle)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(error.message.contains(reason), "{error}");
        assert!(error.message.contains("--ca-bundle"), "{error}");
    }

    #[test]
    fn what_is_no_bundle_is_refused() {
        let begin = "-----BEGIN CERTIFICATE-----\n";
        let end = "-----END CERTIFICATE-----\n";
        check(b"", "no usable certificate");
        check(b"just text", "no usable certificate");
        check(
            format!("{begin}AAAA\n{end}").as_bytes(),
            "no usable certificate",
        );
        check(
            format!("{begin}!!!!\n{end}").as_bytes(),
            "not in PEM format",
        );
        check(format!("{begin}AAAA\n").as_bytes(), "not in PEM format");
        trust(None).unwrap();
    }
}
