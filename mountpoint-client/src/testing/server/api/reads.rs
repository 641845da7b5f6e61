//! GetObject and HeadObject: conditions, ranges, parts, and the headers that describe the object.

use std::ops::Range;

use hyper::header::{self, HeaderMap, HeaderValue};
use s3s::dto;
use s3s::dto::{
    GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, Metadata, Timestamp,
    TimestampFormat,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use super::objects::quirks;
use crate::testing::server::http::faults::Quirks;
use crate::testing::server::store::buckets::Store;
use crate::testing::server::store::checksum::{Checksum, set_checksum};
use crate::testing::server::store::conditions::{ReadConditions, Verdict, precondition_failed};
use crate::testing::server::store::object::{Headers, Object, Restore};

/// The part of an object that a read asks for.
struct Selection {
    range: Range<u64>,
    is_partial: bool,
    parts_count: Option<i32>,
}

fn select(object: &Object, range: Option<dto::Range>, part: Option<i32>) -> S3Result<Selection> {
    let size = object.size();
    if range.is_some() && part.is_some() {
        return Err(s3_error!(
            InvalidRequest,
            "Cannot specify both Range header and partNumber query parameter"
        ));
    }
    if let Some(range) = range {
        let range = range
            .check(size)
            .ok()
            .filter(|range| !range.is_empty())
            .ok_or_else(|| unsatisfiable(size))?;
        return Ok(Selection {
            range,
            is_partial: true,
            parts_count: None,
        });
    }
    let Some(part) = part else {
        return Ok(Selection {
            range: 0..size,
            is_partial: false,
            parts_count: None,
        });
    };
    let no_such_part = || {
        let code = S3ErrorCode::Custom("InvalidPartNumber".into());
        let mut error = S3Error::with_message(code, "The requested partnumber is not satisfiable");
        error.set_status_code(hyper::StatusCode::RANGE_NOT_SATISFIABLE);
        error
    };
    let part = usize::try_from(part)
        .ok()
        .filter(|part| *part > 0)
        .ok_or_else(|| {
            s3_error!(
                InvalidArgument,
                "Part number must be an integer between 1 and 10000, inclusive"
            )
        })?;
    if object.parts().is_empty() {
        return match part {
            1 => Ok(Selection {
                range: 0..size,
                is_partial: size > 0,
                parts_count: None,
            }),
            _ => Err(no_such_part()),
        };
    }
    let len = *object.parts().get(part - 1).ok_or_else(no_such_part)?;
    let start = object.parts()[..part - 1].iter().sum();
    let parts_count = i32::try_from(object.parts().len()).ok();
    Ok(Selection {
        range: start..start + len,
        is_partial: size > 0,
        parts_count,
    })
}

fn unsatisfiable(size: u64) -> S3Error {
    let mut error = s3_error!(InvalidRange, "The requested range is not satisfiable");
    let mut headers = HeaderMap::new();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/xml"),
    );
    if let Ok(value) = HeaderValue::try_from(format!("bytes */{size}")) {
        headers.insert(header::CONTENT_RANGE, value);
    }
    error.set_headers(headers);
    error
}

fn not_modified(object: &Object) -> S3Error {
    let mut error = S3Error::new(S3ErrorCode::NotModified);
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::try_from(object.etag()) {
        headers.insert(header::ETAG, value);
    }
    error.set_headers(headers);
    error
}

