//! Texts that users, environments and files give before a client starts.

use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};
use futures::executor::block_on;

use crate::credentials::{EndpointSettings, problem};
use crate::crt_client::decode_key;
use crate::endpoint::{Endpoint, EndpointQuestion, copy_source, region_of_arn};
use crate::instance::instance_throughput_gbps;
use crate::network::{Proxy, ProxySettings, authorities, url_address};
use crate::types::Key;

/// Lines: switches, bucket, region, URL, key.
pub(super) fn endpoint(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (switches, bucket, region, url) = (line(), line(), line(), line());
    let question = EndpointQuestion {
        endpoint_url: Some(url).filter(|url| !url.is_empty()),
        force_path_style: switches.contains('p'),
        dual_stack: switches.contains('d'),
        fips: switches.contains('f'),
        transfer_acceleration: switches.contains('a'),
        sessions: !switches.contains('s'),
        ..EndpointQuestion::new(bucket, region)
    };
    let rest = line();
    assert!(instance_throughput_gbps(rest).is_none_or(|gbps| gbps > 0.0));
    assert!(region_of_arn(bucket).is_none_or(|region| bucket.contains(region)));
    let Some(key) = Key::parse(rest) else { return };
    assert!(copy_source(bucket, rest).starts_with(bucket));
    match block_on(Endpoint::resolve(&question)) {
        Ok(endpoint) => check_endpoint(&endpoint, &key),
        Err(error) => assert!(!error.message.contains(char::is_control), "{error:?}"),
    }
}

fn check_endpoint(endpoint: &Endpoint, key: &Key) {
    let origin = &endpoint.origin;
    assert!(
        origin.contains('%') || url_address(origin).is_some(),
        "{origin:?}"
    );
    let is_of_url = |c: char| c.is_ascii_graphic() && !"@?#\\".contains(c);
    assert!(origin.chars().all(is_of_url), "{origin:?}");
    let path = endpoint.path(key);
    assert!(path.starts_with('/'), "{path:?}");
    assert!(path.chars().all(is_of_url), "{path:?}");
    let encoded = &path[endpoint.bucket_path().len()..];
    assert_eq!(decode_key(encoded).as_deref(), Some(key.as_str()));
    assert!(endpoint.is_private() || !endpoint.is_amazon_itself());
}

/// Lines: the proxy for http, that for https, the hosts without one, the URL that is asked.
pub(super) fn proxies(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.split('\n');
    let mut line = || lines.next();
    let (http, https, no_proxy) = (line(), line(), line());
    let url = line().unwrap_or_default();
    // A host or a scheme may be called so; without the sign there is no login.
    let is_host = |url: &str| {
        let address = url.rsplit_once('@').map(|(_, address)| address);
        let scheme = url.split("://").next();
        address.is_none_or(|address| address.contains(SECRET))
            || scheme.is_some_and(|scheme| scheme.contains(SECRET))
    };
    let may_show = http.is_some_and(is_host) || https.is_some_and(is_host);
    let settings = match ProxySettings::parse(http, https, no_proxy) {
        Ok(settings) => settings,
        Err(why) => {
            assert!(may_show || !why.contains(SECRET), "{why}");
            return assert!(!why.contains(char::is_control), "{why:?}");
        }
    };
    for proxy in settings.http.iter().chain(&settings.https) {
        let shown = format!("{proxy} {proxy:?}");
        assert!(may_show || !shown.contains(SECRET), "{shown}");
        assert!(!shown.contains(char::is_control), "{shown:?}");
        let secret = proxy.secret_url();
        let again = Proxy::parse(&secret);
        assert_eq!(again.as_ref(), Ok(proxy), "{secret:?}");
    }
    if let Some((host, _)) = url_address(url) {
        let is_link_local =
            host.starts_with("169.254.") && host.parse::<std::net::IpAddr>().is_ok();
        assert!(!is_link_local || settings.for_url(url).is_none(), "{url:?}");
    }
    assert!(settings.for_url("http://169.254.169.254/x").is_none());
}

/// The text of `~/.aws/config`.
pub(super) fn profile_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for kind in [EnvConfigFileKind::Config, EnvConfigFileKind::Credentials] {
        let files = EnvConfigFiles::builder().with_contents(kind, &*text);
        let (disk, environment) = Default::default();
        let name = Some("chosen".into());
        let files = files.build();
        let loaded = aws_config::profile::load(&disk, &environment, &files, name);
        let Ok(profiles) = block_on(loaded) else {
            return;
        };
        let problem = problem(&profiles, "FILES").unwrap_or_default();
        assert!(!problem.contains(SECRET), "{problem}");
        let endpoint = EndpointSettings::of(&profiles);
        assert!(endpoint.url.is_none_or(|url| !url.is_empty()));
    }
}

/// A file of authorities. Those that are taken are taken again.
pub(super) fn ca_bundle(data: &[u8]) {
    if let Ok(taken) = authorities(data) {
        let again = authorities(&taken).expect("what was taken can be read");
        assert_eq!(again, taken);
    }
}

/// The password in the saved inputs, which no text for a person shows.
const SECRET: &str = "hush";
