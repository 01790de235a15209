//! Who made a request, as the authorisation layer found it; handlers take it from the request.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use chrono::{DateTime, Utc};
use http::HeaderMap;
use rustls_pki_types::CertificateDer;

use super::{
    convert::names::shorten,
    status::{ApiError, ApiResult},
};
use crate::model::principal::{Grant, Role, SignIn, Token, User};

/// App name of a grant that holds in every app.
pub const EVERY_APP: &str = "*";
/// App segment of a list over all apps the caller may see.
pub const ANY_APP: &str = "-";

/// The request's id, in its extensions: the caller's `x-request-id`, or one made here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(pub Arc<str>);

/// Where the request came from, in its extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The other end of the connection; a proxy's, when one stands between.
    pub address: SocketAddr,
    /// The connection is encrypted.
    pub tls: bool,
    /// The client's certificate, checked, when one was asked for.
    pub certificate: Option<Arc<CertificateDer<'static>>>,
}

/// Where the request came from as far as people care, in its extensions: the other end of the
/// connection, or, behind a proxy, whom the proxy names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

impl ClientAddress {
    /// Of a request. With `forwarded`, the last address of `x-forwarded-for` counts: the one that
    /// the proxy itself has seen. What stands before it anybody may have written.
    pub fn of(peer: &Peer, headers: &HeaderMap, forwarded: bool) -> Self {
        let told = headers.get_all("x-forwarded-for").iter().next_back();
        let told = told.filter(|_| forwarded).and_then(|value| value.to_str().ok());
        let last = told.and_then(|text| text.rsplit(',').next()).map(str::trim);
        let address = last.and_then(|text| {
            let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
            text.parse::<IpAddr>().ok().or_else(with_port)
        });
        Self(address.unwrap_or_else(|| peer.address.ip()).to_canonical())
    }
}

/// Which apps a list may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visible {
    /// All of them.
    All,
    /// These, by name; some may not exist.
    Only(BTreeSet<String>),
}

/// Who is behind a credential.
#[derive(Clone, Debug)]
enum Who {
    Token(Arc<Token>),
    User(Arc<User>),
}

/// The authenticated caller, in the extensions of every request that needed a credential.
#[derive(Clone, Debug)]
pub struct Caller {
    who: Who,
    /// The sign-in by which it came; None for a token of its own.
    sign_in: Option<Arc<SignIn>>,
    by_cookie: bool,
}

impl Caller {
    /// The bearer of a token that holds.
    pub fn new(token: Arc<Token>) -> Self {
        Self { who: Who::Token(token), sign_in: None, by_cookie: false }
    }

    /// Somebody who signed in with a token.
    pub fn token_signed_in(token: Arc<Token>, sign_in: Arc<SignIn>) -> Self {
        Self { sign_in: Some(sign_in), ..Self::new(token) }
    }

    /// Somebody who signed in with a password.
    pub fn user(user: Arc<User>, sign_in: Arc<SignIn>) -> Self {
        Self { who: Who::User(user), sign_in: Some(sign_in), by_cookie: false }
    }

    /// The caller of a request that passed the authorisation layer.
    ///
    /// # Errors
    /// INTERNAL when the layer let the request pass without one: the method is declared open.
    pub fn of<T>(request: &tonic::Request<T>) -> ApiResult<Self> {
        request
            .extensions()
            .get::<Self>()
            .cloned()
            .ok_or_else(|| ApiError::internal("a handler wants the caller of an open method"))
    }

    /// The same, whose credential came in a cookie: a browser adds that by itself.
    #[must_use]
    pub fn with_cookie(self) -> Self {
        Self { by_cookie: true, ..self }
    }

    /// Whether the credential came in a cookie.
    pub fn by_cookie(&self) -> bool {
        self.by_cookie
    }

    /// `tokens/{id}` or `users/{id}`, as it is stored with what the caller makes.
    pub fn principal(&self) -> String {
        match &self.who {
            Who::Token(token) => format!("tokens/{}", token.id),
            Who::User(user) => format!("users/{}", user.id),
        }
    }

