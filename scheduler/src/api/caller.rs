//! Who made a request, as the authorisation layer found it; handlers take it from the request.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};

use chrono::{DateTime, Utc};
use rustls_pki_types::CertificateDer;

use super::status::{ApiError, ApiResult};
use crate::model::principal::{Grant, Role, Token};

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

/// Which apps a list may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visible {
    /// All of them.
    All,
    /// These, by name; some may not exist.
    Only(BTreeSet<String>),
}

/// The authenticated caller, in the extensions of every request that needed a credential.
#[derive(Clone, Debug)]
pub struct Caller {
    token: Arc<Token>,
}

impl Caller {
    /// The bearer of a token that holds.
    pub fn new(token: Arc<Token>) -> Self {
        Self { token }
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

    /// `tokens/{id}`, as it is stored with what the caller makes.
    pub fn principal(&self) -> String {
        format!("tokens/{}", self.token.id)
    }

    /// The token itself, with an executor's patterns.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// What the caller may do, where.
    pub fn grants(&self) -> &[Grant] {
        &self.token.grants
    }

    /// When the credential ends by itself.
    pub fn expires_at(&self) -> Option<DateTime<Utc>> {
        self.token.expires_at
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

    /// Fails unless [`Caller::can`].
    ///
    /// # Errors
    /// PERMISSION_DENIED, naming the role and the app.
    pub fn require(&self, role: Role, app: &str) -> ApiResult<()> {
        if self.can(role, app) { Ok(()) } else { Err(role_missing(role, app)) }
    }
}

/// PERMISSION_DENIED, naming the role that is missing and where.
pub(super) fn role_missing(role: Role, app: &str) -> ApiError {
    let word = role_word(role);
    let message = match app {
        EVERY_APP => format!("needs the role {word} in all apps (*)"),
        "" => format!("needs the role {word} in some app"),
        app => format!("needs the role {word} in apps/{app}"),
    };
    ApiError::denied(message).with("role", word).with("app", app)
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
    fn a_role_contains_the_lesser_ones_in_its_app_only() {
        let editor = caller(&[("a", Role::Editor), ("b", Role::Viewer)]);
        assert!(editor.can(Role::Viewer, "a") && editor.can(Role::Editor, "a"));
        assert!(!editor.can(Role::Admin, "a"));
        assert!(editor.can(Role::Viewer, "b") && !editor.can(Role::Operator, "b"));
        assert!(!editor.can(Role::Viewer, "c") && !editor.can(Role::Viewer, EVERY_APP));
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
