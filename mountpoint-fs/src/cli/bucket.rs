//! The first argument. A bucket's name, the ARN or alias of an access point, or
//! `s3://BUCKET/PREFIX/`.

use std::str::FromStr;

/// A checked bucket argument. The client knows which kind of bucket an ARN or a name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketArg {
    /// The argument as typed.
    pub text: String,
    /// The bucket's name, or the ARN or alias of an access point.
    pub name: String,
    /// The prefix of the URI; empty, or ends with `/`.
    pub prefix: String,
    /// Whether the argument was an `s3://` URI, which may have a prefix of its own.
    pub is_uri: bool,
}

/// The reason why an argument is no bucket; the text names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BucketArgError {
    /// Not a legal name.
    #[error("'{0}' is not a bucket name: 3 to 255 letters, digits, '.', '-' or '_'")]
    Name(String),
    /// A name with a slash, but without `s3://`.
    #[error("'{0}' is not a bucket name; a bucket with a prefix is written s3://{0}")]
    PathWithoutScheme(String),
    /// A bucket as other programs write it.
    #[error("'{text}' is not a bucket name; here it is written {form}")]
    Foreign {
        /// The text.
        text: String,
        /// The right form.
        form: String,
    },
    /// A prefix without its slash.
    #[error("the prefix in an s3:// URI must end with '/': s3://{0}/")]
    Prefix(String),
    /// An ARN in a URI, which takes only bucket names.
    #[error(
        "an ARN cannot stand in an s3:// URI; give the ARN alone, and the prefix with --prefix"
    )]
    ArnInUri,
    /// Not the shape of an ARN.
    #[error("'{0}' is not an ARN of S3: arn:PARTITION:s3:REGION:ACCOUNT:accesspoint/NAME")]
    Arn(String),
    /// A bucket needs no ARN.
    #[error("this ARN names a bucket; give its name: {0}")]
    ArnOfBucket(String),
}

impl FromStr for BucketArg {
    type Err = BucketArgError;

    fn from_str(text: &str) -> Result<Self, BucketArgError> {
        let Some(uri) = text.strip_prefix("s3://") else {
            let name = if text.starts_with("arn:") {
                check_arn(text)?
            } else {
                check_name(text)?
            };
            return Ok(Self {
                text: text.to_owned(),
                name: name.to_owned(),
                prefix: String::new(),
                is_uri: false,
            });
        };
        if uri.starts_with("arn:") {
            return Err(BucketArgError::ArnInUri);
        }
        let (name, prefix) = uri.split_once('/').unwrap_or((uri, ""));
        check_name(name)?;
        if !prefix.is_empty() && !prefix.ends_with('/') {
            return Err(BucketArgError::Prefix(format!("{name}/{prefix}")));
        }
        Ok(Self {
            text: text.to_owned(),
            name: name.to_owned(),
            prefix: prefix.to_owned(),
            is_uri: true,
        })
    }
}

/// Old buckets of us-east-1 may have up to 255 characters, capitals and underscores.
fn check_name(name: &str) -> Result<&str, BucketArgError> {
    if is_name(name) {
        return Ok(name);
    }
    if let Some((first, rest)) = name.split_once('/')
        && is_name(first)
    {
        let slash = if rest.is_empty() || rest.ends_with('/') {
            ""
        } else {
            "/"
        };
        return Err(BucketArgError::PathWithoutScheme(format!("{name}{slash}")));
    }
    match foreign_form(name) {
        Some(form) => Err(BucketArgError::Foreign {
            text: name.to_owned(),
            form,
        }),
        None => Err(BucketArgError::Name(name.to_owned())),
    }
}

fn is_name(name: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    (3..=255).contains(&name.len()) && name.bytes().all(legal)
}

/// The form of a bucket that is written as for other programs: `bucket:/path`, a URL, `s3a://`.
fn foreign_form(text: &str) -> Option<String> {
    if let Some((scheme, rest)) = text.split_once("://") {
        return match scheme.to_ascii_lowercase().as_str() {
            "s3" | "s3a" | "s3n" => as_uri(rest),
            "http" | "https" => of_url(scheme, rest),
            _ => None,
        };
    }
    let (name, path) = text.split_once(':')?;
    match name {
        "s3" | "S3" => as_uri(path.trim_start_matches('/')),
        _ => as_uri(&format!("{name}/{}", path.trim_start_matches('/'))),
    }
}

/// `BUCKET/PREFIX` as a URI, if it begins with a bucket.
fn as_uri(path: &str) -> Option<String> {
    let (name, prefix) = path.split_once('/').unwrap_or((path, ""));
    let slash = if prefix.is_empty() || prefix.ends_with('/') {
        ""
    } else {
        "/"
    };
    is_name(name).then(|| match prefix {
        "" => name.to_owned(),
        _ => format!("s3://{name}/{prefix}{slash}"),
    })
}

/// The form of a bucket at `scheme://rest`. Amazon's hosts have the bucket in front, or in the
/// path; other hosts in the path.
fn of_url(scheme: &str, rest: &str) -> Option<String> {
    let rest = rest.split(['?', '#']).next()?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    // A password must not be shown.
    if host.contains('@') {
        return None;
    }
    let amazon = [".amazonaws.com", ".amazonaws.com.cn"];
    if amazon.iter().any(|end| host.ends_with(end)) {
        let place = host.find(".s3.").or_else(|| host.find(".s3-"));
        return match place {
            Some(end) => as_uri(&format!("{}/{path}", &host[..end])),
            None => as_uri(path),
        };
    }
    let server = format!("--endpoint-url {scheme}://{host}");
    Some(match as_uri(path) {
        Some(form) => format!("{form} with {server}"),
        None => format!("BUCKET with {server}"),
    })
}

