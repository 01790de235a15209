//! The one authorisation layer, in front of every RPC and of its JSON form.
//!
//! It decides by [`super::rules`]: the caller comes from the credential, the app from the request
//! message itself, which is read here before the handler sees it. A handler can narrow what it
//! shows, never widen it.

use std::{collections::HashMap, sync::Arc};

use axum::body::Body;
use bytes::Bytes;
use clawjob_proto::json::pool;
use http::{HeaderMap, Request, header::AUTHORIZATION};
use prost_reflect::{DynamicMessage, MethodDescriptor, ReflectMessage as _, Value};

use super::{
    audit::Entry,
    auth::Auth,
    caller::{ANY_APP, Caller, EVERY_APP, role_missing},
    cookie::{CSRF_HEADER, Cookies},
    intake::{Intake, Sender},
    rules::{Rule, rule},
    status::{ApiError, ApiResult, FIELD_INVALID, Kind},
};
use crate::{clock::Clock, model::principal::Role};

/// Bytes before each gRPC message: a flag and a length.
pub(super) const FRAME_HEADER_BYTES: usize = 5;

/// A method that can be called here.
pub struct Method {
    /// Who may call it.
    pub rule: Rule,
    /// Its shape; `None` for services that are not of the contract (health, reflection).
    pub descriptor: Option<MethodDescriptor>,
}

/// Lets requests pass, or not.
pub struct Gate {
    auth: Arc<Auth>,
    cookies: Arc<Cookies>,
    intake: Intake,
    methods: HashMap<String, Method>,
}

impl Gate {
    /// A gate over all methods of the contract that have a rule.
    pub fn new(auth: Arc<Auth>, cookies: Arc<Cookies>, clock: Arc<dyn Clock>) -> Self {
        let mut methods = HashMap::new();
        for service in pool().services() {
            for descriptor in service.methods() {
                let path = format!("{}/{}", service.full_name(), descriptor.name());
                if let Some(rule) = rule(&path) {
                    methods.insert(path, Method { rule, descriptor: Some(descriptor) });
                }
            }
        }
        Self { auth, cookies, intake: Intake::new(clock), methods }
    }

    /// The checker of credentials behind it.
    pub fn auth(&self) -> &Arc<Auth> {
        &self.auth
    }

    /// The reader of request messages.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    /// A method of the contract by its path without the leading slash.
    pub fn method(&self, path: &str) -> Option<&Method> {
        self.methods.get(path)
    }

    /// `Service/Method` of the contract for the metrics; all others are one.
    pub fn label(&self, path: &str) -> String {
        let path = path.trim_start_matches('/');
        let known = self.methods.contains_key(path);
        if known { path.trim_start_matches("clawjob.v1.").to_owned() } else { "other".to_owned() }
    }

    /// The caller by its credential, and that alone.
    ///
    /// # Errors
    /// As [`Auth::authenticate`].
    pub async fn authenticate(&self, headers: &HeaderMap) -> ApiResult<Caller> {
        self.auth.authenticate(headers).await
    }

    /// The same for a call over HTTP, whose credential may also come in the cookie of a sign-in.
    ///
    /// # Errors
    /// As [`Auth::authenticate`].
    pub async fn authenticate_web(&self, headers: &HeaderMap) -> ApiResult<Caller> {
        match self.cookies.read(headers).filter(|_| !headers.contains_key(AUTHORIZATION)) {
            None => self.authenticate(headers).await,
            Some(credential) => Ok(self.auth.verify("cookie", credential).await?.with_cookie()),
        }
    }

    /// The caller by its credential, which may open sessions in some app.
    ///
    /// # Errors
    /// As [`Auth::authenticate`], and PERMISSION_DENIED.
    pub async fn executor(&self, headers: &HeaderMap) -> ApiResult<Caller> {
        let caller = self.authenticate(headers).await?;
        passes_by_role(Rule::Session, &caller)?;
        Ok(caller)
    }

