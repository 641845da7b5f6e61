//! The HTTP proxy between a client and its server.
//!
//! Knows nothing of when a proxy is to be used: the caller decides that for the one host that a
//! client talks to.

use std::fmt;

use mountpoint_s3_crt_sys as sys;
use sys::aws_http_proxy_connection_type as connection_type;

use super::proxy_tls::TlsConnectionOptions;
use crate::ffi::cursor;

/// Where a client's connections go first. A server behind TLS is reached by CONNECT, others by
/// forwarding.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyOptions {
    /// Name or address, an IPv6 address without brackets.
    pub host: String,
    pub port: u16,
    /// Whether the proxy itself speaks TLS.
    pub is_tls: bool,
    /// User and password, if the proxy asks for them.
    pub login: Option<(String, String)>,
}

impl ProxyOptions {
    /// In C's form, with pointers into `self` and `tls`; C copies what it keeps.
    pub(crate) fn to_c(
        &self,
        tls: Option<&TlsConnectionOptions>,
        is_server_tls: bool,
    ) -> sys::aws_http_proxy_options {
        assert_eq!(self.is_tls, tls.is_some());
        let mut options = sys::aws_http_proxy_options {
            connection_type: if is_server_tls {
                connection_type::AWS_HPCT_HTTP_TUNNEL
            } else {
                connection_type::AWS_HPCT_HTTP_FORWARD
            },
            host: cursor(self.host.as_bytes()),
            port: u32::from(self.port),
            tls_options: tls.map_or(std::ptr::null(), TlsConnectionOptions::as_ptr),
            ..Default::default()
        };
        if let Some((user, password)) = &self.login {
            options.auth_type = sys::aws_http_proxy_authentication_type::AWS_HPAT_BASIC;
            options.auth_username = cursor(user.as_bytes());
            options.auth_password = cursor(password.as_bytes());
        }
        options
    }
}

/// Never the login.
impl fmt::Debug for ProxyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyOptions")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("is_tls", &self.is_tls)
            .finish_non_exhaustive()
    }
}
