//! The first argument: a bucket's name, or `s3://BUCKET/PREFIX/`.

use std::str::FromStr;

/// A checked bucket argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketArg {
    /// The bucket's name.
    pub name: String,
    /// From the URI; empty, or ends with `/`.
    pub prefix: String,
}

/// Why an argument is no bucket; the text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BucketArgError {
    /// Not a legal name.
    #[error("'{0}' is not a bucket name: 3 to 255 letters, digits, '.', '-' or '_'")]
    Name(String),
    /// A prefix without its slash.
    #[error("the prefix in an s3:// URI must end with '/': s3://{0}/")]
    Prefix(String),
    /// ARNs are names of access points.
    #[error(
        "'{0}' is an ARN; access points are not supported by this version, name the bucket itself"
    )]
    Arn(String),
}

impl FromStr for BucketArg {
    type Err = BucketArgError;

    fn from_str(text: &str) -> Result<Self, BucketArgError> {
        let (name, prefix) = match text.strip_prefix("s3://") {
            Some(uri) => uri.split_once('/').unwrap_or((uri, "")),
            None => (text, ""),
        };
        if name.starts_with("arn:") {
            return Err(BucketArgError::Arn(name.to_owned()));
        }
        // Old buckets of us-east-1 may have up to 255 characters, capitals and underscores.
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        if !(3..=255).contains(&name.len()) || !name.bytes().all(legal) {
            return Err(BucketArgError::Name(name.to_owned()));
        }
        if !prefix.is_empty() && !prefix.ends_with('/') {
            return Err(BucketArgError::Prefix(format!("{name}/{prefix}")));
        }
        Ok(Self {
            name: name.to_owned(),
            prefix: prefix.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, &str), &str>) {
        let parsed = text.parse::<BucketArg>().map_err(|error| error.to_string());
        match expected {
            Ok((name, prefix)) => {
                assert_eq!(
                    parsed,
                    Ok(BucketArg {
                        name: name.to_owned(),
                        prefix: prefix.to_owned()
                    }),
                    "{text}"
                );
            }
            Err(part) => assert!(
                parsed.as_ref().is_err_and(|e| e.contains(part)),
                "{text}: {parsed:?}"
            ),
        }
    }

    #[test]
    fn bucket_arguments() {
        check("bucket", Ok(("bucket", "")));
        check("my.bucket-1_x", Ok(("my.bucket-1_x", "")));
        check("s3://bucket", Ok(("bucket", "")));
        check("s3://bucket/", Ok(("bucket", "")));
        check("s3://bucket/a/b/", Ok(("bucket", "a/b/")));
        check("s3://bucket/a", Err("must end with '/': s3://bucket/a/"));
        check("ab", Err("not a bucket name"));
        check("", Err("not a bucket name"));
        check("bucket/prefix", Err("not a bucket name"));
        check("s3://", Err("not a bucket name"));
        check("arn:aws:s3:us-east-1:1:accesspoint/x", Err("access points"));
    }
}