    /// Lets a gRPC request pass with its [`Caller`] in the extensions. A caller that is there
    /// already was put there by whoever had to know it earlier. The message of a unary call is read
    /// by then; its [`Share`](super::intake::Share) is in the extensions.
    ///
    /// # Errors
    /// UNAUTHENTICATED, PERMISSION_DENIED, NOT_FOUND for what the caller may not know of,
    /// INVALID_ARGUMENT when the message does not say which app it is about, and those of
    /// [`Intake::read`].
    pub async fn admit(
        &self,
        mut request: Request<Body>,
        entry: &mut Option<Entry>,
    ) -> ApiResult<Request<Body>> {
        let path = request.uri().path().trim_start_matches('/').to_owned();
        let rule = rule(&path);
        if rule == Some(Rule::Open) {
            return Ok(self.read(request, Sender::Anybody).await?.0);
        }
        let caller = match request.extensions_mut().remove::<Caller>() {
            Some(caller) => caller,
            None => self.authenticate(request.headers()).await?,
        };
        let Some(rule) = rule else {
            return Err(ApiError::unimplemented(format!("there is no method /{path}")));
        };
        tracing::Span::current().record("principal", caller.principal());
        let by_role = passes_by_role(rule, &caller);
        match entry {
            // What is refused is written down, too, with what it was about.
            Some(entry) => entry.by(&caller),
            None if matches!(by_role, Ok(true)) => {
                request.extensions_mut().insert(caller);
                return match self.is_unary(&path) {
                    true => Ok(self.read(request, Sender::Known).await?.0),
                    false => Ok(request),
                };
            }
            None => {}
        }
        if entry.is_some() || by_role.is_ok() {
            let message;
            (request, message) = self.read_message(request, &path).await?;
            if let Some(entry) = entry {
                entry.about(&message);
                self.check_cookie(&caller, request.headers())?;
            }
            if matches!(by_role, Ok(false)) {
                judge(rule, &caller, &message)?;
            }
        }
        by_role?;
        request.extensions_mut().insert(caller);
        Ok(request)
    }

    /// A browser sends a cookie by itself; so a change needs a word of the page besides.
    fn check_cookie(&self, caller: &Caller, headers: &HeaderMap) -> ApiResult<()> {
        let Some(sign_in) = caller.sign_in().filter(|_| caller.by_cookie()) else { return Ok(()) };
        if self.cookies.csrf_holds(&sign_in.id, headers) {
            return Ok(());
        }
        Err(ApiError::csrf(CSRF_HEADER))
    }

    /// The message of a unary request, which then has it still.
    async fn read_message(
        &self,
        request: Request<Body>,
        path: &str,
    ) -> ApiResult<(Request<Body>, DynamicMessage)> {
        let input = self.methods.get(path).and_then(|method| method.descriptor.as_ref());
        let Some(input) = input.map(MethodDescriptor::input) else {
            return Err(ApiError::internal(format!("{path} is not in the contract")));
        };
        let (request, bytes) = self.read(request, Sender::Known).await?;
        let message = DynamicMessage::decode(input, message_of(&bytes)?)
            .map_err(|error| malformed(&format!("the request message can't be read: {error}")))?;
        Ok((request, message))
    }

    /// The body of a request of one message, which then has it still.
    async fn read(
        &self,
        request: Request<Body>,
        sender: Sender,
    ) -> ApiResult<(Request<Body>, Bytes)> {
        let (mut head, body) = request.into_parts();
        let (bytes, share) = self.intake.read(body, sender, FRAME_HEADER_BYTES).await?;
        head.extensions.insert(share);
        Ok((Request::from_parts(head, Body::from(bytes.clone())), bytes))
    }

    /// Whether it is a method of the contract that takes one message.
    fn is_unary(&self, path: &str) -> bool {
        let method = self.methods.get(path).and_then(|method| method.descriptor.as_ref());
        method.is_some_and(|method| !method.is_client_streaming())
    }
}

/// The one message in the body of a unary gRPC request.
fn message_of(body: &Bytes) -> ApiResult<Bytes> {
    let [flag, a, b, c, d, ..] = *body.as_ref() else {
        return Err(malformed("the request has no message"));
    };
    if flag != 0 {
        let text = "compressed requests are not read here: send the message uncompressed";
        return Err(ApiError::unimplemented(text));
    }
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    let message = body.slice(FRAME_HEADER_BYTES..);
    if message.len() != length {
        return Err(malformed("the request must hold one message, whole"));
    }
    Ok(message)
}

pub(super) fn malformed(text: &str) -> ApiError {
    ApiError::invalid("", "REQUEST_MALFORMED", text)
}

