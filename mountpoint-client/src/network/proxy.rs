//! Through which proxy a request goes.
//!
//! Pure. One decision for all that leaves the process: the CRT's data, the SDK's control requests, credentials.
//! Knows no connection and reads no variable. Never prints a password.

use std::fmt;

use mountpoint_crt_sys::ProxyOptions;

use super::no_proxy::{NoProxy, bare};
use crate::endpoint::encode_query;

/// The proxies of a client. Default: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// For requests to `http://`.
    pub http: Option<Proxy>,
    /// For requests to `https://`.
    pub https: Option<Proxy>,
    /// For which hosts there is none.
    pub no_proxy: NoProxy,
}

/// One HTTP proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy(ProxyOptions);

impl ProxySettings {
    /// Names of the variables that [`ProxySettings::from_variables`] asks for.
    pub const VARIABLES: [&'static str; 8] = [
        "http_proxy",
        "HTTP_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
        "no_proxy",
        "NO_PROXY",
    ];

    /// What the usual variables say; `variable` knows their values. Small letters win, and an empty value is none.
    ///
    /// # Errors
    /// A text for the user that names the variable and what it takes.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let value = |name: &'static str| {
            let value = variable(name).filter(|value| !value.trim().is_empty());
            value.map(|value| (name, value))
        };
        let proxy = |names: [&'static str; 4]| -> Result<Option<Proxy>, String> {
            let Some((name, url)) = names.into_iter().find_map(value) else {
                return Ok(None);
            };
            let parsed = Proxy::parse(&url).map_err(|error| format!("{name}: {error}"))?;
            Ok(Some(parsed))
        };
        let no_proxy = value("no_proxy").or_else(|| value("NO_PROXY"));
        let no_proxy = no_proxy.map_or_else(NoProxy::default, |(_, list)| NoProxy::parse(&list));
        Ok(Self {
            http: proxy(["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])?,
            https: proxy(["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])?,
            no_proxy,
        })
    }

    /// The proxy for requests to a URL; `None` to go there directly.
    #[must_use]
    pub fn for_url(&self, url: &str) -> Option<&Proxy> {
        let (is_tls, host, port) = split_url(url)?;
        let proxy = if is_tls { &self.https } else { &self.http };
        proxy.as_ref().filter(|_| !self.no_proxy.covers(host, port))
    }
}

impl Proxy {
    /// Parses `[http[s]://][user:password@]host[:port]`.
    ///
    /// # Errors
    /// A text for the user, without the login.
    pub fn parse(url: &str) -> Result<Self, String> {
        let url = url.trim();
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            other => {
                return Err(format!(
                    "a proxy must be http://host:port or https://host:port, not {other}://"
                ));
            }
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (login, address) = match authority.rsplit_once('@') {
            Some((login, address)) => (Some(parse_login(login)?), address),
            None => (None, authority),
        };
        let (host, port) = split_port(address)
            .ok_or_else(|| format!("{address:?} is not the host:port of a proxy"))?;
        Ok(Self(ProxyOptions {
            host: bare(host).to_owned(),
            port: port.unwrap_or(if is_tls { 443 } else { 80 }),
            is_tls,
            login,
        }))
    }

    /// As the CRT takes it.
    pub(crate) fn options(&self) -> &ProxyOptions {
        &self.0
    }

    /// `host:port`, to be connected to.
    pub(crate) fn address(&self) -> (String, u16) {
        (self.0.host.clone(), self.0.port)
    }

    /// As a URL with its login: a secret.
    pub(crate) fn secret_url(&self) -> String {
        let login =
            self.0.login.as_ref().map(|(user, password)| {
                format!("{}:{}@", encode_query(user), encode_query(password))
            });
        format!(
            "{}://{}{}",
            if self.0.is_tls { "https" } else { "http" },
            login.unwrap_or_default(),
            self.authority()
        )
    }

    fn authority(&self) -> String {
        let ProxyOptions { host, port, .. } = &self.0;
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }
}

/// Without the login.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.0.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

fn parse_login(login: &str) -> Result<(String, String), String> {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    match (percent_decoded(user), percent_decoded(password)) {
        (Some(user), Some(password)) => Ok((user, password)),
        _ => Err("the proxy's user or password is not properly percent-encoded".to_owned()),
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// Host and port of an authority; an IPv6 address keeps its brackets.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let name_end = authority.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match authority[name_end..].rfind(':') {
        Some(colon) => {
            let (host, port) = authority.split_at(name_end + colon);
            (host, Some(port[1..].parse().ok().filter(|port| *port > 0)?))
        }
        None => (authority, None),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_valid = if host.starts_with('[') {
        bare(host).parse::<std::net::Ipv6Addr>().is_ok()
    } else {
        !host.is_empty() && host.chars().all(is_name)
    };
    is_valid.then_some((host, port))
}

/// Host, without brackets, and port of a URL.
pub(crate) fn url_address(url: &str) -> Option<(String, u16)> {
    let (_, host, port) = split_url(url)?;
    Some((bare(host).to_owned(), port))
}

/// Whether a URL is `https`, its host and its port.
fn split_url(url: &str) -> Option<(bool, &str, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let is_tls = scheme.eq_ignore_ascii_case("https");
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = split_port(authority)?;
    Some((is_tls, host, port.unwrap_or(if is_tls { 443 } else { 80 })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_parsed() {
        for (url, shown, secret) in [
            ("http://p.example:3128", "http://p.example:3128", None),
            ("http://p.example:3128/", "http://p.example:3128", None),
            ("p.example:3128", "http://p.example:3128", None),
            ("p.example", "http://p.example:80", None),
            ("https://p.example", "https://p.example:443", None),
            ("HTTP://[::1]:8080", "http://[::1]:8080", None),
            (
                "http://me:s%40cret@p.example:3128",
                "http://p.example:3128",
                Some("http://me:s%40cret@p.example:3128"),
            ),
            (
                "http://me@p.example:3128",
                "http://p.example:3128",
                Some("http://me:@p.example:3128"),
            ),
        ] {
            let proxy = Proxy::parse(url).unwrap();
            assert_eq!(
                format!("{proxy} {proxy:?}"),
                format!("{shown} {shown}"),
                "{url}"
            );
            assert_eq!(proxy.secret_url(), secret.unwrap_or(shown), "{url}");
        }
    }

    #[test]
    fn wrong_proxies_are_refused_without_their_login() {
        for url in [
            "socks5://me:hush@p:1",
            "http://",
            "http://me:hush@",
            "http://me:hush@p:0",
            "http://me:hush@p:99999",
            "http://me:hush@a b:1",
            "http://me:%zzhush@p:1",
            "http://me:hush@[::1:1",
        ] {
            let error = Proxy::parse(url).unwrap_err();
            assert!(!error.contains("hush"), "{url}: {error}");
        }
    }

    fn settings(variables: &[(&str, &str)]) -> Result<ProxySettings, String> {
        ProxySettings::from_variables(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[track_caller]
    fn check(variables: &[(&str, &str)], url: &str, proxy: Option<&str>) {
        let settings = settings(variables).unwrap();
        let found = settings.for_url(url).map(ToString::to_string);
        assert_eq!(found.as_deref(), proxy, "{url} with {variables:?}");
    }

    #[test]
    fn variables_choose_the_proxy() {
        let (http, https) = ("http://b.example.com/k", "https://b.example.com/k");
        let (one, two) = (Some("http://one:1"), Some("http://two:2"));
        check(&[], https, None);
        check(&[("https_proxy", "one:1")], https, one);
        check(&[("https_proxy", "one:1")], http, None);
        check(&[("http_proxy", "one:1")], http, one);
        check(&[("http_proxy", "one:1")], https, None);
        check(
            &[("HTTPS_PROXY", "one:1"), ("https_proxy", "two:2")],
            https,
            two,
        );
        check(&[("HTTPS_PROXY", "one:1"), ("https_proxy", "")], https, one);
        check(
            &[("ALL_PROXY", "one:1"), ("https_proxy", "two:2")],
            http,
            one,
        );
        check(
            &[("ALL_PROXY", "one:1"), ("https_proxy", "two:2")],
            https,
            two,
        );
        let without = |list| [("all_proxy", "one:1"), ("NO_PROXY", list)];
        check(&without(".example.com"), https, None);
        check(&without("example.com:80"), http, None);
        check(&without("example.com:80"), https, one);
        check(&without("other.org"), https, one);
        check(
            &[("all_proxy", "one:1")],
            "http://169.254.169.254/latest",
            None,
        );
        check(&[("all_proxy", "one:1")], "http://[2001:db8::1]:9000/", one);
    }

    #[test]
    fn an_error_names_the_variable() {
        let error = settings(&[("HTTPS_PROXY", "socks5://p:1")]).unwrap_err();
        assert!(error.starts_with("HTTPS_PROXY: "), "{error}");
    }
}
