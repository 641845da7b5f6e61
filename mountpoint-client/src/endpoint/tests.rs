//! Each kind of bucket with each setting: where its requests go and how they are signed, or why
//! they do not.

use super::*;
use crate::types::Key;
use crate::{ClientError, ErrorKind};

const ACCESS_POINT: &str = "arn:aws:s3:eu-west-1:123456789012:accesspoint/point";
const OBJECT_LAMBDA: &str = "arn:aws:s3-object-lambda:eu-west-1:123456789012:accesspoint/lambda";
const MULTI_REGION: &str = "arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap";
const OUTPOSTS: &str =
    "arn:aws:s3-outposts:eu-west-1:123456789012:outpost/op-01234567890123456/accesspoint/point";
const OUTPOSTS_ALIAS: &str = "test-accessp-o0b1d075431d83bebde8xz5w8ijx1qzlbp3i3kuse10--op-s3";
const DIRECTORY: &str = "d--usw2-az1--x-s3";
const DIRECTORY_POINT: &str = "p--usw2-az1--xa-s3";

/// Settings are words: `path`, `dual`, `fips`, `accelerate`, `sessionless`, or a URL.
fn resolve(bucket: &str, region: &str, settings: &str) -> Result<Endpoint, ClientError> {
    let mut question = EndpointQuestion::new(bucket, region);
    for setting in settings.split_whitespace() {
        match setting {
            "path" => question.force_path_style = true,
            "dual" => question.dual_stack = true,
            "fips" => question.fips = true,
            "accelerate" => question.transfer_acceleration = true,
            "sessionless" => question.sessions = false,
            url => question.endpoint_url = Some(url),
        }
    }
    futures::executor::block_on(Endpoint::resolve(&question))
}

/// `expected` is the URL of key `k` and the signature: algorithm, service, region.
#[track_caller]
fn check(bucket: &str, region: &str, settings: &str, url: &str, signature: &str) {
    let endpoint = resolve(bucket, region, settings)
        .unwrap_or_else(|error| panic!("{bucket} {region} {settings}: {error}"));
    let path = endpoint.path(&Key::parse("k").unwrap());
    let found = format!("{}{path}", endpoint.origin);
    assert_eq!(found, url, "{bucket} {region} {settings}");
    let found = format!(
        "{:?} {} {}",
        endpoint.signing_algorithm, endpoint.signing_service, endpoint.signing_region
    );
    assert_eq!(found, signature, "{bucket} {region} {settings}");
}

#[track_caller]
fn refuses(bucket: &str, region: &str, settings: &str, reason: &str) {
    match resolve(bucket, region, settings) {
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::InvalidRequest, "{bucket} {settings}");
            assert!(
                error.message.contains(reason),
                "{bucket} {settings}: {error}"
            );
            assert!(!error.message.contains('\n'), "{error}");
        }
        Ok(endpoint) => panic!("{bucket} {region} {settings}: {endpoint:?}"),
    }
}

/// The cells of a table, row by row. Empty cells are `-`.
fn rows<const CELLS: usize>(table: &'static str) -> impl Iterator<Item = [&'static str; CELLS]> {
    let lines = table.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let cells: [_; CELLS] = cells.try_into().unwrap_or_else(|_| panic!("cells: {line}"));
        cells.map(|cell| if cell == "-" { "" } else { cell })
    })
}

#[test]
fn general_purpose_buckets() {
    let table = "
        bkt   | eu-central-1   | -               | bkt.s3.eu-central-1.amazonaws.com/k
        bkt   | eu-central-1   | path            | s3.eu-central-1.amazonaws.com/bkt/k
        a.dot | eu-central-1   | -               | s3.eu-central-1.amazonaws.com/a.dot/k
        bkt   | eu-central-1   | dual            | bkt.s3.dualstack.eu-central-1.amazonaws.com/k
        bkt   | eu-central-1   | dual path       | s3.dualstack.eu-central-1.amazonaws.com/bkt/k
        bkt   | eu-central-1   | fips            | bkt.s3-fips.eu-central-1.amazonaws.com/k
        bkt   | eu-central-1   | fips path       | s3-fips.eu-central-1.amazonaws.com/bkt/k
        bkt   | eu-central-1   | fips dual       | bkt.s3-fips.dualstack.eu-central-1.amazonaws.com/k
        bkt   | eu-central-1   | accelerate      | bkt.s3-accelerate.amazonaws.com/k
        bkt   | eu-central-1   | accelerate dual | bkt.s3-accelerate.dualstack.amazonaws.com/k
        p-abcdefgh-s3alias | eu-central-1 | -    | p-abcdefgh-s3alias.s3.eu-central-1.amazonaws.com/k
        l-abcdefgh--ol-s3  | eu-central-1 | -    | l-abcdefgh--ol-s3.s3.eu-central-1.amazonaws.com/k
        bkt   | us-east-1      | -               | bkt.s3.us-east-1.amazonaws.com/k
        bkt   | us-gov-west-1  | fips            | bkt.s3-fips.us-gov-west-1.amazonaws.com/k
        bkt   | cn-north-1     | -               | bkt.s3.cn-north-1.amazonaws.com.cn/k
        bkt   | cn-north-1     | dual            | bkt.s3.dualstack.cn-north-1.amazonaws.com.cn/k
    ";
    for [bucket, region, settings, url] in rows(table) {
        let (url, signature) = (format!("https://{url}"), format!("SigV4 s3 {region}"));
        check(bucket, region, settings, &url, &signature);
    }
}