    /// The principal with its display name beside it, for texts that people read.
    pub fn in_words(&self) -> String {
        let display_name = match &self.who {
            Who::Token(token) => &token.display_name,
            Who::User(user) => &user.display_name,
        };
        match display_name.as_str() {
            "" => self.principal(),
            name => format!("{} ({name})", self.principal()),
        }
    }

    /// The token, with an executor's patterns; None for a user.
    pub fn token(&self) -> Option<&Token> {
        match &self.who {
            Who::Token(token) => Some(token),
            Who::User(_) => None,
        }
    }

    /// The user; None for a token.
    pub fn as_user(&self) -> Option<&User> {
        match &self.who {
            Who::Token(_) => None,
            Who::User(user) => Some(user),
        }
    }

    /// The sign-in by which the caller came.
    pub fn sign_in(&self) -> Option<&SignIn> {
        self.sign_in.as_deref()
    }

    /// Public id of the credential.
    pub fn credential(&self) -> &str {
        match (&self.sign_in, &self.who) {
            (Some(sign_in), _) => &sign_in.id,
            (None, Who::Token(token)) => &token.id,
            (None, Who::User(user)) => &user.id,
        }
    }

    /// SHA-256 of the credential's secret.
    pub(super) fn secret_hash(&self) -> &[u8] {
        match (&self.sign_in, &self.who) {
            (Some(sign_in), _) => &sign_in.secret_hash,
            (None, Who::Token(token)) => &token.secret_hash,
            // There is none without a sign-in, and nothing fits it.
            (None, Who::User(_)) => &[],
        }
    }

    /// What the caller may do, where.
    pub fn grants(&self) -> &[Grant] {
        match &self.who {
            Who::Token(token) => &token.grants,
            Who::User(user) => &user.grants,
        }
    }

    /// What people call it.
    pub fn display_name(&self) -> &str {
        match &self.who {
            Who::Token(token) => &token.display_name,
            Who::User(user) => &user.display_name,
        }
    }

    /// When the credential ends by itself.
    pub fn expires_at(&self) -> Option<DateTime<Utc>> {
        let of_token = self.token().and_then(|token| token.expires_at);
        let of_sign_in = self.sign_in().map(|sign_in| sign_in.expires_at);
        of_token.into_iter().chain(of_sign_in).min()
    }

    /// Whether the password must be changed before anything else.
    pub fn password_expired(&self) -> bool {
        self.as_user().is_some_and(|user| user.password_expired)
    }

    /// Fails as long as the password must be changed.
    ///
    /// # Errors
    /// PERMISSION_DENIED, reason PASSWORD_EXPIRED.
    pub fn check_password(&self) -> ApiResult<()> {
        if self.password_expired() { Err(ApiError::password_expired()) } else { Ok(()) }
    }

    /// Whether the caller has the role, or a greater one, in the app (`*`: in every app).
    pub fn can(&self, role: Role, app: &str) -> bool {
        let mut there = self.grants().iter().filter(|g| g.app == EVERY_APP || g.app == app);
        there.any(|g| includes(g.role, role))
    }

    /// Whether the caller has the role, or a greater one, in any app.
    pub fn can_anywhere(&self, role: Role) -> bool {
        self.grants().iter().any(|g| includes(g.role, role))
    }

    /// The apps in which the caller has the role, or a greater one.
    pub fn visible(&self, role: Role) -> Visible {
        if self.can(role, EVERY_APP) {
            return Visible::All;
        }
        let apps = self.grants().iter().filter(|g| includes(g.role, role));
        Visible::Only(apps.map(|g| g.app.clone()).collect())
    }

    /// Fails unless [`Caller::can`], and as long as the password must be changed.
    ///
    /// # Errors
    /// PERMISSION_DENIED, naming the role and the app.
    pub fn require(&self, role: Role, app: &str) -> ApiResult<()> {
        self.check_password()?;
        if self.can(role, app) { Ok(()) } else { Err(role_missing(role, app)) }
    }
}

/// PERMISSION_DENIED, naming the role that is missing and where.
pub(super) fn role_missing(role: Role, app: &str) -> ApiError {
    let word = role_word(role);
    let message = match app {
        EVERY_APP => format!("needs the role {word} in all apps (*)"),
        "" => format!("needs the role {word} in some app"),
        app => format!("needs the role {word} in apps/{}", shorten(app)),
    };
    // What names no app may be of any length, and an error travels in headers.
    ApiError::denied(message).with("role", word).with("app", shorten(app))
}

