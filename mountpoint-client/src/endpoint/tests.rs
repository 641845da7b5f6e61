//! Each kind of bucket with each setting: where its requests go and how they are signed, or why they do not.

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

#[test]
fn general_purpose_buckets() {
    let s3 = "SigV4 s3 eu-central-1";
    for (bucket, settings, url) in [
        ("bkt", "", "https://bkt.s3.eu-central-1.amazonaws.com/k"),
        ("bkt", "path", "https://s3.eu-central-1.amazonaws.com/bkt/k"),
        ("a.dot", "", "https://s3.eu-central-1.amazonaws.com/a.dot/k"),
        (
            "bkt",
            "dual",
            "https://bkt.s3.dualstack.eu-central-1.amazonaws.com/k",
        ),
        (
            "bkt",
            "dual path",
            "https://s3.dualstack.eu-central-1.amazonaws.com/bkt/k",
        ),
        (
            "bkt",
            "fips",
            "https://bkt.s3-fips.eu-central-1.amazonaws.com/k",
        ),
        (
            "bkt",
            "fips path",
            "https://s3-fips.eu-central-1.amazonaws.com/bkt/k",
        ),
        (
            "bkt",
            "fips dual",
            "https://bkt.s3-fips.dualstack.eu-central-1.amazonaws.com/k",
        ),
        (
            "bkt",
            "accelerate",
            "https://bkt.s3-accelerate.amazonaws.com/k",
        ),
        (
            "bkt",
            "accelerate dual",
            "https://bkt.s3-accelerate.dualstack.amazonaws.com/k",
        ),
        (
            "point-abcdefgh-s3alias",
            "",
            "https://point-abcdefgh-s3alias.s3.eu-central-1.amazonaws.com/k",
        ),
        (
            "lambda-abcdefgh--ol-s3",
            "",
            "https://lambda-abcdefgh--ol-s3.s3.eu-central-1.amazonaws.com/k",
        ),
    ] {
        check(bucket, "eu-central-1", settings, url, s3);
    }
    for (region, settings, url) in [
        (
            "cn-north-1",
            "",
            "https://bkt.s3.cn-north-1.amazonaws.com.cn/k",
        ),
        (
            "cn-north-1",
            "dual",
            "https://bkt.s3.dualstack.cn-north-1.amazonaws.com.cn/k",
        ),
        (
            "us-gov-west-1",
            "fips",
            "https://bkt.s3-fips.us-gov-west-1.amazonaws.com/k",
        ),
        ("us-east-1", "", "https://bkt.s3.us-east-1.amazonaws.com/k"),
    ] {
        check("bkt", region, settings, url, &format!("SigV4 s3 {region}"));
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
    let s3 = "SigV4 s3 eu-west-1";
    let lambda = "SigV4 s3-object-lambda eu-west-1";
    let outposts = "SigV4a s3-outposts *";
    let all = "SigV4a s3 *";
    let point = "https://point-123456789012.s3-accesspoint";
    let lambda_point = "https://lambda-123456789012.s3-object-lambda";
    let outposts_point = "https://point-123456789012.op-01234567890123456";
    for (bucket, settings, url, signature) in [
        (
            ACCESS_POINT,
            "",
            format!("{point}.eu-west-1.amazonaws.com/k"),
            s3,
        ),
        (
            ACCESS_POINT,
            "dual",
            format!("{point}.dualstack.eu-west-1.amazonaws.com/k"),
            s3,
        ),
        (
            ACCESS_POINT,
            "fips",
            format!("{point}-fips.eu-west-1.amazonaws.com/k"),
            s3,
        ),
        (
            ACCESS_POINT,
            "https://vpce.example",
            "https://point-123456789012.vpce.example/k".to_owned(),
            s3,
        ),
        (
            OBJECT_LAMBDA,
            "",
            format!("{lambda_point}.eu-west-1.amazonaws.com/k"),
            lambda,
        ),
        (
            OBJECT_LAMBDA,
            "fips",
            format!("{lambda_point}-fips.eu-west-1.amazonaws.com/k"),
            lambda,
        ),
        (
            OBJECT_LAMBDA,
            "https://vpce.example",
            "https://lambda-123456789012.vpce.example/k".to_owned(),
            lambda,
        ),
        (
            MULTI_REGION,
            "",
            "https://mfzwi23gnjvgw.mrap.accesspoint.s3-global.amazonaws.com/k".to_owned(),
            all,
        ),
        (
            OUTPOSTS,
            "",
            format!("{outposts_point}.s3-outposts.eu-west-1.amazonaws.com/k"),
            outposts,
        ),
        (
            OUTPOSTS,
            "https://vpce.example",
            format!("{outposts_point}.vpce.example/k"),
            outposts,
        ),
        (
            OUTPOSTS_ALIAS,
            "",
            format!(
                "https://{OUTPOSTS_ALIAS}.op-0b1d075431d83bebd.s3-outposts.eu-west-1.amazonaws.com/k"
            ),
            outposts,
        ),
    ] {
        check(bucket, "eu-west-1", settings, &url, signature);
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
    let dual = "--dual-stack cannot be combined with --endpoint-url";
    let accelerate = "--transfer-acceleration cannot be combined with --endpoint-url";
    for (bucket, settings, reason) in [
        ("bkt", "http://h dual", dual),
        (DIRECTORY, "http://h dual", dual),
        ("bkt", "http://h accelerate", accelerate),
        ("bkt", "http://h fips", "FIPS endpoints cannot be combined"),
        (
            "bkt",
            "accelerate path",
            "cannot be combined with --force-path-style",
        ),
        ("a.dot", "accelerate", "bucket names with dots"),
        ("bkt", "accelerate fips", "no FIPS endpoints"),
        (
            DIRECTORY,
            "accelerate",
            "directory buckets have no --transfer-acceleration",
        ),
        (
            ACCESS_POINT,
            "accelerate",
            "does not work with access points",
        ),
        (
            MULTI_REGION,
            "accelerate",
            "does not work with access points",
        ),
        (
            ACCESS_POINT,
            "path",
            "--force-path-style does not work with ARNs",
        ),
        (
            MULTI_REGION,
            "http://h",
            "multi-region access points cannot be combined with --endpoint-url",
        ),
        (
            MULTI_REGION,
            "path",
            "--force-path-style does not work with ARNs",
        ),
        (
            OBJECT_LAMBDA,
            "dual",
            "S3 Object Lambda does not support Dual-stack",
        ),
        (OUTPOSTS, "dual", "S3 Outposts does not support Dual-stack"),
        (OUTPOSTS, "fips", "S3 Outposts does not support FIPS"),
        (MULTI_REGION, "dual", "S3 MRAP does not support dual-stack"),
        (MULTI_REGION, "fips", "S3 MRAP does not support FIPS"),
    ] {
        refuses(bucket, "eu-west-1", settings, reason);
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
        ("arn:aws:s3:eu-west-1::accesspoint/p", "The account id may only contain"),
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
