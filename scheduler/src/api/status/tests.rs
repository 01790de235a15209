use super::*;

#[test]
fn all_violations_and_the_first_reason_reach_the_caller() {
    let mut bad = Violations::new();
    bad.add("job.handler", FIELD_INVALID, "must not be empty");
    bad.add("job.schedules[0].cron", "CRON_INVALID", "has 4 fields; give 5, 6 or 7");
    let status: Status = bad.finish().expect_err("two faults").into();
    assert_eq!(status.code(), Code::InvalidArgument);
    let details = status.get_error_details();
    let fields: Vec<_> = details
        .bad_request()
        .expect("has a BadRequest")
        .field_violations
        .iter()
        .map(|v| v.field.as_str())
        .collect();
    assert_eq!(fields, ["job.handler", "job.schedules[0].cron"]);
    let info = details.error_info().expect("has an ErrorInfo");
    assert_eq!((info.reason.as_str(), info.domain.as_str()), (FIELD_INVALID, ERROR_DOMAIN));
}

/// Bytes of the answer's headers as HTTP/2 counts them, the longest request id among them.
fn travels_as(error: ApiError) -> usize {
    let id = "9".repeat(crate::api::edge::REQUEST_ID_MAX);
    let mut headers = into_grpc_response(error).headers().clone();
    complete(&mut headers, &id);
    headers.insert("x-request-id", HeaderValue::from_str(&id).expect("header text"));
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
}

#[test]
fn no_error_is_larger_than_a_client_takes() {
    for text in ["x", "é?", "错", "\u{7f}"].map(|piece| piece.repeat(100_000)) {
        let t = || text.clone();
        let mut many = Violations::new();
        (0..1000).for_each(|n| many.invalid(format!("f{n}"), &text[..text.len() / 10_000]));
        let errors = [
            many.finish().expect_err("faults"),
            ApiError::invalid(t(), FIELD_INVALID, t()),
            ApiError::not_found(Kind::AlarmRule, t()).with("a", t()),
            ApiError::already_exists(Kind::AlarmRule, t()),
            ApiError::precondition("REASON", "KIND", t(), t()),
            ApiError::exhausted("REASON", t(), t(), STORAGE_RETRY_AFTER),
            ApiError::unimplemented(t()),
        ];
        for error in errors {
            let shown = error.reason();
            let bytes = travels_as(error);
            assert!(bytes <= size::HEADERS_BYTES_MAX, "{shown} of {:.3}…: {bytes}", text);
        }
    }
}

#[test]
fn violations_that_have_no_room_are_counted() {
    let mut bad = Violations::new();
    (0..1000).for_each(|n| bad.add(format!("f{n}"), FIELD_INVALID, "wrong"));
    let status: Status = bad.finish().expect_err("faults").into();
    let told = status.get_error_details().bad_request().cloned().expect("BadRequest");
    let mut told = told.field_violations;
    let last = told.pop().expect("some");
    assert!(told.len() > 50, "{}", told.len());
    let left_out = 1000 - told.len();
    assert_eq!(last.description, format!("and {left_out} more faults; mend these first"));
    assert!(status.message().ends_with(&last.description));
    let whole = told.iter().enumerate().all(|(n, v)| v.field == format!("f{n}"));
    assert!(whole && told.iter().all(|v| v.description == "wrong"), "{told:?}");
}

#[test]
fn causes_of_internal_errors_stay_inside() {
    for error in [
        StoreError::Internal("SELECT secret FROM token".into()),
        StoreError::Corrupt("row 7 of token".into()),
        StoreError::Unavailable("postgres://user:password@db".into()),
        StoreError::Full("postgres://user:password@db".into()),
        StoreError::ReadOnly("postgres://user:password@db".into()),
        StoreError::Removed("row 7".into()),
    ] {
        let status = Status::from(ApiError::from(error));
        let details = String::from_utf8_lossy(status.details()).into_owned();
        for secret in ["SELECT", "row 7", "password"] {
            assert!(!status.message().contains(secret), "{}", status.message());
            assert!(!details.contains(secret), "{details}");
        }
    }
}

#[test]
fn a_store_that_can_t_write_is_told_by_what_is_wrong() {
    let text = String::new;
    for (error, reason, words) in [
        (StoreError::Unavailable(text()), "STORAGE_DOWN", "out of reach"),
        (StoreError::Full(text()), "STORAGE_FULL", "is full"),
        (StoreError::ReadOnly(text()), "STORAGE_READ_ONLY", "is read only"),
        (StoreError::Removed(text()), "STORAGE_REMOVED", "removed or replaced"),
    ] {
        let status = Status::from(ApiError::from(error));
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains(words), "{}", status.message());
        let details = status.get_error_details();
        assert_eq!(details.error_info().expect("ErrorInfo").reason, reason);
        assert!(details.retry_info().is_some(), "{reason}");
    }
}

#[test]
fn statuses_of_the_transport_are_completed() {
    let mut headers = HeaderMap::new();
    Status::new(Code::Unimplemented, "no such method").add_header(&mut headers).expect("adds");
    assert_eq!(complete(&mut headers, "req-1"), Code::Unimplemented);
    let status = Status::from_header_map(&headers).expect("a status");
    assert_eq!(status.message(), "no such method");
    let details = status.get_error_details();
    assert_eq!(details.request_info().expect("RequestInfo").request_id, "req-1");
    assert_eq!(details.error_info().expect("ErrorInfo").reason, "NOT_IMPLEMENTED");
}

#[test]
fn a_message_that_is_none_is_the_callers_fault() {
    let mut headers = HeaderMap::new();
    let said = "failed to decode Protobuf message: invalid tag value: 0";
    Status::new(Code::Internal, said).add_header(&mut headers).expect("adds");
    assert_eq!(complete(&mut headers, "req-1"), Code::InvalidArgument);
    let status = Status::from_header_map(&headers).expect("a status");
    assert_eq!(status.message(), "the request message can't be read: invalid tag value: 0");
}

#[test]
fn an_ok_answer_is_left_alone() {
    let mut headers = HeaderMap::new();
    assert_eq!(complete(&mut headers, "req-1"), Code::Ok);
    assert!(headers.is_empty());
}
