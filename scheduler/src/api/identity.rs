//! IdentityService: who calls, and tokens. Users and passwords come with a later release.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use clawjob_proto::v1::{self as pb, identity_service_server::IdentityService};
use tonic::{Request, Response, Status};

use super::{
    Api,
    auth::{Auth, FreshSecret, token_prefix},
    caller::{Caller, EVERY_APP},
    convert::{names, time},
    later::not_yet,
    paging, request_id,
    status::{ApiError, ApiResult, FIELD_INVALID, Kind, Violations},
    validate::DISPLAY_NAME_MAX,
};
use crate::{
    model::principal::{Grant, Role, Token},
    store::StoreError,
};

/// Grants of one token.
pub const GRANTS_MAX: usize = 64;
/// Patterns of executor ids, and of handlers, of one token.
pub const PATTERNS_MAX: usize = 64;
/// Longest pattern, bytes.
pub const PATTERN_MAX: usize = 128;
/// Tokens looked through in one step, and steps for one page: a page may come short of its size
/// when most tokens are not the caller's to see.
const SCAN_ROWS: u32 = 500;
/// See [`SCAN_ROWS`].
const SCAN_STEPS_MAX: u32 = 20;

/// Serves identities.
pub struct IdentityApi {
    api: Arc<Api>,
    auth: Arc<Auth>,
}

impl IdentityApi {
    /// `auth` forgets what is revoked here.
    pub fn new(api: Arc<Api>, auth: Arc<Auth>) -> Self {
        Self { api, auth }
    }

    async fn make_token(
        &self,
        caller: &Caller,
        request: pb::CreateTokenRequest,
    ) -> ApiResult<pb::CreateTokenResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let principal = caller.principal();
        let id = &request.request_id;
        let key = request_id::key(&principal, "CreateToken", id, &request, &mut bad)?;
        let draft = request.token.clone().unwrap_or_default();
        let secret = FreshSecret::new(now);
        let token = read_token(&draft, &secret, principal, now, &mut bad);
        bad.finish()?;
        self.api.store.create_token(&token, key.as_ref()).await.map_err(|error| match error {
            StoreError::Conflict(text) => {
                ApiError::precondition("SECRET_SHOWN_ONCE", "REQUEST_ID", id.clone(), text)
            }
            error => ApiError::of_store(Kind::Token, name_of(&token.id), error),
        })?;
        tracing::info!(token = %token.id, "token created");
        Ok(pb::CreateTokenResponse { token: Some(to_proto(&token)), secret: secret.text })
    }

    async fn page_of_tokens(
        &self,
        caller: &Caller,
        request: pb::ListTokensRequest,
    ) -> ApiResult<pb::ListTokensResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let size = paging::size(request.page_size, &mut bad) as usize;
        let query = paging::Query::new(&["ListTokens", &caller.principal()]);
        let key = &self.api.page_key;
        let start: Option<String> = query.key(key, &request.page_token, now, &mut bad);
        bad.finish()?;

        let mut after = start.unwrap_or_default();
        let mut tokens = Vec::new();
        let mut more = true;
        for _ in 0..SCAN_STEPS_MAX {
            let rows = self.api.store.list_tokens(&after, SCAN_ROWS).await?;
            more = rows.len() == SCAN_ROWS as usize;
            for row in rows {
                if tokens.len() == size {
                    more = true;
                    break;
                }
                after.clone_from(&row.id);
                if manages(caller, &row) {
                    tokens.push(to_proto(&row));
                }
            }
            if !more || tokens.len() == size {
                break;
            }
        }
        let next_page_token = if more { query.token(key, &after, now)? } else { String::new() };
        Ok(pb::ListTokensResponse { tokens, next_page_token })
    }

    async fn end_token(
        &self,
        caller: &Caller,
        request: pb::RevokeTokenRequest,
    ) -> ApiResult<pb::Token> {
        let id = request.name.strip_prefix("tokens/").filter(|id| is_token_id(id));
        let id =
            id.ok_or_else(|| ApiError::invalid("name", FIELD_INVALID, "must read tokens/{token}"))?;
        let fault = |error| ApiError::of_store(Kind::Token, &request.name, error);
        let token = self.api.store.find_token(id).await.map_err(fault)?;
        if !manages(caller, &token) {
            return Err(ApiError::not_found(Kind::Token, &request.name));
        }
        let revoked = self.api.store.revoke_token(id, self.api.clock.now()).await.map_err(fault)?;
        self.auth.forget(id);
        tracing::info!(token = %id, "token revoked");
        Ok(to_proto(&revoked))
    }
}

