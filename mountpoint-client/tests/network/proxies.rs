//! Proxies: which requests go through them, in which form, and which go around them.

use mountpoint_client::credentials::CredentialsMode;
use mountpoint_client::network::ProxySettings;
use mountpoint_client::testing::server::Operation;
use mountpoint_client::{CrtClientOptions, ErrorKind};

use crate::support::bucket::{check_error, connect, options, server};
use crate::support::proxy_server::{Behaviour, ProxyRequest, ProxyServer};
use crate::tls::{AUTHORITY, TlsFront};

fn unsigned(endpoint: &str, proxy: &str, no_proxy: &str) -> CrtClientOptions {
    let mut options = options(endpoint);
    options.credentials = CredentialsMode::Unsigned;
    options.proxy = ProxySettings::parse(Some(proxy), Some(proxy), Some(no_proxy)).unwrap();
    options
}

fn targets(asked: &[ProxyRequest], method: &str) -> Vec<String> {
    let matching = asked.iter().filter(|asked| asked.method == method);
    matching.map(|asked| asked.target.clone()).collect()
}

/// The host exists nowhere: only the proxy is asked for it.
#[test]
fn http_is_forwarded_in_absolute_form() {
    let server = server();
    let proxy = ProxyServer::start(Behaviour::ForwardTo(server.address()));
    let client = connect(unsigned("http://s3.test:9000", &proxy.url(), "")).unwrap();
    client.use_all().unwrap();
    let asked = proxy.asked();
    assert_eq!(
        targets(&asked, "HEAD"),
        ["http://s3.test:9000/bucket/object"]
    );
    let path_of_get = targets(&asked, "GET");
    assert_eq!(path_of_get.len(), 1);
    assert!(
        path_of_get[0].starts_with("http://s3.test:9000/bucket/object"),
        "{path_of_get:?}"
    );
    let path_of_put = targets(&asked, "PUT");
    assert!(
        path_of_put[0].starts_with("http://s3.test:9000/bucket/written"),
        "{path_of_put:?}"
    );
    assert!(asked.iter().all(|asked| asked.login.is_none()));
    assert_eq!(server.log().count(Operation::GetObject), 1);
}

#[test]
fn https_is_tunnelled() {
    let server = server();
    let front = TlsFront::of(server.address());
    let proxy = ProxyServer::start(Behaviour::ForwardTo(front.address()));
    let mut options = unsigned("https://localhost:4433", &proxy.url(), "");
    options.ca_bundle = Some(AUTHORITY.to_vec());
    let client = connect(options).unwrap();
    client.use_all().unwrap();
    let asked = proxy.asked();
    assert!(
        asked.len() >= 2,
        "one for control, one for data at least: {asked:?}"
    );
    for asked in asked {
        assert_eq!(
            (&*asked.method, &*asked.target),
            ("CONNECT", "localhost:4433")
        );
    }
    assert_eq!(server.log().count(Operation::GetObject), 1);
}

#[test]
fn excluded_hosts_are_reached_directly() {
    let server = server();
    let proxy = ProxyServer::start(Behaviour::Refuse);
    for no_proxy in ["127.0.0.1", "example.com, 127.0.0.0/8", "*"] {
        let client = connect(unsigned(&server.url(), &proxy.url(), no_proxy)).unwrap();
        client.use_all().unwrap();
    }
    assert_eq!(proxy.asked(), []);
}

#[test]
fn the_proxy_gets_its_login_and_nobody_else() {
    let server = server();
    let front = TlsFront::of(server.address());
    // Base64 of `me:p@ss`.
    let login = Some("Basic bWU6cEBzcw==".to_owned());
    let over_tls = ("https://localhost:4433", front.address());
    let plain = ("http://s3.test:9000", server.address());
    for (endpoint, target) in [over_tls, plain] {
        let proxy = ProxyServer::start(Behaviour::ForwardTo(target));
        let mut options = unsigned(endpoint, &proxy.url_with_login("me:p%40ss"), "");
        options.ca_bundle = Some(AUTHORITY.to_vec());
        let shown = format!("{options:?}");
        assert!(
            !shown.contains("p@ss") && !shown.contains("p%40ss"),
            "{shown}"
        );
        let client = connect(options).unwrap();
        client.use_all().unwrap();
        let asked = proxy.asked();
        assert!(asked.len() >= 2, "{asked:?}");
        assert!(asked.iter().all(|asked| asked.login == login), "{asked:?}");
    }
}

#[test]
fn a_proxy_may_speak_tls_itself() {
    let server = server();
    let front = TlsFront::of(server.address());
    let over_tls = ("https://localhost:4433", front.address());
    let plain = ("http://s3.test:9000", server.address());
    for (endpoint, target) in [over_tls, plain] {
        let proxy = ProxyServer::start(Behaviour::ForwardTo(target));
        let front_of_proxy = TlsFront::of(proxy.address());
        let url = format!("https://localhost:{}", front_of_proxy.port());
        let mut options = unsigned(endpoint, &url, "");
        options.ca_bundle = Some(AUTHORITY.to_vec());
        connect(options).unwrap().use_all().unwrap();
        assert!(proxy.asked().len() >= 2, "{endpoint}: {:?}", proxy.asked());
    }
}

#[test]
fn a_proxy_that_refuses_or_is_not_there_is_explained() {
    let refusing = ProxyServer::start(Behaviour::Refuse);
    // Where no other test listens: what was given back here stays free.
    let unused = std::net::TcpListener::bind("127.0.0.9:0").unwrap();
    let nobody = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    let over_tls = "https://localhost:4433";
    for (endpoint, proxy) in [
        (over_tls, refusing.url()),
        (over_tls, nobody.clone()),
        ("http://s3.test:9000", nobody),
    ] {
        let mut options = unsigned(endpoint, &proxy, "");
        options.max_attempts = 1;
        let client = connect(options).unwrap();
        for error in [client.head().unwrap_err(), client.get().unwrap_err()] {
            let through = format!("{endpoint} through the proxy {proxy}");
            check_error(&error, &ErrorKind::Unreachable, &[&through, "no_proxy"]);
        }
    }
}
