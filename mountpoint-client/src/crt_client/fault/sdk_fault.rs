//! The meaning of a failed call of the SDK. The table is [`classify`](super::classify)'s; this
//! module finds its inputs.

use std::error::Error;
use std::io;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::SdkError;
use aws_smithy_runtime_api::client::result::ConnectorError;

use super::classify::ErrorAnswer;
use super::fault::Fault;
use super::operation::Operation;
use super::origin::ErrorDocument;
use crate::ErrorKind;
use crate::credentials::chain_text;
use crate::network::Stalled;
use crate::xml_root::is_page;

/// The fault behind a failed SDK call.
pub(in crate::crt_client) fn of_sdk<E>(
    operation: &Operation,
    error: &SdkError<E, HttpResponse>,
) -> Fault
where
    E: Error + 'static,
{
    let fault = |kind, what: String| Fault::from(operation.error(kind, &what));
    if has_cause::<Stalled>(error) {
        return Fault {
            is_silence: true,
            ..fault(ErrorKind::Transient, chain_text(error))
        };
    }
    if has_cause::<CredentialsError>(error) {
        return fault(ErrorKind::Credentials, chain_text(error));
    }
    if let Some(raw) = error.raw_response().filter(|raw| is_refusal(raw)) {
        return of_answer(operation, raw);
    }
    match error {
        SdkError::ResponseError(_)
            if has_cause::<io::Error>(error) || chain_text(error).contains("body") =>
        {
            let what = format!("the connection broke: {}", chain_text(error));
            fault(ErrorKind::Transient, what)
        }
        SdkError::ServiceError(_) | SdkError::ResponseError(_) => fault(
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

/// Whether an answer is an error, or a page in the place of an answer; else it cannot be read.
fn is_refusal(raw: &HttpResponse) -> bool {
    let says_so = |body| is_page(body) || ErrorDocument::read(body).is_some();
    !raw.status().is_success() || raw.body().bytes().is_some_and(says_so)
}

fn of_answer(operation: &Operation, raw: &HttpResponse) -> Fault {
    let body = raw.body().bytes().unwrap_or_default();
    let document = ErrorDocument::read(body);
    let headers = raw.headers();
    ErrorAnswer::of_body(
        operation,
        (raw.status().as_u16(), |name: &str| headers.get(name)),
        (&String::from_utf8_lossy(body), document.as_ref()),
    )
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
