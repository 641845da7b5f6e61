//! The entry points that `s3s` calls: each of S3's operations, handed to the store.
//!
//! Every operation that is not here is answered with 501 NotImplemented by `s3s`.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};

use super::express::{Sessions, rename_source};
use super::objects::quirks;
use crate::testing::server::store::buckets::Store;

/// S3's operations on a store.
pub(crate) struct Operations {
    pub(crate) store: Arc<Store>,
    pub(crate) region: String,
    pub(crate) sessions: Arc<Sessions>,
}

/// The one pair of keys that may sign, which can be replaced.
#[derive(Clone)]
pub(crate) struct KeyPair(Arc<Mutex<(String, SecretKey)>>);

impl KeyPair {
    pub(crate) fn new((access_key, secret_key): (String, String)) -> Self {
        Self(Arc::new(Mutex::new((access_key, secret_key.into()))))
    }

    pub(crate) fn replace(&self, access_key: &str, secret_key: &str) {
        *self.0.lock() = (access_key.to_owned(), secret_key.to_owned().into());
    }
}

#[async_trait]
impl S3Auth for KeyPair {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let keys = self.0.lock().clone();
        if access_key == keys.0 {
            Ok(keys.1)
        } else {
            let message = "The AWS Access Key Id you provided does not exist in our records.";
            Err(s3_error!(InvalidAccessKeyId, "{message}"))
        }
    }
}

/// Refuses a request that changes something and carries a sub-resource this server does not know:
/// doing the plain operation instead would destroy data.
fn refuse_unknown<T>(request: &S3Request<T>) -> S3Result<()> {
    let quirks = quirks(request);
    if quirks.unknown_subresource && !quirks.ignore_subresources {
        return Err(s3_error!(
            NotImplemented,
            "A parameter you provided implies functionality that is not implemented"
        ));
    }
    Ok(())
}

type Answer<T> = S3Result<S3Response<T>>;

#[async_trait]
impl S3 for Operations {
    async fn list_buckets(
        &self,
        request: S3Request<ListBucketsInput>,
    ) -> Answer<ListBucketsOutput> {
        self.store.list_buckets(request)
    }

    async fn create_bucket(
        &self,
        request: S3Request<CreateBucketInput>,
    ) -> Answer<CreateBucketOutput> {
        refuse_unknown(&request)?;
        self.store.create(request)
    }

    async fn head_bucket(&self, request: S3Request<HeadBucketInput>) -> Answer<HeadBucketOutput> {
        self.store.head_bucket(request, &self.region)
    }

    async fn get_bucket_location(
        &self,
        request: S3Request<GetBucketLocationInput>,
    ) -> Answer<GetBucketLocationOutput> {
        self.store.bucket_location(request, &self.region)
    }

    async fn delete_bucket(
        &self,
        request: S3Request<DeleteBucketInput>,
    ) -> Answer<DeleteBucketOutput> {
        refuse_unknown(&request)?;
        self.store.remove_bucket(request)
    }

    async fn list_objects(
        &self,
        request: S3Request<ListObjectsInput>,
    ) -> Answer<ListObjectsOutput> {
        self.store.list_objects(request)
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> Answer<ListObjectsV2Output> {
        self.store.list_objects_v2(request)
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> Answer<GetObjectOutput> {
        self.store.get_object(request)
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> Answer<HeadObjectOutput> {
        self.store.head_object(request)
    }

    async fn create_session(
        &self,
        request: S3Request<CreateSessionInput>,
    ) -> Answer<CreateSessionOutput> {
        self.store.require_bucket(&request.input.bucket)?;
        self.sessions.create(request)
    }

    async fn put_object(&self, request: S3Request<PutObjectInput>) -> Answer<PutObjectOutput> {
        if let Some(source) = rename_source(&request) {
            // `s3s` knows no RenameObject; it takes the request for a PutObject, as the destructive
            // servers do.
            return self.store.rename_object(&source, request.input);
        }
        refuse_unknown(&request)?;
        self.store.put_object(request).await
    }

    async fn copy_object(&self, request: S3Request<CopyObjectInput>) -> Answer<CopyObjectOutput> {
        refuse_unknown(&request)?;
        self.store.copy_object(request)
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> Answer<DeleteObjectOutput> {
        refuse_unknown(&request)?;
        self.store.delete_object(request)
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> Answer<DeleteObjectsOutput> {
        self.store.delete_objects(request)
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> Answer<CreateMultipartUploadOutput> {
        self.store.create_multipart_upload(request)
    }

    async fn upload_part(&self, request: S3Request<UploadPartInput>) -> Answer<UploadPartOutput> {
        self.store.upload_part(request).await
    }

    async fn upload_part_copy(
        &self,
        request: S3Request<UploadPartCopyInput>,
    ) -> Answer<UploadPartCopyOutput> {
        self.store.upload_part_copy(request)
    }

    async fn list_parts(&self, request: S3Request<ListPartsInput>) -> Answer<ListPartsOutput> {
        self.store.list_parts(request)
    }

    async fn list_multipart_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> Answer<ListMultipartUploadsOutput> {
        self.store.list_multipart_uploads(request)
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> Answer<CompleteMultipartUploadOutput> {
        self.store.complete_multipart_upload(request)
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> Answer<AbortMultipartUploadOutput> {
        self.store.abort_multipart_upload(request)
    }
}
