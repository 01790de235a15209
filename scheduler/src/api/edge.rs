//! The way of a request: an id, the gate, and then a service, the JSON bridge or a page.

use std::{
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, HttpBody},
};
use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header::CONTENT_TYPE};
use hyper::body::{Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Code;
use tower::ServiceExt as _;
use tracing::{Instrument as _, Span};

use super::{
    Api,
    audit::Entry,
    bridge,
    caller::{Caller, ClientAddress, Peer, RequestId},
    gate::Gate,
    intake::Share,
    json_error,
    rules::{Rule, rule},
    status::{ApiError, ApiResult, complete, into_grpc_response},
};
use crate::{
    console,
    telemetry::metrics::{RequestLabel, metrics},
};

/// Header that carries a request's id both ways.
pub const REQUEST_ID_HEADER: &str = "x-request-id";
/// When the client of a stream that ended with its node should call another one.
const RETRY_ELSEWHERE: Duration = Duration::from_secs(1);
/// Longest request id that is taken from a caller, characters.
pub const REQUEST_ID_MAX: usize = 128;

/// Everything that is served on the one port.
pub struct Edge {
    api: Arc<Api>,
    gate: Gate,
    grpc: Router,
    pages: Router,
    closing: CancellationToken,
}

impl Edge {
    /// Puts the services behind the gate, and the pages beside them. `pages` has no fallback.
    pub fn new(
        api: Arc<Api>,
        gate: Gate,
        grpc: tonic::service::Routes,
        pages: Router,
    ) -> Arc<Self> {
        let pages = pages.fallback(|request: Request<Body>| async move {
            let path = request.uri().path();
            let file = console::answer(request.method(), path, request.headers());
            file.unwrap_or_else(|| {
                let id = request_id_of(&request);
                json_error::respond(ApiError::unknown_page(path), &id)
            })
        });
        let grpc = grpc.prepare().into_axum_router();
        Arc::new(Self { api, gate, grpc, pages, closing: CancellationToken::new() })
    }

    /// Ends the streams that are open, each with a status that sends its client elsewhere, and all
    /// that open from now on: a connection does not end before its streams do.
    pub fn close_streams(&self) {
        self.closing.cancel();
    }

    /// The layer that decides who may do what.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Answers one request; never fails, whatever the handler does.
    pub async fn handle(self: Arc<Self>, mut request: Request<Body>) -> Response<Body> {
        let id = taken_id(request.headers()).unwrap_or_else(|| self.fresh_id());
        request.extensions_mut().insert(RequestId(id.clone()));
        // Nobody but this layer may say who the caller is.
        request.extensions_mut().remove::<Caller>();
        if request.method() == Method::GET && self.is_context_path(request.uri()) {
            // What the page names beside itself lies behind the slash.
            let name = self.api.settings.context_path.rsplit('/').next().unwrap_or_default();
            return console::redirect(&format!("{name}/"));
        }
        self.strip_context_path(request.uri_mut());
        if let Some(peer) = request.extensions().get::<Peer>() {
            let forwarded = self.api.settings.forwarded_for;
            let address = ClientAddress::of(peer, request.headers(), forwarded);
            request.extensions_mut().insert(address);
        }
        let span = tracing::info_span!(
            "request",
            request_id = &*id,
            path = request.uri().path(),
            principal = tracing::field::Empty,
        );
        let grpc = is_grpc(request.headers());
        let answer = AssertUnwindSafe(self.route(request)).catch_unwind().instrument(span.clone());
        let mut response = answer.await.unwrap_or_else(|_| {
            let error = ApiError::internal("a handler panicked");
            span.in_scope(|| if grpc { into_grpc_response(error) } else { respond(error, &id) })
        });
        if grpc {
            complete(response.headers_mut(), &id);
        }
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(REQUEST_ID_HEADER, value);
        }
        response
    }

    async fn route(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        if is_grpc(request.headers()) {
            self.call(request).await
        } else if bridge::is_method_path(request.uri().path()) {
            bridge::answer(&self, request).await
        } else {
            self.pages.clone().oneshot(request).await.unwrap_or_else(|never| match never {})
        }
    }

    /// Passes a gRPC request through the gate to its service. An error is a gRPC answer too.
    pub(super) async fn call(&self, mut request: Request<Body>) -> Response<Body> {
        let id = request_id_of(&request);
        let method = self.gate.label(request.uri().path());
        let mut entry = Entry::of(&mut request, self.api.clock.now());
        let response = match self.let_in(request, &mut entry).await {
            Ok(mut request) => {
                // Kept until the answer: so long the message may be in memory.
                let _share = request.extensions_mut().remove::<Share>();
                let answer = self.grpc.clone().oneshot(request).await;
                answer.unwrap_or_else(|never| match never {})
            }
            Err(error) => into_grpc_response(error),
        };
        let response = match entry {
            Some(entry) => entry.end(&self.api.store, response).await,
            None => response,
        };
        let (mut head, body) = response.into_parts();
        if head.headers.contains_key("grpc-status") {
            count(&method, complete(&mut head.headers, &id));
            return Response::from_parts(head, body);
        }
        let closing = Box::pin(self.closing.clone().cancelled_owned());
        let span = Span::current();
        let body = CompletedBody { body, id, method, span, closing, over: false };
        Response::from_parts(head, Body::new(body))
    }

    /// Lets a request pass that may, with its event of the audit log written before.
    async fn let_in(
        &self,
        request: Request<Body>,
        entry: &mut Option<Entry>,
    ) -> ApiResult<Request<Body>> {
        let request = self.greet(request).await?;
        let request = self.gate.admit(request, entry).await?;
        if let Some(entry) = entry {
            entry.begin(&self.api.store).await?;
        }
        Ok(request)
    }

    /// Looks at who opens a session before the gate does, while its first frame can still be read:
    /// the log says who was turned away.
    async fn greet(&self, mut request: Request<Body>) -> ApiResult<Request<Body>> {
        if rule(request.uri().path().trim_start_matches('/')) != Some(Rule::Session) {
            return Ok(request);
        }
        match self.gate.executor(request.headers()).await {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                Ok(request)
            }
            Err(error) => {
                self.api.strangers.refuse(request, &error, &*self.api.clock).await;
                Err(error)
            }
        }
    }

    fn fresh_id(&self) -> Arc<str> {
        let ms = u64::try_from(self.api.clock.now().timestamp_millis()).unwrap_or(0);
        ulid::Ulid::from_parts(ms, rand::random()).to_string().into()
    }

    fn is_context_path(&self, uri: &Uri) -> bool {
        let path = &self.api.settings.context_path;
        !path.is_empty() && uri.path() == path
    }

    fn strip_context_path(&self, uri: &mut Uri) {
        let prefix = self.api.settings.context_path.trim_end_matches('/');
        let Some(whole) = uri.path_and_query() else { return };
        let Some(rest) = whole.as_str().strip_prefix(prefix) else { return };
        if prefix.is_empty() || !(rest.is_empty() || rest.starts_with(['/', '?'])) {
            return;
        }
        let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
        let mut parts = std::mem::take(uri).into_parts();
        parts.path_and_query = rest.parse().ok();
        *uri = Uri::from_parts(parts).unwrap_or_default();
    }
}