/// Decides by the caller's roles alone; false means that the message has to say more.
fn passes_by_role(rule: Rule, caller: &Caller) -> ApiResult<bool> {
    let (role, enough) = match rule {
        Rule::Open | Rule::Anyone => return Ok(true),
        // Whoever must change the password can do that alone, to nobody else.
        Rule::Oneself(role, _) => {
            return Ok(caller.can(role, EVERY_APP) && !caller.password_expired());
        }
        _ if caller.password_expired() => return Err(ApiError::password_expired()),
        Rule::Session => (Role::Executor, true),
        Rule::Somewhere(role) => (role, true),
        Rule::Everywhere(role) => {
            caller.require(role, EVERY_APP)?;
            return Ok(true);
        }
        Rule::Within(role, _) | Rule::AppId(role, _) | Rule::Named(role, _) => (role, false),
        Rule::Listed(role, _) | Rule::Offhand(role, _) | Rule::Granting(role, _) => (role, false),
    };
    if caller.can(role, EVERY_APP) {
        return Ok(true);
    }
    // Whoever has the role nowhere is told so whatever the message says: it learns nothing by it.
    if !caller.can_anywhere(role) && (enough || !caller.can_anywhere(Role::Viewer)) {
        return Err(role_missing(role, ""));
    }
    Ok(enough)
}

/// Decides by the app that the message is about.
fn judge(rule: Rule, caller: &Caller, message: &DynamicMessage) -> ApiResult<()> {
    match rule {
        Rule::Open | Rule::Anyone | Rule::Session | Rule::Somewhere(_) | Rule::Everywhere(_) => {
            Ok(())
        }
        Rule::Oneself(role, field) => match text(message, field) == caller.principal() {
            true => Ok(()),
            false => caller.require(role, EVERY_APP),
        },
        Rule::AppId(role, field) => caller.require(role, &text(message, field)),
        Rule::Within(role, field) => {
            let parent = text(message, field);
            caller.require(role, app_of(field, &parent, "apps/{app}")?)
        }
        Rule::Named(role, field) => {
            let name = text(message, field);
            let app = app_of(field, &name, "apps/{app}/…")?;
            allow_or_hide(role, caller, app, || ApiError::not_found(kind_of(&name), &name))
        }
        Rule::Listed(role, field) => list(role, caller, field, &text(message, field)),
        Rule::Offhand(role, field) => match text(message, field).as_str() {
            "" => list(role, caller, field, "apps/-"),
            parent => list(role, caller, field, parent),
        },
        Rule::Granting(role, field) => {
            let mut apps = Vec::new();
            collect(message, field, &mut apps);
            apps.iter().try_for_each(|app| caller.require(role, app))
        }
    }
}

fn list(role: Role, caller: &Caller, field: &str, parent: &str) -> ApiResult<()> {
    let app = app_of(field, parent, "apps/{app} or apps/-")?;
    if app == ANY_APP {
        return match caller.can_anywhere(role) {
            true => Ok(()),
            false => Err(role_missing(role, "")),
        };
    }
    allow_or_hide(role, caller, app, || ApiError::not_found(Kind::App, format!("apps/{app}")))
}

/// Whoever may not even read in the app gets the same answer as if the thing did not exist.
fn allow_or_hide(
    role: Role,
    caller: &Caller,
    app: &str,
    hidden: impl FnOnce() -> ApiError,
) -> ApiResult<()> {
    if caller.can(role, app) {
        Ok(())
    } else if caller.can(Role::Viewer, app) {
        Err(role_missing(role, app))
    } else {
        Err(hidden())
    }
}

/// The app segment of `apps/{app}` or `apps/{app}/…`.
fn app_of<'a>(field: &str, name: &'a str, shape: &str) -> ApiResult<&'a str> {
    name.strip_prefix("apps/")
        .map(|rest| rest.split('/').next().unwrap_or(rest))
        .filter(|app| !app.is_empty())
        .ok_or_else(|| ApiError::invalid(field, FIELD_INVALID, format!("must read {shape}")))
}

/// What a resource name names, by its collection.
fn kind_of(name: &str) -> Kind {
    match name.split('/').nth(2) {
        Some("jobs") => Kind::Job,
        Some("runs") => Kind::Run,
        Some("executors") => Kind::Executor,
        Some("calendars") => Kind::Calendar,
        Some("alarmRules") => Kind::AlarmRule,
        Some("alarms") => Kind::Alarm,
        _ => Kind::App,
    }
}

/// The text at the path; empty when it is not set.
fn text(message: &DynamicMessage, path: &str) -> String {
    let mut found = Vec::new();
    collect(message, path, &mut found);
    found.pop().unwrap_or_default()
}

/// All texts at the path, which may lead through lists.
fn collect(message: &DynamicMessage, path: &str, found: &mut Vec<String>) {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let Some(field) = message.descriptor().get_field_by_name(first) else { return };
    if field.supports_presence() && !message.has_field(&field) {
        return;
    }
    collect_value(&message.get_field(&field), rest, found);
}

fn collect_value(value: &Value, rest: &str, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Message(inner) => collect(inner, rest, found),
        Value::List(items) => items.iter().for_each(|item| collect_value(item, rest, found)),
        _ => {}
    }
}