#[test]
fn directory_buckets() {
    let session = "S3Express s3express us-west-2";
    let plain = "SigV4 s3express us-west-2";
    let zone = "s3express-usw2-az1.us-west-2.amazonaws.com";
    let fips = "s3express-fips-usw2-az1.us-west-2.amazonaws.com";
    let dual = "s3express-usw2-az1.dualstack.us-west-2.amazonaws.com";
    for (bucket, settings, host, signature) in [
        (DIRECTORY, "", zone, session),
        (DIRECTORY, "path", zone, session),
        (DIRECTORY, "fips", fips, session),
        (DIRECTORY, "dual", dual, session),
        (DIRECTORY, "sessionless", zone, plain),
        (DIRECTORY_POINT, "", zone, session),
    ] {
        let url = format!("https://{bucket}.{host}/k");
        check(bucket, "us-west-2", settings, &url, signature);
    }
    let server = "http://127.0.0.1:9000";
    let url = format!("{server}/{DIRECTORY}/k");
    check(DIRECTORY, "us-west-2", server, &url, session);
    check(
        DIRECTORY,
        "us-west-2",
        &format!("{server} path"),
        &url,
        session,
    );
    check(
        DIRECTORY,
        "us-west-2",
        &format!("{server} sessionless"),
        &url,
        plain,
    );
    check(
        DIRECTORY,
        "us-west-2",
        "https://express.example:8443",
        &format!("https://{DIRECTORY}.express.example:8443/k"),
        session,
    );
}

#[test]
fn access_points() {
    let table = "
        arn | -                    | point-123456789012.s3-accesspoint.eu-west-1.amazonaws.com              | SigV4 s3 eu-west-1
        arn | dual                 | point-123456789012.s3-accesspoint.dualstack.eu-west-1.amazonaws.com    | SigV4 s3 eu-west-1
        arn | fips                 | point-123456789012.s3-accesspoint-fips.eu-west-1.amazonaws.com         | SigV4 s3 eu-west-1
        arn | https://vpce.example | point-123456789012.vpce.example                                        | SigV4 s3 eu-west-1
        fun | -                    | lambda-123456789012.s3-object-lambda.eu-west-1.amazonaws.com           | SigV4 s3-object-lambda eu-west-1
        fun | fips                 | lambda-123456789012.s3-object-lambda-fips.eu-west-1.amazonaws.com      | SigV4 s3-object-lambda eu-west-1
        fun | https://vpce.example | lambda-123456789012.vpce.example                                       | SigV4 s3-object-lambda eu-west-1
        all | -                    | mfzwi23gnjvgw.mrap.accesspoint.s3-global.amazonaws.com                 | SigV4a s3 *
        out | -                    | point-123456789012.op-01234567890123456.s3-outposts.eu-west-1.amazonaws.com | SigV4a s3-outposts *
        out | https://vpce.example | point-123456789012.op-01234567890123456.vpce.example                   | SigV4a s3-outposts *
    ";
    for [kind, settings, host, signature] in rows(table) {
        let url = format!("https://{host}/k");
        check(bucket_of(kind), "eu-west-1", settings, &url, signature);
    }
    let host = "op-0b1d075431d83bebd.s3-outposts.eu-west-1.amazonaws.com";
    let url = format!("https://{OUTPOSTS_ALIAS}.{host}/k");
    check(
        OUTPOSTS_ALIAS,
        "eu-west-1",
        "",
        &url,
        "SigV4a s3-outposts *",
    );
}

