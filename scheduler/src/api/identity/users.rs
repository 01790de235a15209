//! Users: made, shown, changed, deleted.

use std::net::IpAddr;

use clawjob_proto::v1 as pb;

use super::{
    IdentityApi, USER_ID_MAX,
    attempts::Origin,
    grants::{check_display_name, grants_to_proto, read_grants},
    passwords,
};
use crate::{
    api::{
        caller::{Caller, EVERY_APP},
        convert::{names, time},
        mask, paging, request_id,
        status::{ApiError, ApiResult, FIELD_INVALID, Kind, Violations},
    },
    model::principal::{Role, User},
    store::{StoreError, identity::EndSignIns},
};

/// Longest address of mail, bytes: RFC 5321 has 256 with its brackets.
const EMAIL_MAX: usize = 254;
/// Fields that no request sets.
const OUTPUT_ONLY: [&str; 5] =
    ["name", "create_time", "last_login_time", "etag", "password_expired"];
/// What users may change of themselves without being admin.
const OWN_FIELDS: &str = "display_name, email and password";
/// Tries to change a user that others change at the same time.
const UPDATE_TRIES_MAX: u32 = 5;

impl IdentityApi {
    pub(super) async fn make_user(
        &self,
        caller: &Caller,
        request: pb::CreateUserRequest,
    ) -> ApiResult<pb::User> {
        let mut bad = Violations::new();
        let id = &request.user_id;
        names::check_new_id("user_id", "user", id, &mut bad);
        passwords::check_new("password", &request.password, id, &mut bad);
        let draft = request.user.clone().unwrap_or_default();
        let grants = read_user(&draft, &mut bad);
        let principal = caller.principal();
        let request_id = &request.request_id;
        // What is kept of the request is a fast hash: a slow one stands in it for the password.
        let password = if request_id.is_empty() || !bad.is_empty() {
            String::new()
        } else {
            self.passwords.mark(&request.password, &format!("{principal}/{request_id}")).await?
        };
        let body = pb::CreateUserRequest { password, ..request.clone() };
        let key = request_id::key(&principal, "CreateUser", request_id, &body, &mut bad)?;
        bad.finish()?;
        if let Some(birth) = request_id::answered(&self.api, key.as_ref(), request_id).await? {
            let found = self.api.store.find_user(id).await;
            let is_made = |user: &User| user.birth() == birth;
            let user = request_id::still_there(Kind::User, name_of(id), found, is_made)?;
            return Ok(to_proto(&user));
        }
        let user = User {
            id: id.clone(),
            email: draft.email,
            display_name: draft.display_name,
            grants,
            disabled: draft.disabled,
            password_hash: self.passwords.hash(&request.password).await?,
            password_expired: true,
            version: 1,
            created_at: self.api.clock.now(),
            last_login_at: None,
        };
        let made = self.api.store.create_user(&user, key.as_ref()).await;
        let user = made.map_err(|error| match error {
            StoreError::Conflict(_) => request_id::reused(request_id),
            error => ApiError::of_store(Kind::User, name_of(id), error),
        })?;
        tracing::info!(user = %user.id, by = principal, "user created");
        Ok(to_proto(&user))
    }

    pub(super) async fn show_user(&self, request: &pb::GetUserRequest) -> ApiResult<pb::User> {
        let id = parse("name", &request.name)?;
        let found = self.api.store.find_user(id).await;
        found
            .map(|user| to_proto(&user))
            .map_err(|error| ApiError::of_store(Kind::User, &request.name, error))
    }

    pub(super) async fn page_of_users(
        &self,
        caller: &Caller,
        request: pb::ListUsersRequest,
    ) -> ApiResult<pb::ListUsersResponse> {
        let now = self.api.clock.now();
        let mut bad = Violations::new();
        let size = paging::size(request.page_size, &mut bad);
        let query = paging::Query::new(&["ListUsers", &caller.principal()]);
        let key = &self.api.page_key;
        let start: Option<String> = query.key(key, &request.page_token, now, &mut bad);
        bad.finish()?;
        let rows =
            self.api.store.list_users(&start.unwrap_or_default(), size.saturating_add(1)).await?;
        let (users, last) = paging::cut(&rows, size, to_proto);
        let next_page_token = match last {
            Some(last) => query.token(key, &last.id, now)?,
            None => String::new(),
        };
        Ok(pb::ListUsersResponse { users, next_page_token })
    }