/// The role's name as the contract has it, without its prefix.
pub fn role_word(role: Role) -> &'static str {
    match role {
        Role::Executor => "EXECUTOR",
        Role::Viewer => "VIEWER",
        Role::Operator => "OPERATOR",
        Role::Editor => "EDITOR",
        Role::Admin => "ADMIN",
    }
}

/// Whether holding `held` is enough where `needed` is asked for. Executor stands apart.
fn includes(held: Role, needed: Role) -> bool {
    match (held, needed) {
        (Role::Executor, Role::Executor) => true,
        (Role::Executor, _) | (_, Role::Executor) => false,
        (held, needed) => held >= needed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(grants: &[(&str, Role)]) -> Caller {
        Caller::new(Arc::new(Token {
            id: "t".into(),
            secret_hash: Vec::new(),
            display_name: String::new(),
            grants: grants
                .iter()
                .map(|(app, role)| Grant { app: (*app).to_owned(), role: *role })
                .collect(),
            executor_id_patterns: Vec::new(),
            handler_patterns: Vec::new(),
            owner: String::new(),
            created_at: DateTime::UNIX_EPOCH,
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
        }))
    }

    #[test]
    fn a_name_of_any_length_makes_an_error_that_fits_into_headers() {
        let refused = caller(&[]).require(Role::Admin, &"x".repeat(100_000)).expect_err("refused");
        let status = tonic::Status::from(refused);
        assert!(status.message().len() < 200, "{}", status.message());
        assert!(status.details().len() < 400, "{}", status.details().len());
    }

    #[test]
    fn a_role_contains_the_lesser_ones_in_its_app_only() {
        let editor = caller(&[("a", Role::Editor), ("b", Role::Viewer)]);
        assert!(editor.can(Role::Viewer, "a") && editor.can(Role::Editor, "a"));
        assert!(!editor.can(Role::Admin, "a"));
        assert!(editor.can(Role::Viewer, "b") && !editor.can(Role::Operator, "b"));
        assert!(!editor.can(Role::Viewer, "c") && !editor.can(Role::Viewer, EVERY_APP));
    }

    #[test]
    fn behind_a_proxy_the_address_that_it_saw_counts_and_else_the_connection_s() {
        let address = "10.0.0.1:5000".parse().expect("an address");
        let peer = Peer { address, tls: false, certificate: None };
        let of = |told: &str, forwarded| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", told.parse().expect("a value"));
            ClientAddress::of(&peer, &headers, forwarded).0.to_string()
        };
        assert_eq!(of("1.2.3.4, 203.0.113.7", true), "203.0.113.7");
        assert_eq!(of("203.0.113.7:99", true), "203.0.113.7");
        assert_eq!(of("[2001:db8::1]:99", true), "2001:db8::1");
        assert_eq!(of("nonsense", true), "10.0.0.1");
        assert_eq!(of("203.0.113.7", false), "10.0.0.1", "anybody can write that");
    }

    #[test]
    fn the_executor_role_stands_apart() {
        let executor = caller(&[("a", Role::Executor)]);
        assert!(executor.can(Role::Executor, "a") && !executor.can(Role::Viewer, "a"));
        let admin = caller(&[(EVERY_APP, Role::Admin)]);
        assert!(!admin.can(Role::Executor, "a"));
    }

    #[test]
    fn lists_show_the_granted_apps() {
        let mixed = caller(&[("b", Role::Viewer), ("a", Role::Admin), ("c", Role::Executor)]);
        let names =
            |apps: &[&str]| Visible::Only(apps.iter().map(|app| (*app).to_owned()).collect());
        assert_eq!(mixed.visible(Role::Viewer), names(&["a", "b"]));
        assert_eq!(mixed.visible(Role::Admin), names(&["a"]));
        assert_eq!(caller(&[(EVERY_APP, Role::Viewer)]).visible(Role::Viewer), Visible::All);
    }
}