/// Long names, by the short ones of tables.
fn bucket_of(kind: &'static str) -> &'static str {
    match kind {
        "dir" => DIRECTORY,
        "dot" => "a.dot",
        "arn" => ACCESS_POINT,
        "fun" => OBJECT_LAMBDA,
        "out" => OUTPOSTS,
        "all" => MULTI_REGION,
        plain => plain,
    }
}

#[test]
fn an_arn_overrides_the_region() {
    check(
        ACCESS_POINT,
        "us-east-2",
        "",
        "https://point-123456789012.s3-accesspoint.eu-west-1.amazonaws.com/k",
        "SigV4 s3 eu-west-1",
    );
    check(
        "arn:aws-cn:s3:cn-north-1:123456789012:accesspoint/point",
        "cn-northwest-1",
        "",
        "https://point-123456789012.s3-accesspoint.cn-north-1.amazonaws.com.cn/k",
        "SigV4 s3 cn-north-1",
    );
}

#[test]
fn custom_endpoints() {
    for (settings, url) in [
        ("http://127.0.0.1:9000 path", "http://127.0.0.1:9000/bkt/k"),
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000/bkt/k"),
        ("http://[::1]:9000", "http://[::1]:9000/bkt/k"),
        ("http://[2001:db8::7] path", "http://[2001:db8::7]/bkt/k"),
        (
            "https://s3.example.org:8443/",
            "https://bkt.s3.example.org:8443/k",
        ),
        (
            "https://s3.example.org:8443/ path",
            "https://s3.example.org:8443/bkt/k",
        ),
        (
            "https://example.org/s3/ path",
            "https://example.org/s3/bkt/k",
        ),
    ] {
        check("bkt", "xx", settings, url, "SigV4 s3 xx");
    }
}

#[test]
fn combinations_that_cannot_work_are_refused_with_the_flag() {
    let table = "
        bkt | http://h dual       | --dual-stack cannot be combined with --endpoint-url
        dir | http://h dual       | --dual-stack cannot be combined with --endpoint-url
        bkt | http://h accelerate | --transfer-acceleration cannot be combined with --endpoint-url
        bkt | http://h fips       | FIPS endpoints cannot be combined with --endpoint-url
        bkt | accelerate path     | cannot be combined with --force-path-style
        bkt | accelerate fips     | no FIPS endpoints
        dot | accelerate          | bucket names with dots
        dir | accelerate          | directory buckets have no --transfer-acceleration
        arn | accelerate          | does not work with access points
        all | accelerate          | does not work with access points
        arn | path                | --force-path-style does not work with ARNs
        all | path                | --force-path-style does not work with ARNs
        all | http://h            | multi-region access points cannot be combined with --endpoint-url
        fun | dual                | S3 Object Lambda does not support Dual-stack
        out | dual                | S3 Outposts does not support Dual-stack
        out | fips                | S3 Outposts does not support FIPS
        all | dual                | S3 MRAP does not support dual-stack
        all | fips                | S3 MRAP does not support FIPS
    ";
    for [kind, settings, reason] in rows(table) {
        refuses(bucket_of(kind), "eu-west-1", settings, reason);
    }
    refuses(
        "bkt",
        "cn-north-1",
        "fips",
        "Partition does not support FIPS",
    );
    refuses(
        "bkt",
        "cn-north-1",
        "accelerate",
        "S3 Accelerate cannot be used in this region",
    );
}

#[test]
fn wrong_names_are_refused() {
    for (bucket, reason) in [
        ("d--x-s3", "Unrecognized S3Express bucket name format"),
        ("arn:aws:s3", "not a valid ARN"),
        (
            "arn:aws:sqs:eu-west-1:123456789012:queue",
            "Unrecognized format",
        ),
        (
            "arn:aws:s3:eu-west-1:123456789012:bucket/b",
            "Unrecognized format",
        ),
        (
            "arn:aws:s3:eu-west-1:123456789012:accesspoint",
            "no name was provided",
        ),
        (
            "arn:aws:s3:eu-west-1::accesspoint/p",
            "The account id may only contain",
        ),
        (
            "arn:aws-cn:s3:cn-north-1:123456789012:accesspoint/p",
            "Client was configured for partition",
        ),
        (
            "arn:aws:s3-outposts:eu-west-1:123456789012:outpost/op-1",
            "Expected a 4-component resource",
        ),
    ] {
        refuses(bucket, "eu-west-1", "", reason);
    }
    refuses("bkt", "eu west", "", "region was not a valid DNS name");
}

#[test]
fn wrong_urls_are_refused_with_a_reason() {
    for (url, reason) in [
        ("127.0.0.1:9000", "must begin with http"),
        ("ftp://host", "must begin with http"),
        ("http://", "no valid host"),
        ("http:///x", "no valid host"),
        ("http://user@host", "no valid host"),
        ("http://host?a=b", "query"),
        ("http://::1:9000", "stands in brackets"),
    ] {
        refuses("bkt", "us-east-1", &format!("{url} path"), reason);
    }
    for region in ["us-east-:", "us-east-\u{11}", "us-east-1@h"] {
        refuses("bkt.", region, "path", "no URL of a server");
    }
}

#[test]
fn keys_are_encoded_and_never_normalised() {
    let endpoint = resolve("b", "us-east-1", "http://h path").unwrap();
    for (key, path) in [
        ("a/b.txt", "/b/a/b.txt"),
        ("a b+c", "/b/a%20b%2Bc"),
        ("/lead//double/", "/b//lead//double/"),
        ("./../a/..", "/b/./../a/.."),
        ("ü€😀", "/b/%C3%BC%E2%82%AC%F0%9F%98%80"),
        (
            "%41?#&=;:@!$'()*,[]\\\"<>",
            "/b/%2541%3F%23%26%3D%3B%3A%40%21%24%27%28%29%2A%2C%5B%5D%5C%22%3C%3E",
        ),
        ("\u{1}\n\u{7f}~-_.", "/b/%01%0A%7F~-_."),
    ] {
        assert_eq!(endpoint.path(&Key::parse(key).unwrap()), path, "{key:?}");
    }
    assert_eq!(encode_query("a/b=+"), "a%2Fb%3D%2B");
    assert_eq!(encode_key("a/b +"), "a/b%20%2B");
}
