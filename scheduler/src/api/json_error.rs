//! A status as JSON, in the shape of the Connect protocol:
//! `{"code":"not_found","message":…,"details":[{"type":…,"value":…,"debug":…}]}`.

use std::sync::LazyLock;

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS},
};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::{Value, json};
use tonic::{Code, Status};

use clawjob_proto::code_word;

use super::status::{ApiError, complete, into_grpc_response};

/// The detail messages; without them details go out without their readable form.
static DETAILS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(tonic_types::pb::FILE_DESCRIPTOR_SET).unwrap_or_default()
});

/// The error that headers or trailers hold, if any, with its HTTP status.
pub fn error_of(headers: &HeaderMap) -> Option<(StatusCode, Value)> {
    let status = Status::from_header_map(headers).filter(|status| status.code() != Code::Ok)?;
    let mut error = json!({ "code": connect_word(status.code()), "message": status.message() });
    let details = details_of(status.details());
    if !details.is_empty() {
        error["details"] = Value::Array(details);
    }
    Some((http_status(status.code()), error))
}

/// The error as a whole HTTP answer.
pub fn respond(error: ApiError, request_id: &str) -> Response<Body> {
    let mut headers = into_grpc_response(error).headers().clone();
    complete(&mut headers, request_id);
    let (status, error) =
        error_of(&headers).unwrap_or((StatusCode::INTERNAL_SERVER_ERROR, Value::Null));
    let mut response = json_response(status, &error);
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// A JSON value as an HTTP answer.
pub fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    mark(response.headers_mut(), "application/json");
    response
}

/// What goes with every answer in JSON: it is nothing else, and is kept by nobody on the way.
pub fn mark(headers: &mut HeaderMap, media_type: &'static str) {
    for (name, value) in [
        (CONTENT_TYPE, media_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

fn details_of(bytes: &[u8]) -> Vec<Value> {
    let Ok(status) = tonic_types::pb::Status::decode(bytes) else { return Vec::new() };
    let details = status.details.into_iter();
    details
        .map(|any| {
            let name = any.type_url.rsplit('/').next().unwrap_or_default().to_owned();
            let debug = DETAILS
                .get_message_by_name(&name)
                .and_then(|shape| DynamicMessage::decode(shape, any.value.as_slice()).ok())
                .and_then(|message| serde_json::to_value(message).ok());
            let mut detail = json!({ "type": name, "value": STANDARD_NO_PAD.encode(&any.value) });
            if let Some(debug) = debug {
                detail["debug"] = debug;
            }
            detail
        })
        .collect()
}

/// The HTTP status that goes with a code.
fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::REQUEST_TIMEOUT),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The code as Connect writes it: one l in canceled, all small.
fn connect_word(code: Code) -> String {
    match code {
        Code::Cancelled => "canceled".to_owned(),
        code => code_word(code).to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::status::Kind;

    #[test]
    fn details_are_there_for_programs_and_for_people() {
        let error = ApiError::not_found(Kind::Job, "apps/a/jobs/b").with("hint", "none");
        let mut headers = into_grpc_response(error).headers().clone();
        complete(&mut headers, "req-7");
        let (http, body) = error_of(&headers).expect("an error");
        assert_eq!(http, StatusCode::NOT_FOUND);
        assert_eq!(body["code"], "not_found");
        let details = body["details"].as_array().expect("details");
        let of = |name: &str| {
            let found = details.iter().find(|detail| detail["type"] == name);
            found.unwrap_or_else(|| panic!("{name} in {body}")).clone()
        };
        assert_eq!(of("google.rpc.ErrorInfo")["debug"]["reason"], "JOB_NOT_FOUND");
        assert_eq!(of("google.rpc.RequestInfo")["debug"]["requestId"], "req-7");
        let resource = of("google.rpc.ResourceInfo");
        let bytes =
            STANDARD_NO_PAD.decode(resource["value"].as_str().expect("text")).expect("base64");
        let read = tonic_types::pb::ResourceInfo::decode(bytes.as_slice()).expect("decodes");
        assert_eq!(read.resource_name, "apps/a/jobs/b");
    }
}
