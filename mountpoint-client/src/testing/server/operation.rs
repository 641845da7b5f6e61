//! The operations of S3 that the server tells apart in its log and in its fault rules.

use std::fmt;

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// The operation of a request, by S3's own name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Operation {
            $($(#[$doc])* $name,)+
        }

        impl Operation {
            /// Every operation.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// S3's name for it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

operations! {
    /// `GET /`
    ListBuckets,
    /// `PUT /bucket`
    CreateBucket,
    /// `HEAD /bucket`
    HeadBucket,
    /// `DELETE /bucket`
    DeleteBucket,
    /// `GET /bucket?location`
    GetBucketLocation,
    /// `GET /bucket`
    ListObjects,
    /// `GET /bucket?list-type=2`
    ListObjectsV2,
    /// `GET /bucket?uploads`
    ListMultipartUploads,
    /// `POST /bucket?delete`
    DeleteObjects,
    /// `GET /bucket?session`, directory buckets only
    CreateSession,
    /// `GET /bucket/key`
    GetObject,
    /// `HEAD /bucket/key`
    HeadObject,
    /// `PUT /bucket/key`
    PutObject,
    /// `PUT /bucket/key` with `x-amz-copy-source`
    CopyObject,
    /// `PUT /bucket/key?renameObject`, directory buckets only
    RenameObject,
    /// `DELETE /bucket/key`
    DeleteObject,
    /// `POST /bucket/key?uploads`
    CreateMultipartUpload,
    /// `PUT /bucket/key?partNumber&uploadId`
    UploadPart,
    /// `PUT /bucket/key?partNumber&uploadId` with `x-amz-copy-source`
    UploadPartCopy,
    /// `GET /bucket/key?uploadId`
    ListParts,
    /// `POST /bucket/key?uploadId`
    CompleteMultipartUpload,
    /// `DELETE /bucket/key?uploadId`
    AbortMultipartUpload,
    /// Anything else.
    Other,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
