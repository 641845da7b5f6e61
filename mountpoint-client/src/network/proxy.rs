//! The proxy of a request.
//!
//! Pure. One decision for all that leaves the process: the CRT's data, the SDK's control requests,
//! credentials. Knows no connection and reads no variable. Never prints a password.

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
    /// Proxies and exceptions as the variables `http_proxy`, `https_proxy` and `no_proxy` write
    /// them.
    ///
    /// # Errors
    /// A text for the user that names the variable and what it takes, without a login.
    pub fn parse(
        http: Option<&str>,
        https: Option<&str>,
        no_proxy: Option<&str>,
    ) -> Result<Self, String> {
        let proxy = |name: &str, url: Option<&str>| {
            let url = url.filter(|url| !url.trim().is_empty());
            url.map(|url| Proxy::parse(url).map_err(|error| format!("{name}: {error}")))
                .transpose()
        };
        Ok(Self {
            http: proxy("http_proxy", http)?,
            https: proxy("https_proxy", https)?,
            no_proxy: NoProxy::parse(no_proxy.unwrap_or_default()),
        })
    }

    /// These settings, with direct connections to what a container or an instance offers to itself.
    #[must_use]
    pub(crate) fn beyond_this_machine(&self) -> Self {
        let mut settings = self.clone();
        settings.no_proxy.add(&NoProxy::parse(THIS_MACHINE));
        settings
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
            other => return Err(wrong_scheme(other)),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // The authority ended within the password: what is before is no host and no port.
        if rest[authority.len()..].contains('@') {
            return Err("the proxy's user and password must be percent-encoded".to_owned());
        }
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

    /// The options that the CRT takes.
    pub(crate) fn options(&self) -> &ProxyOptions {
        &self.0
    }

    /// `host:port`, to be connected to.
    pub(crate) fn address(&self) -> (String, u16) {
        (self.0.host.clone(), self.0.port)
    }

    /// The URL with its login: a secret.
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

/// Names the scheme only if it can be one (RFC 3986, section 3.1): a login has a `:` or an `@`.
fn wrong_scheme(scheme: &str) -> String {
    let expected = "a proxy must be http://host:port or https://host:port";
    let is_of_schemes = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if scheme.len() <= SCHEME_SHOWN_MAX && scheme.bytes().all(is_of_schemes) {
        format!("{expected}, not {scheme}://")
    } else {
        expected.to_owned()
    }
}

const SCHEME_SHOWN_MAX: usize = 16;

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

const THIS_MACHINE: &str = "localhost,127.0.0.0/8,::1";

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
            "me:hush@p://",
            "me:hush://x@p:1",
            "http://me:p/hush@host:3128",
            "http://me:hush?def@host",
            "http://me:hush#def@host",
        ] {
            let error = Proxy::parse(url).unwrap_err();
            assert!(!error.contains("hush"), "{url}: {error}");
        }
        for url in [
            "http://me:p/hush@host:3128",
            "http://me:abc#def@host",
            "http://me:123#x@proxy:1",
            "http://me:a@b/c@proxy:1",
        ] {
            let error = Proxy::parse(url).unwrap_err();
            assert!(error.ends_with("must be percent-encoded"), "{url}: {error}");
        }
    }

    #[track_caller]
    fn check(proxies: [Option<&str>; 3], url: &str, expected: Option<&str>) {
        let [http, https, no_proxy] = proxies;
        let settings = ProxySettings::parse(http, https, no_proxy).unwrap();
        let found = settings.for_url(url).map(ToString::to_string);
        assert_eq!(found.as_deref(), expected, "{url} with {proxies:?}");
    }

    #[test]
    fn the_scheme_and_the_host_choose_the_proxy() {
        let (http, https) = ("http://b.example.com/k", "https://b.example.com/k");
        let (one, two) = (Some("http://one:1"), Some("http://two:2"));
        check([None, None, None], https, None);
        check([one, two, None], http, one);
        check([one, two, None], https, two);
        check([one, None, None], https, None);
        check([None, two, None], http, None);
        check([one, Some(" "), None], https, None);
        check([one, two, Some(".example.com")], https, None);
        check([one, two, Some("example.com:80")], http, None);
        check([one, two, Some("example.com:80")], https, two);
        check([one, two, Some("other.org")], https, two);
        check([one, two, None], "http://169.254.169.254/latest", None);
        check([one, two, None], "http://[2001:db8::1]:9000/", one);
        check(
            [one, two, Some("2001:db8::/32")],
            "http://[2001:db8::1]:9000/",
            None,
        );
    }

    #[test]
    fn this_machine_needs_no_proxy() {
        let settings = ProxySettings::parse(Some("one:1"), None, Some("a.org")).unwrap();
        let local = settings.beyond_this_machine();
        for url in [
            "http://127.0.0.1:80/x",
            "http://[::1]/x",
            "http://localhost:1/x",
        ] {
            assert!(settings.for_url(url).is_some(), "{url}");
            assert!(local.for_url(url).is_none(), "{url}");
        }
        assert!(local.for_url("http://a.org").is_none());
        assert!(local.for_url("http://b.org").is_some());
    }

    #[test]
    fn an_error_names_the_variable() {
        let error = ProxySettings::parse(None, Some("socks5://p:1"), None).unwrap_err();
        assert!(error.starts_with("https_proxy: "), "{error}");
    }
}