    pub(super) async fn change_user(
        &self,
        caller: &Caller,
        address: IpAddr,
        request: pb::UpdateUserRequest,
    ) -> ApiResult<pb::User> {
        let patch = request.user.clone().unwrap_or_default();
        let id = parse("user.name", &patch.name)?;
        let fault = |error| ApiError::of_store(Kind::User, &patch.name, error);
        let own = caller.as_user().is_some_and(|user| user.id == id);
        let mut password: Option<String> = None;
        for _ in 0..UPDATE_TRIES_MAX {
            let current = self.api.store.find_user(id).await.map_err(fault)?;
            let shown = to_proto(&current);
            if !patch.etag.is_empty() && patch.etag != shown.etag {
                return Err(ApiError::etag_mismatch(&patch.name));
            }
            let merged = mask::merge(&shown, &patch, request.update_mask.as_ref(), &OUTPUT_ONLY)?;
            let beyond = merged.grants != shown.grants || merged.disabled != shown.disabled;
            if beyond && !caller.can(Role::Admin, EVERY_APP) {
                let text = format!("users may change their own {OWN_FIELDS} alone");
                return Err(ApiError::denied(text));
            }
            let mut bad = Violations::new();
            let grants = read_user(&merged, &mut bad);
            bad.finish()?;
            let mut user = User {
                email: merged.email,
                display_name: merged.display_name,
                grants,
                disabled: merged.disabled,
                ..current
            };
            if !request.password.is_empty() {
                // Once, however often the row moves under it.
                let hash = match password.take() {
                    Some(hash) => hash,
                    None => self.fresh_password(&user, own, address, &request).await?,
                };
                password = Some(hash.clone());
                user.password_hash = hash;
                user.password_expired = !own;
            }
            let end = ended_by(caller, own, &request, &user);
            match self.api.store.update_user(&user, &end).await {
                Ok(user) => {
                    self.auth.forget_all();
                    tracing::info!(user = %user.id, by = caller.principal(), "user changed");
                    return Ok(to_proto(&user));
                }
                // Whoever names no etag wants its fields set whatever the others are.
                Err(StoreError::Conflict(_)) if patch.etag.is_empty() => {}
                Err(StoreError::Conflict(_)) => break,
                Err(error) => return Err(fault(error)),
            }
        }
        Err(ApiError::etag_mismatch(&patch.name))
    }

    /// What is kept of the new password. Whoever sets one's own must know the old one: a sign-in
    /// that was left open, or taken, is not enough. Tries count like those of a sign-in.
    async fn fresh_password(
        &self,
        user: &User,
        own: bool,
        address: IpAddr,
        request: &pb::UpdateUserRequest,
    ) -> ApiResult<String> {
        let mut bad = Violations::new();
        passwords::check_new("password", &request.password, &user.id, &mut bad);
        if own && request.password == request.current_password {
            bad.invalid("password", "is the old one; choose another");
        }
        bad.finish()?;
        if own {
            let (origin, now) = (Origin::of(address), self.api.clock.elapsed());
            self.attempts.begin(&user.id, origin, now).map_err(super::sign_in::too_many)?;
            let given = &request.current_password;
            if !self.passwords.fits(Some(&user.password_hash), given).await? {
                let text = "is not the password as it is";
                return Err(ApiError::invalid("current_password", "PASSWORD_WRONG", text));
            }
            self.attempts.succeeded(&user.id, origin, now);
        }
        self.passwords.hash(&request.password).await
    }

    pub(super) async fn remove_user(&self, request: &pb::DeleteUserRequest) -> ApiResult<()> {
        let id = parse("name", &request.name)?;
        let gone = self.api.store.delete_user(id, self.api.clock.now()).await;
        gone.map_err(|error| ApiError::of_store(Kind::User, &request.name, error))?;
        self.auth.forget_all();
        tracing::info!(user = %id, "user deleted");
        Ok(())
    }
}

