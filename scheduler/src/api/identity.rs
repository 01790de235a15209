//! IdentityService: who calls, signing in and out, users, tokens.

pub mod attempts;
mod grants;
pub mod passwords;
mod sign_in;
mod tokens;
mod users;

use std::sync::Arc;

use clawjob_proto::v1::{self as pb, identity_service_server::IdentityService};
use tonic::{Request, Response, Status};

use super::{
    Api,
    audit::Note,
    auth::Auth,
    caller::Caller,
    convert::{names, time},
    status::ApiResult,
};
use attempts::Attempts;
use grants::grants_to_proto;
use passwords::Passwords;

/// Longest id of a user: the rule is that of apps.
pub const USER_ID_MAX: usize = names::ID_MAX;

/// Serves identities.
pub struct IdentityApi {
    api: Arc<Api>,
    auth: Arc<Auth>,
    passwords: Passwords,
    attempts: Attempts,
}

impl IdentityApi {
    /// `auth` forgets what is ended here.
    ///
    /// # Errors
    /// As [`Passwords::new`].
    pub fn new(api: Arc<Api>, auth: Arc<Auth>) -> ApiResult<Self> {
        Ok(Self { api, auth, passwords: Passwords::new()?, attempts: Attempts::default() })
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl IdentityService for IdentityApi {
    async fn login(&self, request: Request<pb::LoginRequest>) -> Answer<pb::LoginResponse> {
        Ok(self.sign_in(request).await?)
    }

    async fn logout(&self, request: Request<pb::LogoutRequest>) -> Answer<()> {
        Ok(self.sign_out(request).await?)
    }

    async fn who_am_i(&self, request: Request<pb::WhoAmIRequest>) -> Answer<pb::WhoAmIResponse> {
        let caller = Caller::of(&request)?;
        let by_cookie = caller.sign_in().filter(|_| caller.by_cookie());
        let csrf_token = by_cookie.map(|sign_in| self.api.cookies.csrf_token(&sign_in.id));
        Ok(Response::new(pb::WhoAmIResponse {
            principal: caller.principal(),
            grants: grants_to_proto(caller.grants()),
            expire_time: caller.expires_at().map(time::instant_to_proto),
            display_name: caller.display_name().to_owned(),
            password_expired: caller.password_expired(),
            csrf_token: csrf_token.unwrap_or_default(),
        }))
    }

    async fn create_user(&self, request: Request<pb::CreateUserRequest>) -> Answer<pb::User> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.make_user(&caller, request.into_inner()).await?))
    }

    async fn get_user(&self, request: Request<pb::GetUserRequest>) -> Answer<pb::User> {
        Ok(Response::new(self.show_user(&request.into_inner()).await?))
    }

    async fn list_users(
        &self,
        request: Request<pb::ListUsersRequest>,
    ) -> Answer<pb::ListUsersResponse> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.page_of_users(&caller, request.into_inner()).await?))
    }

    async fn update_user(&self, request: Request<pb::UpdateUserRequest>) -> Answer<pb::User> {
        let caller = Caller::of(&request)?;
        let address = sign_in::address_of(&request);
        Ok(Response::new(self.change_user(&caller, address, request.into_inner()).await?))
    }

    async fn delete_user(&self, request: Request<pb::DeleteUserRequest>) -> Answer<()> {
        Ok(Response::new(self.remove_user(&request.into_inner()).await?))
    }

    async fn create_token(
        &self,
        request: Request<pb::CreateTokenRequest>,
    ) -> Answer<pb::CreateTokenResponse> {
        let (caller, note) = (Caller::of(&request)?, Note::of(&request));
        Ok(Response::new(self.make_token(&caller, &note, request.into_inner()).await?))
    }

    async fn list_tokens(
        &self,
        request: Request<pb::ListTokensRequest>,
    ) -> Answer<pb::ListTokensResponse> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.page_of_tokens(&caller, request.into_inner()).await?))
    }

    async fn revoke_token(&self, request: Request<pb::RevokeTokenRequest>) -> Answer<pb::Token> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.end_token(&caller, request.into_inner()).await?))
    }
}
