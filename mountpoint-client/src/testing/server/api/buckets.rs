//! Operations on buckets.

use s3s::dto;
use s3s::dto::{
    BucketLocationConstraint, CreateBucketInput, CreateBucketOutput, DeleteBucketInput,
    DeleteBucketOutput, GetBucketLocationInput, GetBucketLocationOutput, HeadBucketInput,
    HeadBucketOutput, ListBucketsInput, ListBucketsOutput, Timestamp,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::testing::server::store::buckets::Store;

impl Store {
    pub(crate) fn create(
        &self,
        request: S3Request<CreateBucketInput>,
    ) -> S3Result<S3Response<CreateBucketOutput>> {
        let name = request.input.bucket;
        if !self.create_bucket(&name) {
            return Err(s3_error!(
                BucketAlreadyOwnedByYou,
                "You own this bucket already"
            ));
        }
        Ok(S3Response::new(CreateBucketOutput {
            location: Some(format!("/{name}")),
        }))
    }

    pub(crate) fn head_bucket(
        &self,
        request: S3Request<HeadBucketInput>,
        region: &str,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        self.require_bucket(&request.input.bucket)?;
        Ok(S3Response::new(HeadBucketOutput {
            bucket_region: Some(region.to_owned()),
            ..HeadBucketOutput::default()
        }))
    }

    pub(crate) fn bucket_location(
        &self,
        request: S3Request<GetBucketLocationInput>,
        region: &str,
    ) -> S3Result<S3Response<GetBucketLocationOutput>> {
        self.require_bucket(&request.input.bucket)?;
        // S3's oldest region has no name here.
        let constraint =
            (region != "us-east-1").then(|| BucketLocationConstraint::from(region.to_owned()));
        Ok(S3Response::new(GetBucketLocationOutput {
            location_constraint: constraint,
        }))
    }

    pub(crate) fn list_buckets(
        &self,
        _: S3Request<ListBucketsInput>,
    ) -> S3Result<S3Response<ListBucketsOutput>> {
        let describe =
            |bucket: std::sync::Arc<crate::testing::server::store::buckets::Bucket>| dto::Bucket {
                name: Some(bucket.name.clone()),
                creation_date: Some(Timestamp::from(bucket.created)),
                ..dto::Bucket::default()
            };
        let buckets = self.buckets().into_iter().map(describe).collect();
        Ok(S3Response::new(ListBucketsOutput {
            buckets: Some(buckets),
            ..ListBucketsOutput::default()
        }))
    }

    pub(crate) fn remove_bucket(
        &self,
        request: S3Request<DeleteBucketInput>,
    ) -> S3Result<S3Response<DeleteBucketOutput>> {
        match self.delete_bucket(&request.input.bucket) {
            None => Err(s3_error!(
                NoSuchBucket,
                "The specified bucket does not exist"
            )),
            Some(false) => Err(s3_error!(
                BucketNotEmpty,
                "The bucket you tried to delete is not empty"
            )),
            Some(true) => Ok(S3Response::new(DeleteBucketOutput::default())),
        }
    }
}