/// Which sign-ins do not outlive the change.
fn ended_by(
    caller: &Caller,
    own: bool,
    request: &pb::UpdateUserRequest,
    changed: &User,
) -> EndSignIns {
    match (changed.disabled, request.password.is_empty(), caller.sign_in()) {
        (true, ..) => EndSignIns::All,
        (false, true, _) => EndSignIns::None,
        (false, false, Some(sign_in)) if own => EndSignIns::AllBut(sign_in.id.clone()),
        (false, false, _) => EndSignIns::All,
    }
}

/// Checks what a request sets, and gives the grants.
fn read_user(user: &pb::User, bad: &mut Violations) -> Vec<crate::model::principal::Grant> {
    check_display_name("user.display_name", &user.display_name, bad);
    let email = &user.email;
    let plain = email.bytes().all(|byte| byte.is_ascii_graphic()) && email.contains('@');
    if !email.is_empty() && (!plain || email.len() > EMAIL_MAX) {
        bad.invalid("user.email", format!("must be an address of at most {EMAIL_MAX} bytes"));
    }
    let grants = read_grants("user.grants", &user.grants, bad);
    if grants.iter().any(|grant| grant.role == Role::Executor) {
        bad.invalid("user.grants", "has ROLE_EXECUTOR; executors come with tokens");
    }
    grants
}

fn parse<'a>(field: &str, name: &'a str) -> ApiResult<&'a str> {
    let id = name.strip_prefix("users/").filter(|id| names::is_id(id));
    id.ok_or_else(|| {
        let text = format!("must read users/{{user}}, at most {USER_ID_MAX} characters");
        ApiError::invalid(field, FIELD_INVALID, text)
    })
}

fn name_of(id: &str) -> String {
    format!("users/{id}")
}

/// The instant it was made is in it: a user made anew under an old name matches no earlier etag.
fn etag(user: &User) -> String {
    format!("{:x}-{:x}", user.created_at.timestamp_micros(), user.version)
}

fn to_proto(user: &User) -> pb::User {
    pb::User {
        name: name_of(&user.id),
        email: user.email.clone(),
        display_name: user.display_name.clone(),
        grants: grants_to_proto(&user.grants),
        disabled: user.disabled,
        create_time: Some(time::instant_to_proto(user.created_at)),
        last_login_time: user.last_login_at.map(time::instant_to_proto),
        etag: etag(user),
        password_expired: user.password_expired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::principal::Grant;
    use clawjob_proto::json::pool;

    fn full() -> User {
        User {
            id: "ann".into(),
            email: "ann@example.org".into(),
            display_name: "Ann".into(),
            grants: vec![Grant { app: "billing".into(), role: Role::Editor }],
            disabled: true,
            password_hash: "$argon2id$secret".into(),
            password_expired: true,
            version: 4,
            created_at: chrono::DateTime::UNIX_EPOCH,
            last_login_at: Some(chrono::DateTime::UNIX_EPOCH),
        }
    }

    #[test]
    fn every_field_of_a_user_is_shown_and_no_secret() {
        let json = clawjob_proto::json::to_value(&to_proto(&full())).expect("has a JSON form");
        let descriptor = pool().get_message_by_name("clawjob.v1.User").expect("in the contract");
        for field in descriptor.fields() {
            assert!(json.get(field.json_name()).is_some(), "{} is not shown", field.name());
        }
        assert!(!json.to_string().contains("argon2"), "{json}");
    }

    #[test]
    fn all_faults_of_a_user_are_told_at_once() {
        let mut bad = Violations::new();
        let draft = pb::User {
            email: "no address".into(),
            display_name: "x".repeat(1000),
            grants: vec![pb::Grant { app: "a".into(), role: pb::Role::Executor.into() }],
            ..pb::User::default()
        };
        read_user(&draft, &mut bad);
        let message = bad.finish().expect_err("three faults").message().to_owned();
        for field in ["user.email", "user.display_name", "user.grants"] {
            assert!(message.contains(field), "{message}");
        }
    }
}
