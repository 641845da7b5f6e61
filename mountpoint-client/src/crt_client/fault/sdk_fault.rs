//! The meaning of a failed call of the SDK. The table is [`classify`](super::classify)'s; this
//! module finds its inputs.

use std::error::Error;
use std::io;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::result::ConnectorError;

use super::classify::ErrorAnswer;
use super::fault::Fault;
use super::operation::Operation;
use crate::ErrorKind;
use crate::credentials::chain_text;
use crate::crt_client::text;

/// The fault behind a failed SDK call.
pub(in crate::crt_client) fn of_sdk<E>(
    operation: &Operation,
    error: &SdkError<E, HttpResponse>,
) -> Fault
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let fault = |kind, what: String| operation.error(kind, &what).into();
    if has_cause::<CredentialsError>(error) {
        return fault(ErrorKind::Credentials, chain_text(error));
    }
    match error {
        SdkError::ServiceError(context) => {
            let metadata = context.err().meta();
            of_answer(
                operation,
                context.raw(),
                metadata.code(),
                metadata.message(),
            )
        }
        SdkError::ResponseError(context) if !context.raw().status().is_success() => {
            of_answer(operation, context.raw(), None, None)
        }
        SdkError::ResponseError(_)
            if has_cause::<io::Error>(error) || chain_text(error).contains("body") =>
        {
            let what = format!("the connection broke: {}", chain_text(error));
            fault(ErrorKind::Transient, what)
        }
        SdkError::ResponseError(_) => fault(
            ErrorKind::InvalidResponse,
            format!("the answer cannot be read: {}", chain_text(error)),
        ),
        SdkError::DispatchFailure(failure) => match failure.as_connector_error() {
            Some(connector) => match kind_of_connector(connector) {
                ErrorKind::Unreachable => operation.unreachable(&chain_text(connector)).into(),
                kind => fault(kind, chain_text(connector)),
            },
            None => fault(ErrorKind::Transient, chain_text(error)),
        },
        SdkError::TimeoutError(_) => fault(
            ErrorKind::Transient,
            format!("timed out: {}", chain_text(error)),
        ),
        _ => fault(ErrorKind::InvalidRequest, chain_text(error)),
    }
}

fn of_answer(
    operation: &Operation,
    raw: &HttpResponse,
    code: Option<&str>,
    message: Option<&str>,
) -> Fault {
    let body = raw
        .body()
        .bytes()
        .map(String::from_utf8_lossy)
        .unwrap_or_default();
    let region = text::xml_element(&body, "Region");
    let headers = raw.headers();
    // For answers without a body the SDK makes up a code from the status; the table knows the
    // statuses.
    let code = code.filter(|_| !body.is_empty());
    ErrorAnswer {
        status: raw.status().as_u16(),
        code,
        message: message.filter(|message| !message.is_empty()),
        region: headers.get("x-amz-bucket-region").or(region.as_deref()),
        retry_after: headers.get("retry-after"),
        server: headers.get("server"),
    }
    .fault(operation)
}

/// A connection that was never made is another matter than one that broke.
fn kind_of_connector(error: &ConnectorError) -> ErrorKind {
    if error.is_user() {
        return ErrorKind::InvalidRequest;
    }
    let refused = find_cause::<io::Error>(error).is_some_and(|io| {
        matches!(
            io.kind(),
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::AddrNotAvailable
                | io::ErrorKind::InvalidData
        )
    });
    let text = chain_text(error).to_ascii_lowercase();
    let never_connected = [
        "connect error",
        "(connect)",
        "dns error",
        "connect timeout",
        "certificate",
    ];
    if refused || never_connected.iter().any(|sign| text.contains(sign)) {
        ErrorKind::Unreachable
    } else {
        ErrorKind::Transient
    }
}

fn has_cause<T: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    find_cause::<T>(error).is_some()
}

fn find_cause<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