fn respond(error: ApiError, id: &str) -> Response<Body> {
    json_error::respond(error, id)
}

/// The id that [`Edge::handle`] gave the request.
pub(super) fn request_id_of<B>(request: &Request<B>) -> Arc<str> {
    request.extensions().get::<RequestId>().map_or_else(|| "".into(), |id| id.0.clone())
}

/// The caller's id, if it is one that may stand in a log.
fn taken_id(headers: &HeaderMap) -> Option<Arc<str>> {
    let text = headers.get(REQUEST_ID_HEADER)?.to_str().ok()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/+=".contains(c);
    let fits = !text.is_empty() && text.len() <= REQUEST_ID_MAX && text.chars().all(plain);
    fits.then(|| text.into())
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|text| text.starts_with("application/grpc"))
}

/// Notes the end of a call.
fn count(method: &str, code: Code) {
    let label = RequestLabel { method: method.to_owned(), code: clawjob_proto::code_word(code) };
    metrics().api_requests.get_or_create(&label).inc();
    tracing::debug!(?code, "answered");
}

/// A gRPC answer whose trailers are completed as they pass, and whose stream runs in the request's
/// span until the server goes away.
struct CompletedBody {
    body: Body,
    id: Arc<str>,
    method: String,
    span: Span,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    over: bool,
}

impl CompletedBody {
    fn end(&mut self, mut trailers: HeaderMap) -> Frame<Bytes> {
        self.over = true;
        count(&self.method, complete(&mut trailers, &self.id));
        Frame::trailers(trailers)
    }
}

impl HttpBody for CompletedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if this.over {
            return Poll::Ready(None);
        }
        let span = this.span.clone();
        let _inside = span.enter();
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(match frame.into_trailers() {
                Ok(trailers) => this.end(trailers),
                Err(frame) => frame,
            }))),
            Poll::Ready(other) => Poll::Ready(other),
            Poll::Pending => {
                std::task::ready!(this.closing.as_mut().poll(cx));
                let text = "this node is going away; call another one";
                let error = ApiError::unavailable("NODE_DRAINING", text, RETRY_ELSEWHERE);
                let trailers = into_grpc_response(error).headers().clone();
                Poll::Ready(Some(Ok(this.end(trailers))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
