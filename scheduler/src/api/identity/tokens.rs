//! Tokens: made, listed, revoked.

use chrono::{DateTime, Utc};
use clawjob_proto::v1 as pb;

use super::{
    IdentityApi,
    grants::{check_display_name, grants_to_proto, read_grants},
};
use crate::{
    api::{
        audit::Note,
        auth::{FreshSecret, token_prefix},
        caller::{Caller, EVERY_APP},
        convert::{names, time},
        paging, request_id,
        status::{ApiError, ApiResult, FIELD_INVALID, Kind, Violations},
    },
    model::principal::{Role, Token},
    store::StoreError,
};

/// Patterns of executor ids, and of handlers, of one token.
const PATTERNS_MAX: usize = 64;
/// Longest pattern, bytes.
const PATTERN_MAX: usize = 128;
/// Tokens looked through in one step, and steps for one page: a page may come short of its size
/// when most tokens are not the caller's to see.
const SCAN_ROWS: u32 = 500;
/// See [`SCAN_ROWS`].
const SCAN_STEPS_MAX: u32 = 20;

impl IdentityApi {
    pub(super) async fn make_token(
        &self,
        caller: &Caller,
        note: &Note,
        request: pb::CreateTokenRequest,
    ) -> ApiResult<pb::CreateTokenResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let principal = caller.principal();
        let id = &request.request_id;
        let key = request_id::key(&principal, "CreateToken", id, &request, &mut bad)?;
        let shown_once = || {
            let text = "this request made a token before; its secret can't be shown again";
            ApiError::precondition("SECRET_SHOWN_ONCE", "REQUEST_ID", id.clone(), text)
        };
        if request_id::answered(&self.api, key.as_ref(), id).await?.is_some() {
            return Err(shown_once());
        }
        let draft = request.token.clone().unwrap_or_default();
        let secret = FreshSecret::new(now);
        let token = read_token(&draft, &secret, principal, now, &mut bad);
        bad.finish()?;
        self.api.store.create_token(&token, key.as_ref()).await.map_err(|error| match error {
            StoreError::Conflict(_) => shown_once(),
            error => ApiError::of_store(Kind::Token, name_of(&token.id), error),
        })?;
        note.resource(&name_of(&token.id));
        tracing::info!(token = %token.id, "token created");
        Ok(pb::CreateTokenResponse { token: Some(to_proto(&token)), secret: secret.text })
    }

    pub(super) async fn page_of_tokens(
        &self,
        caller: &Caller,
        request: pb::ListTokensRequest,
    ) -> ApiResult<pb::ListTokensResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let size = paging::size(request.page_size, &mut bad);
        let query = paging::Query::new(&["ListTokens", &caller.principal()]);
        let key = &self.api.page_key;
        let start: Option<String> = query.key(key, &request.page_token, now, &mut bad);
        bad.finish()?;

        let mut after = start.unwrap_or_default();
        let mut page = paging::Page::new(size);
        let mut more = true;
        'scan: for _ in 0..SCAN_STEPS_MAX {
            let rows = self.api.store.list_tokens(&after, SCAN_ROWS).await?;
            more = rows.len() == SCAN_ROWS as usize;
            for row in rows {
                if page.left() == 0 || (manages(caller, &row) && !page.push(to_proto(&row))) {
                    more = true;
                    break 'scan;
                }
                after.clone_from(&row.id);
            }
            if !more || page.left() == 0 {
                break;
            }
        }
        let next_page_token = if more { query.token(key, &after, now)? } else { String::new() };
        Ok(pb::ListTokensResponse { tokens: page.into_items(), next_page_token })
    }

    pub(super) async fn end_token(
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
    caller.token().is_some_and(|own| own.id == token.id)
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
    check_display_name("token.display_name", &draft.display_name, bad);
    let grants = read_grants("token.grants", &draft.grants, bad);
    if draft.grants.is_empty() {
        bad.invalid("token.grants", "is empty; give at least one role in an app");
    }
    let executors = grants.iter().filter(|grant| grant.role == Role::Executor).count();
    if executors > 0 && executors < grants.len() {
        let text = "mixes ROLE_EXECUTOR with other roles; make a token for each";
        bad.invalid("token.grants", text);
    }
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