/// Whether the token is the caller's to see and to revoke: its own, or all its apps are under the
/// caller's administration.
fn manages(caller: &Caller, token: &Token) -> bool {
    token.id == caller.token().id
        || caller.can(Role::Admin, EVERY_APP)
        || token.grants.iter().all(|grant| caller.can(Role::Admin, &grant.app))
}

fn is_token_id(id: &str) -> bool {
    (1..=names::ID_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn name_of(id: &str) -> String {
    format!("tokens/{id}")
}

fn read_token(
    draft: &pb::Token,
    secret: &FreshSecret,
    owner: String,
    now: DateTime<Utc>,
    bad: &mut Violations,
) -> Token {
    if draft.display_name.chars().count() > DISPLAY_NAME_MAX {
        bad.invalid("token.display_name", format!("is over {DISPLAY_NAME_MAX} characters"));
    }
    let grants = read_grants(&draft.grants, bad);
    let executor = grants.iter().any(|grant| grant.role == Role::Executor);
    let (ids, handlers) = (&draft.executor_id_patterns, &draft.handler_patterns);
    for (field, patterns) in
        [("token.executor_id_patterns", ids), ("token.handler_patterns", handlers)]
    {
        check_patterns(field, patterns, executor, bad);
    }
    let end = draft.expire_time.as_ref();
    let expires_at = end.and_then(|end| time::instant("token.expire_time", end, bad));
    if expires_at.is_some_and(|end| end <= now) {
        bad.invalid("token.expire_time", "lies in the past; leave it out for a token without end");
    }
    Token {
        id: secret.id.clone(),
        secret_hash: secret.hash.clone(),
        display_name: draft.display_name.clone(),
        grants,
        executor_id_patterns: ids.clone(),
        handler_patterns: handlers.clone(),
        owner,
        created_at: now,
        expires_at,
        revoked_at: None,
        last_used_at: None,
    }
}

fn read_grants(drafts: &[pb::Grant], bad: &mut Violations) -> Vec<Grant> {
    if drafts.is_empty() {
        bad.invalid("token.grants", "is empty; give at least one role in an app");
    }
    if drafts.len() > GRANTS_MAX {
        bad.invalid("token.grants", format!("has over {GRANTS_MAX} entries; use the app *"));
    }
    let mut grants = Vec::new();
    for (at, draft) in drafts.iter().take(GRANTS_MAX).enumerate() {
        let field = format!("token.grants[{at}]");
        let role = role_of(draft.role);
        if role.is_none() {
            let text = "must be ROLE_VIEWER, _OPERATOR, _EDITOR, _ADMIN or _EXECUTOR";
            bad.invalid(format!("{field}.role"), text);
        }
        if draft.app == EVERY_APP {
            if role == Some(Role::Executor) {
                let text = "an executor's token is bound to an app; name it instead of *";
                bad.invalid(format!("{field}.app"), text);
            }
        } else {
            names::check_new_id(&format!("{field}.app"), "app", &draft.app, bad);
        }
        grants.extend(role.map(|role| Grant { app: draft.app.clone(), role }));
    }
    let executors = grants.iter().filter(|grant| grant.role == Role::Executor).count();
    if executors > 0 && executors < grants.len() {
        let text = "mixes ROLE_EXECUTOR with other roles; make a token for each";
        bad.invalid("token.grants", text);
    }
    grants
}

fn check_patterns(field: &str, patterns: &[String], executor: bool, bad: &mut Violations) {
    if !executor && !patterns.is_empty() {
        bad.invalid(field, "goes with ROLE_EXECUTOR only; leave it out");
    }
    if patterns.len() > PATTERNS_MAX {
        bad.invalid(field, format!("has over {PATTERNS_MAX} entries"));
    }
    for (at, pattern) in patterns.iter().take(PATTERNS_MAX).enumerate() {
        let fits = (1..=PATTERN_MAX).contains(&pattern.len())
            && pattern.bytes().all(|byte| byte.is_ascii_graphic());
        if !fits {
            let text = format!("must be 1 to {PATTERN_MAX} printable characters, * as wildcard");
            bad.invalid(format!("{field}[{at}]"), text);
        }
    }
}

fn role_of(number: i32) -> Option<Role> {
    match pb::Role::try_from(number).ok()? {
        pb::Role::Unspecified => None,
        pb::Role::Viewer => Some(Role::Viewer),
        pb::Role::Operator => Some(Role::Operator),
        pb::Role::Editor => Some(Role::Editor),
        pb::Role::Admin => Some(Role::Admin),
        pb::Role::Executor => Some(Role::Executor),
    }
}

fn role_to_proto(role: Role) -> pb::Role {
    match role {
        Role::Viewer => pb::Role::Viewer,
        Role::Operator => pb::Role::Operator,
        Role::Editor => pb::Role::Editor,
        Role::Admin => pb::Role::Admin,
        Role::Executor => pb::Role::Executor,
    }
}

fn grants_to_proto(grants: &[Grant]) -> Vec<pb::Grant> {
    grants
        .iter()
        .map(|grant| pb::Grant { app: grant.app.clone(), role: role_to_proto(grant.role).into() })
        .collect()
}

fn to_proto(token: &Token) -> pb::Token {
    pb::Token {
        name: name_of(&token.id),
        display_name: token.display_name.clone(),
        grants: grants_to_proto(&token.grants),
        executor_id_patterns: token.executor_id_patterns.clone(),
        handler_patterns: token.handler_patterns.clone(),
        owner: token.owner.clone(),
        create_time: Some(time::instant_to_proto(token.created_at)),
        expire_time: token.expires_at.map(time::instant_to_proto),
        revoke_time: token.revoked_at.map(time::instant_to_proto),
        last_used_time: token.last_used_at.map(time::instant_to_proto),
        prefix: token_prefix(&token.id),
    }
}

const USERS: &str = "signing in with users and passwords";

#[tonic::async_trait]
impl IdentityService for IdentityApi {
    async fn who_am_i(
        &self,
        request: Request<pb::WhoAmIRequest>,
    ) -> Result<Response<pb::WhoAmIResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(pb::WhoAmIResponse {
            principal: caller.principal(),
            grants: grants_to_proto(caller.grants()),
            expire_time: caller.expires_at().map(time::instant_to_proto),
        }))
    }

    async fn create_token(
        &self,
        request: Request<pb::CreateTokenRequest>,
    ) -> Result<Response<pb::CreateTokenResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.make_token(&caller, request.into_inner()).await?))
    }

    async fn list_tokens(
        &self,
        request: Request<pb::ListTokensRequest>,
    ) -> Result<Response<pb::ListTokensResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.page_of_tokens(&caller, request.into_inner()).await?))
    }

    async fn revoke_token(
        &self,
        request: Request<pb::RevokeTokenRequest>,
    ) -> Result<Response<pb::Token>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.end_token(&caller, request.into_inner()).await?))
    }

    async fn login(
        &self,
        _: Request<pb::LoginRequest>,
    ) -> Result<Response<pb::LoginResponse>, Status> {
        not_yet(USERS)
    }

    async fn logout(&self, _: Request<pb::LogoutRequest>) -> Result<Response<()>, Status> {
        not_yet(USERS)
    }

    async fn create_user(
        &self,
        _: Request<pb::CreateUserRequest>,
    ) -> Result<Response<pb::User>, Status> {
        not_yet(USERS)
    }

    async fn get_user(&self, _: Request<pb::GetUserRequest>) -> Result<Response<pb::User>, Status> {
        not_yet(USERS)
    }

    async fn list_users(
        &self,
        _: Request<pb::ListUsersRequest>,
    ) -> Result<Response<pb::ListUsersResponse>, Status> {
        not_yet(USERS)
    }

    async fn update_user(
        &self,
        _: Request<pb::UpdateUserRequest>,
    ) -> Result<Response<pb::User>, Status> {
        not_yet(USERS)
    }

    async fn delete_user(&self, _: Request<pb::DeleteUserRequest>) -> Result<Response<()>, Status> {
        not_yet(USERS)
    }
}
