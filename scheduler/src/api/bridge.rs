//! The contract as JSON over HTTP, in the shape of the Connect unary protocol, for every method
//! that is not an executor's session.
//!
//! It knows no method by name: a request becomes the message that the descriptor set describes,
//! goes through the same gate and service as over gRPC, and the answer becomes JSON again. A stream's
//! messages come as lines of JSON; an error after the first of them is the last line,
//! `{"error":{…}}`.

use std::sync::Arc;

use axum::body::Body;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures::stream;
use http::{
    HeaderMap, HeaderValue, Method as HttpMethod, Request, Response, StatusCode,
    header::{ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, SET_COOKIE, TE},
};
use http_body_util::BodyExt as _;
use prost::Message as _;
use prost_reflect::{
    DeserializeOptions, DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions,
};
use serde_json::Value;

use super::{
    edge::{Edge, request_id_of},
    gate::FRAME_HEADER_BYTES,
    intake::Sender,
    json_error::{error_of, json_response, mark, respond},
    rules::Rule,
    status::{ApiError, ApiResult, FIELD_INVALID},
};

/// Whether the path could be a method of the contract.
pub fn is_method_path(path: &str) -> bool {
    path.starts_with("/clawjob.v1.")
}

/// Answers a JSON request.
pub async fn answer(edge: &Edge, request: Request<Body>) -> Response<Body> {
    let id = request_id_of(&request);
    let answered = match check_form(&request) {
        Ok(()) => serve(edge, request).await,
        Err(refused) => return refused(&id),
    };
    answered.unwrap_or_else(|error| respond(error, &id))
}

type Refusal = Box<dyn FnOnce(&str) -> Response<Body> + Send>;

/// What HTTP itself has a status for: method and media type.
fn check_form(request: &Request<Body>) -> Result<(), Refusal> {
    if request.method() != HttpMethod::POST {
        return Err(refusal(StatusCode::METHOD_NOT_ALLOWED, "call it with POST"));
    }
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let media_type = header(CONTENT_TYPE).map(|t| t.split(';').next().unwrap_or(t).trim());
    if !media_type.is_some_and(|t| t.eq_ignore_ascii_case("application/json")) {
        let text = "the content-type must be application/json";
        return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    if header(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let text = "compressed requests are not read here: send the body uncompressed";
        return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    Ok(())
}

fn refusal(status: StatusCode, text: &'static str) -> Refusal {
    Box::new(move |id| {
        let mut response = respond(ApiError::invalid("", "REQUEST_MALFORMED", text), id);
        *response.status_mut() = status;
        if status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        }
        response
    })
}

async fn serve(edge: &Edge, request: Request<Body>) -> ApiResult<Response<Body>> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let (mut head, body) = request.into_parts();
    let known = edge.gate().method(&path).filter(|method| method.rule != Rule::Session);
    // The caller first: nobody gets a body of any size read, or a name told, without a credential.
    let sender = match known.is_some_and(|method| method.rule == Rule::Open) {
        true => Sender::Anybody,
        false => {
            let caller = edge.gate().authenticate_web(&head.headers).await?;
            head.extensions.insert(caller);
            Sender::Known
        }
    };
    let Some(method) = known.and_then(|method| method.descriptor.clone()) else {
        let text = format!("there is no method /{path} over JSON");
        return Err(ApiError::unimplemented(text));
    };
    let message = {
        let (bytes, _share) = edge.gate().intake().read(body, sender, 0).await?;
        read_message(method.input(), &bytes)?
    };

    head.headers.remove(CONTENT_LENGTH);
    head.headers.remove("grpc-accept-encoding");
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    head.headers.insert(TE, HeaderValue::from_static("trailers"));
    head.version = http::Version::HTTP_2;
    let response = edge.call(Request::from_parts(head, Body::from(frame(&message)))).await;

    let (head, body) = response.into_parts();
    if let Some((status, error)) = error_of(&head.headers) {
        return Ok(json_response(status, &error));
    }
    if method.is_server_streaming() {
        return Ok(lines(body, method.output()));
    }
    let mut answer = whole(body, &method).await?;
    if let Some(cookie) = head.headers.get(SET_COOKIE) {
        answer.headers_mut().insert(SET_COOKIE, cookie.clone());
    }
    Ok(answer)
}

