//! A bucket's kind by its name, and the fields of an ARN in its place.
//!
//! Pure. A name may be a bucket's, an access point's alias or an ARN; which ARNs are valid is for
//! the rules to say.

use super::encode::encode_key;

/// Kinds of buckets that behave differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketType {
    /// Lists in order of keys; never renames.
    GeneralPurpose,
    /// S3 Express: sessions, a listing in no order and by whole directories, RenameObject.
    Directory,
}

impl BucketType {
    /// The kind of a bucket by its name: AWS reserves the suffixes of directory buckets and of
    /// their access points.
    #[must_use]
    pub fn of_name(bucket: &str) -> Self {
        if bucket.ends_with("--x-s3") || bucket.ends_with("--xa-s3") {
            Self::Directory
        } else {
            Self::GeneralPurpose
        }
    }
}

/// Whether the name is an ARN instead of a name.
pub(super) fn is_arn(bucket: &str) -> bool {
    bucket.starts_with("arn:")
}

/// The region that an ARN names. Multi-region access points have none.
pub(crate) fn region_of_arn(bucket: &str) -> Option<&str> {
    let region = bucket.strip_prefix("arn:")?.split(':').nth(2)?;
    (!region.is_empty()).then_some(region)
}

/// `x-amz-copy-source` of a key: through an access point's ARN, objects have ARNs of their own.
pub(crate) fn copy_source(bucket: &str, key: &str) -> String {
    let between = if is_arn(bucket) { "/object/" } else { "/" };
    format!("{bucket}{between}{}", encode_key(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_kind() {
        for (name, kind) in [
            ("bucket", BucketType::GeneralPurpose),
            ("bucket--usw2-az1--x-s3", BucketType::Directory),
            ("point--usw2-az1--xa-s3", BucketType::Directory),
            ("point-abc-s3alias", BucketType::GeneralPurpose),
            ("bucket--x-s3.example", BucketType::GeneralPurpose),
        ] {
            assert_eq!(BucketType::of_name(name), kind, "{name}");
        }
    }

    #[test]
    fn arns_tell_region_and_copy_source() {
        for (bucket, region, source) in [
            ("b", None, "b/a/k%20%2B"),
            (
                "arn:aws:s3:eu-west-1:123456789012:accesspoint/p",
                Some("eu-west-1"),
                "arn:aws:s3:eu-west-1:123456789012:accesspoint/p/object/a/k%20%2B",
            ),
            (
                "arn:aws:s3::123456789012:accesspoint/m.mrap",
                None,
                "arn:aws:s3::123456789012:accesspoint/m.mrap/object/a/k%20%2B",
            ),
            ("arn:aws", None, "arn:aws/object/a/k%20%2B"),
        ] {
            assert_eq!(region_of_arn(bucket), region, "{bucket}");
            assert_eq!(copy_source(bucket, "a/k +"), source, "{bucket}");
        }
    }
}