/// Checks the shape of an ARN of an S3 service. The client resolves its resource.
fn check_arn(arn: &str) -> Result<&str, BucketArgError> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b':' | b'/' | b'.' | b'-' | b'_');
    let fields: Vec<&str> = arn.splitn(6, ':').collect();
    let [_, partition, service, region, account, resource] = fields[..] else {
        return Err(BucketArgError::Arn(arn.to_owned()));
    };
    if service == "s3" && region.is_empty() && account.is_empty() && check_name(resource).is_ok() {
        return Err(BucketArgError::ArnOfBucket(resource.to_owned()));
    }
    let shaped = partition.starts_with("aws")
        && ARN_SERVICES.contains(&service)
        && !account.is_empty()
        && resource.contains(['/', ':'])
        && arn.len() <= ARN_LEN_MAX
        && arn.bytes().all(legal);
    if shaped {
        Ok(arn)
    } else {
        Err(BucketArgError::Arn(arn.to_owned()))
    }
}

const ARN_SERVICES: [&str; 4] = ["s3", "s3-object-lambda", "s3-outposts", "s3express"];
/// AWS's limit of any ARN.
const ARN_LEN_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, &str), &str>) {
        let parsed = text.parse::<BucketArg>().map_err(|error| error.to_string());
        match expected {
            Ok((name, prefix)) => {
                let wanted = BucketArg {
                    text: text.to_owned(),
                    name: name.to_owned(),
                    prefix: prefix.to_owned(),
                    is_uri: text.starts_with("s3://"),
                };
                assert_eq!(parsed, Ok(wanted), "{text}");
            }
            Err(part) => assert!(
                parsed.as_ref().is_err_and(|e| e.contains(part)),
                "{text}: {parsed:?}"
            ),
        }
    }

    #[test]
    fn bucket_names_and_uris() {
        check("bucket", Ok(("bucket", "")));
        check("my.bucket-1_x", Ok(("my.bucket-1_x", "")));
        check("bucket--use1-az4--x-s3", Ok(("bucket--use1-az4--x-s3", "")));
        check("point-alias-s3alias", Ok(("point-alias-s3alias", "")));
        check("s3://bucket", Ok(("bucket", "")));
        check("s3://bucket/", Ok(("bucket", "")));
        check("s3://bucket/a/b/", Ok(("bucket", "a/b/")));
        check(
            "s3://bucket--use1-az4--x-s3/a/",
            Ok(("bucket--use1-az4--x-s3", "a/")),
        );
        check("s3://doctor", Ok(("doctor", "")));
        check("s3://bucket/a", Err("must end with '/': s3://bucket/a/"));
        check("ab", Err("not a bucket name"));
        check("", Err("not a bucket name"));
        check("bucket/prefix", Err("is written s3://bucket/prefix/"));
        check("bucket/", Err("is written s3://bucket/"));
        check("s3://", Err("not a bucket name"));
        check("s3:///a/", Err("not a bucket name"));
    }

    #[test]
    fn forms_of_other_programs_get_the_right_one() {
        for (text, form) in [
            ("bucket:/path", "s3://bucket/path/"),
            ("bucket:path/", "s3://bucket/path/"),
            ("bucket:/", "bucket"),
            ("bucket:", "bucket"),
            ("s3:bucket", "bucket"),
            ("s3:/bucket/a", "s3://bucket/a/"),
            ("S3://bucket/a", "s3://bucket/a/"),
            ("s3a://bucket", "bucket"),
            ("https://bucket.s3.amazonaws.com", "bucket"),
            (
                "https://my.bucket.s3.eu-west-1.amazonaws.com/a/b",
                "s3://my.bucket/a/b/",
            ),
            ("https://bucket.s3-us-west-2.amazonaws.com/", "bucket"),
            (
                "https://s3.eu-west-1.amazonaws.com/bucket/a/",
                "s3://bucket/a/",
            ),
            (
                "http://127.0.0.1:9000/bucket/a",
                "s3://bucket/a/ with --endpoint-url http://127.0.0.1:9000",
            ),
            (
                "https://minio.local",
                "BUCKET with --endpoint-url https://minio.local",
            ),
        ] {
            check(text, Err(&format!("here it is written {form}")));
        }
        for text in [
            "https://user:password@host/bucket",
            "ftp://host/b",
            "a:",
            ":/a",
        ] {
            check(text, Err("3 to 255 letters"));
        }
    }

    #[test]
    fn arns() {
        for arn in [
            "arn:aws:s3:us-east-1:123456789012:accesspoint/x",
            "arn:aws:s3:us-east-1:123456789012:accesspoint:x",
            "arn:aws-cn:s3:cn-north-1:123456789012:accesspoint/x",
            "arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap",
            "arn:aws:s3-object-lambda:us-east-1:123456789012:accesspoint/x",
            "arn:aws:s3-outposts:us-east-1:123456789012:outpost/op-1/accesspoint/x",
        ] {
            check(arn, Ok((arn, "")));
            check(&format!("s3://{arn}"), Err("cannot stand in an s3:// URI"));
            check(
                &format!("s3://{arn}/a/"),
                Err("cannot stand in an s3:// URI"),
            );
        }
        check("arn:aws:s3:::bucket", Err("give its name: bucket"));
        check(
            "arn:aws:ec2:us-east-1:123456789012:instance/x",
            Err("not an ARN of S3"),
        );
        check(
            "arn:aws:s3:us-east-1:123456789012:x",
            Err("not an ARN of S3"),
        );
        check("arn:aws:s3", Err("not an ARN of S3"));
        check("arn:", Err("not an ARN of S3"));
        check(
            "arn:aws:s3:us-east-1:123456789012:accesspoint/x y",
            Err("not an ARN of S3"),
        );
    }
}