/// A message from JSON; empty text is an empty message.
fn read_message(shape: MessageDescriptor, bytes: &[u8]) -> ApiResult<DynamicMessage> {
    if bytes.is_empty() {
        return Ok(DynamicMessage::new(shape));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut reader, &mut track);
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let message = DynamicMessage::deserialize_with_options(shape, tracked, &options)
        .and_then(|message| reader.end().map(|()| message));
    message.map_err(|error| {
        let text = error.to_string();
        // The reader quotes a field that it does not know; the path ends where it was found.
        let unknown = text.strip_prefix("unrecognized field name '");
        let unknown = unknown.and_then(|rest| rest.split('\'').next());
        let mut field = track.path().to_string().trim_matches('.').to_owned();
        if let Some(unknown) = unknown
            && field.rsplit('.').next() != Some(unknown)
        {
            let dot = if field.is_empty() { "" } else { "." };
            field = format!("{field}{dot}{unknown}");
        }
        ApiError::invalid(field, FIELD_INVALID, format!("the JSON can't be read: {text}"))
    })
}

fn frame(message: &DynamicMessage) -> Bytes {
    let length = message.encoded_len();
    let mut out = BytesMut::with_capacity(FRAME_HEADER_BYTES + length);
    out.put_u8(0);
    // Bounded as the request was, so it fits.
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    out.put_slice(&message.encode_to_vec());
    out.freeze()
}

/// Takes the next whole message off the front.
fn next_message(buffer: &mut BytesMut) -> Option<Bytes> {
    let [_, a, b, c, d, ..] = *buffer.as_ref() else { return None };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if buffer.len() < FRAME_HEADER_BYTES + length {
        return None;
    }
    buffer.advance(FRAME_HEADER_BYTES);
    Some(buffer.split_to(length).freeze())
}

fn to_json(shape: MessageDescriptor, bytes: Bytes) -> ApiResult<Value> {
    let fault = |error: String| ApiError::internal(format!("answer as JSON: {error}"));
    let message = DynamicMessage::decode(shape, bytes).map_err(|e| fault(e.to_string()))?;
    let options = SerializeOptions::new().stringify_64_bit_integers(true);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .map_err(|e| fault(e.to_string()))
}

async fn whole(body: Body, method: &MethodDescriptor) -> ApiResult<Response<Body>> {
    let collected = body.collect().await;
    let collected = collected.map_err(|error| ApiError::internal(format!("answer: {error}")))?;
    if let Some((status, error)) = collected.trailers().and_then(error_of) {
        return Ok(json_response(status, &error));
    }
    let mut bytes = BytesMut::from(collected.to_bytes().as_ref());
    let message = next_message(&mut bytes)
        .ok_or_else(|| ApiError::internal("the service gave no message and no error"))?;
    Ok(json_response(StatusCode::OK, &to_json(method.output(), message)?))
}

/// One JSON value a line, each as soon as its message is there.
fn lines(body: Body, shape: MessageDescriptor) -> Response<Body> {
    struct Reader {
        body: Body,
        buffer: BytesMut,
        ended: bool,
    }
    let reader = Reader { body, buffer: BytesMut::new(), ended: false };
    let shape = Arc::new(shape);
    let out = stream::unfold(reader, move |mut reader| {
        let shape = shape.clone();
        async move {
            loop {
                if reader.ended {
                    return None;
                }
                if let Some(message) = next_message(&mut reader.buffer) {
                    let value = to_json(shape.as_ref().clone(), message);
                    return Some((line(value.ok()), reader));
                }
                match reader.body.frame().await {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => reader.buffer.extend_from_slice(&data),
                        Err(frame) => {
                            reader.ended = true;
                            let error = frame.trailers_ref().and_then(last_words);
                            if error.is_some() {
                                return Some((line(error), reader));
                            }
                        }
                    },
                    Some(Err(_)) | None => return None,
                }
            }
        }
    });
    let mut response = Response::new(Body::from_stream(out));
    mark(response.headers_mut(), "application/x-ndjson");
    // A proxy that gathers an answer before it passes it on would hold back each line.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn last_words(trailers: &HeaderMap) -> Option<Value> {
    error_of(trailers).map(|(_, error)| serde_json::json!({ "error": error }))
}

fn line(value: Option<Value>) -> Result<Bytes, std::io::Error> {
    let value = value.ok_or_else(|| std::io::Error::other("a message has no JSON form"))?;
    Ok(Bytes::from(format!("{value}\n")))
}