/// Decides whether a GET or HEAD proceeds, and sets the fields that both answers share.
macro_rules! describe {
    ($object:expr, $selection:expr, $checksums:expr, $output:ident) => {{
        let (object, selection) = (&$object, &$selection);
        let Range { start, end } = selection.range;
        let mut output = $output {
            accept_ranges: Some("bytes".to_owned()),
            content_length: i64::try_from(end - start).ok(),
            content_range: selection
                .is_partial
                .then(|| format!("bytes {start}-{}/{}", end - 1, object.size())),
            e_tag: Some(dto::ETag::Strong(object.tag.text())),
            last_modified: Some(Timestamp::from(object.modified)),
            parts_count: selection.parts_count,
            content_type: Some("binary/octet-stream".to_owned()),
            ..$output::default()
        };
        if let Some(extra) = &object.extra {
            let headers = &extra.headers;
            if headers.content_type.is_some() {
                output.content_type = headers.content_type.clone();
            }
            output.content_encoding = headers.content_encoding.clone();
            output.content_disposition = headers.content_disposition.clone();
            output.content_language = headers.content_language.clone();
            output.cache_control = headers.cache_control.clone();
            output.metadata = to_metadata(headers);
            output.storage_class = headers.storage_class.clone().map(dto::StorageClass::from);
            output.expires = headers.expires.as_deref().and_then(from_http_date);
            output.website_redirect_location = headers.website_redirect.clone();
            if let Some(encryption) = &headers.encryption {
                let algorithm = encryption.algorithm.clone();
                output.server_side_encryption = Some(dto::ServerSideEncryption::from(algorithm));
                output.ssekms_key_id = encryption.key_id.clone();
                output.bucket_key_enabled = encryption.bucket_key.then_some(true);
            }
            output.restore = extra.restore.map(restore_header);
            // The checksum is that of the whole object, so it is sent with the whole object only.
            if $checksums && end - start == object.size() {
                set_checksum!(output, &extra.checksum);
                output.checksum_type = extra.checksum.as_ref().map(Checksum::type_of);
            }
        }
        output
    }};
}

fn from_http_date(text: &str) -> Option<Timestamp> {
    Timestamp::parse(TimestampFormat::HttpDate, text).ok()
}

fn to_metadata(headers: &Headers) -> Option<Metadata> {
    let pairs = headers
        .metadata
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()));
    (!headers.metadata.is_empty()).then(|| pairs.collect())
}

fn restore_header(restore: Restore) -> String {
    match restore {
        Restore::InProgress => "ongoing-request=\"true\"".to_owned(),
        Restore::Until(time) => {
            let mut date = Vec::new();
            let formatted = Timestamp::from(time).format(TimestampFormat::HttpDate, &mut date);
            let date = formatted
                .map(|()| String::from_utf8_lossy(&date).into_owned())
                .unwrap_or_default();
            format!("ongoing-request=\"false\", expiry-date=\"{date}\"")
        }
    }
}

macro_rules! read_conditions {
    ($input:expr) => {
        ReadConditions {
            matches: $input.if_match.take(),
            none_match: $input.if_none_match.take(),
            modified_since: $input.if_modified_since.take(),
            unmodified_since: $input.if_unmodified_since.take(),
        }
    };
}

fn judge(conditions: &ReadConditions, object: &Object, quirks: Quirks) -> S3Result<()> {
    match conditions.judge(object) {
        _ if quirks.ignore_conditions => Ok(()),
        Verdict::Proceed => Ok(()),
        Verdict::NotModified => Err(not_modified(object)),
        Verdict::Failed => Err(precondition_failed()),
    }
}

impl Store {
    pub(crate) fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let quirks = quirks(&request);
        let mut input = request.input;
        let object = self.require_object(&input.bucket, &input.key)?;
        judge(&read_conditions!(input), &object, quirks)?;
        if object.is_archived() {
            let message = "The operation is not valid for the object's storage class";
            return Err(S3Error::with_message(
                S3ErrorCode::InvalidObjectState,
                message,
            ));
        }
        let range = input.range.filter(|_| !quirks.ignore_range);
        let selection = select(&object, range, input.part_number)?;
        let mut output = describe!(
            object,
            selection,
            input.checksum_mode.is_some(),
            GetObjectOutput
        );
        output.body = Some(object.content.slice(selection.range).into_body());
        Ok(S3Response::new(output))
    }

    pub(crate) fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let quirks = quirks(&request);
        let mut input = request.input;
        let object = self.require_object(&input.bucket, &input.key)?;
        judge(&read_conditions!(input), &object, quirks)?;
        let range = input.range.filter(|_| !quirks.ignore_range);
        let selection = select(&object, range, input.part_number)?;
        let output = describe!(
            object,
            selection,
            input.checksum_mode.is_some(),
            HeadObjectOutput
        );
        Ok(S3Response::new(output))
    }
}
