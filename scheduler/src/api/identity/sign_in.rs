//! Login and Logout.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use chrono::{DateTime, Utc};
use clawjob_proto::v1 as pb;
use http::header::{HeaderValue, SET_COOKIE};
use tonic::{Request, Response};

use super::{IdentityApi, attempts::Origin};
use crate::{
    api::{
        audit::Note,
        auth::FreshSecret,
        caller::{Caller, ClientAddress, Peer},
        convert::{names, time},
        status::{ApiError, ApiResult, FIELD_INVALID},
    },
    model::principal::{Holder, SignIn},
    store::StoreError,
};

/// Stands for all names that no user has, in counts and in the audit log: what was typed there may
/// be a password.
const NO_USER: &str = "users/-";
/// The same for tokens.
const NO_TOKEN: &str = "tokens/-";

/// Who has shown who they are.
struct Known {
    holder: Holder,
    /// When the token behind it ends.
    token_ends_at: Option<DateTime<Utc>>,
    password_expired: bool,
}

/// Where a request came from; nowhere, for a call within the process.
pub(super) fn address_of<T>(request: &Request<T>) -> IpAddr {
    let found = request.extensions().get::<ClientAddress>();
    found.map_or(Ipv4Addr::UNSPECIFIED.into(), |address| address.0)
}

impl IdentityApi {
    pub(super) async fn sign_in(
        &self,
        request: Request<pb::LoginRequest>,
    ) -> ApiResult<Response<pb::LoginResponse>> {
        let (note, origin) = (Note::of(&request), Origin::of(address_of(&request)));
        let peer = request.extensions().get::<Peer>().cloned();
        let message = request.get_ref();
        let known = match (&*message.user_id, &*message.password, &*message.api_token) {
            (user, password, "") if !user.is_empty() && !password.is_empty() => {
                self.by_password(user, password, origin, &note).await?
            }
            ("", "", token) if !token.is_empty() => self.by_token(token, origin, &note).await?,
            _ => {
                let text = "give user_id and password, or api_token alone";
                return Err(ApiError::invalid("", FIELD_INVALID, text));
            }
        };
        let now = self.api.clock.now();
        let secret = FreshSecret::sign_in(now);
        let end = now + self.auth.times().absolute_end;
        let sign_in = SignIn {
            id: secret.id.clone(),
            secret_hash: secret.hash.clone(),
            holder: known.holder,
            created_at: now,
            last_used_at: now,
            expires_at: known.token_ends_at.map_or(end, |own| own.min(end)),
        };
        let replaced = self.earlier(request.metadata().as_ref()).await;
        match self.api.store.create_sign_in(&sign_in, replaced.as_deref()).await {
            Ok(()) => {}
            // Deleted at this moment.
            Err(StoreError::NotFound(_)) => return Err(failed()),
            Err(error) => return Err(error.into()),
        }
        if let Some(replaced) = replaced {
            self.auth.forget(&replaced);
        }
        let cookie = message.cookie;
        let mut answer = Response::new(pb::LoginResponse {
            token: if cookie { String::new() } else { secret.text.clone() },
            expire_time: Some(time::instant_to_proto(sign_in.expires_at)),
            password_expired: known.password_expired,
            csrf_token: match cookie {
                true => self.api.cookies.csrf_token(&sign_in.id),
                false => String::new(),
            },
        });
        if cookie {
            add_cookie(&mut answer, self.api.cookies.set(&secret.text, peer.as_ref()));
        }
        Ok(answer)
    }

    /// The user whose password it is, and whether it must be changed.
    async fn by_password(
        &self,
        user: &str,
        password: &str,
        origin: Origin,
        note: &Note,
    ) -> ApiResult<Known> {
        let now = self.api.clock.elapsed();
        self.attempts.begin(user, origin, now).map_err(too_many)?;
        let undo = |error| {
            self.attempts.undo(user, origin);
            error
        };
        let found = match names::is_id(user) {
            false => None,
            true => match self.api.store.find_user(user).await {
                Ok(found) => Some(found),
                Err(StoreError::NotFound(_)) => None,
                Err(error) => return Err(undo(error.into())),
            },
        };
        let principal = found.as_ref().map(|user| format!("users/{}", user.id));
        let principal = principal.unwrap_or_else(|| NO_USER.to_owned());
        let kept = found.as_ref().map(|user| user.password_hash.as_str());
        let fits = self.passwords.fits(kept, password).await.map_err(undo)?;
        note.principal(&principal);
        match found {
            Some(user) if fits && !user.disabled => {
                self.attempts.succeeded(&user.id, origin, now);
                Ok(Known {
                    holder: Holder::User(user.id),
                    token_ends_at: None,
                    password_expired: user.password_expired,
                })
            }
            _ => {
                if self.attempts.locked(user, origin) {
                    tracing::warn!(principal, ?origin, "sign-ins fail again and again");
                }
                Err(failed())
            }
        }
    }

    /// The token that it is.
    async fn by_token(&self, token: &str, origin: Origin, note: &Note) -> ApiResult<Known> {
        let now = self.api.clock.elapsed();
        self.attempts.begin(NO_TOKEN, origin, now).map_err(too_many)?;
        match self.auth.verify("api_token", token).await {
            Ok(caller) => {
                self.attempts.succeeded(NO_TOKEN, origin, now);
                note.principal(&caller.principal());
                match (caller.token(), caller.sign_in()) {
                    (Some(token), None) => Ok(Known {
                        holder: Holder::Token(token.id.clone()),
                        token_ends_at: token.expires_at,
                        password_expired: false,
                    }),
                    _ => Err(failed()),
                }
            }
            Err(error) if error.code() == tonic::Code::Unauthenticated => {
                note.principal(NO_TOKEN);
                Err(error)
            }
            Err(error) => {
                self.attempts.undo(NO_TOKEN, origin);
                Err(error)
            }
        }
    }

    /// The sign-in that the browser had before, by its cookie: the fresh one takes its place.
    async fn earlier(&self, headers: &http::HeaderMap) -> Option<String> {
        let caller = self.auth.verify("cookie", self.api.cookies.read(headers)?).await.ok()?;
        caller.sign_in().map(|sign_in| sign_in.id.clone())
    }

    pub(super) async fn sign_out(
        &self,
        request: Request<pb::LogoutRequest>,
    ) -> ApiResult<Response<()>> {
        let caller = Caller::of(&request)?;
        let peer = request.extensions().get::<Peer>().cloned();
        if request.get_ref().everywhere {
            let holder = match (caller.as_user(), caller.token()) {
                (Some(user), _) => Holder::User(user.id.clone()),
                (None, Some(token)) => Holder::Token(token.id.clone()),
                (None, None) => return Err(ApiError::internal("a caller is nobody")),
            };
            self.api.store.end_sign_ins(&holder).await?;
            self.auth.forget_all();
        } else if let Some(sign_in) = caller.sign_in() {
            self.api.store.end_sign_in(&sign_in.id).await?;
            self.auth.forget(&sign_in.id);
        }
        let mut answer = Response::new(());
        if caller.by_cookie() {
            add_cookie(&mut answer, self.api.cookies.clear(peer.as_ref()));
        }
        Ok(answer)
    }
}

/// One answer for all that can be wrong.
fn failed() -> ApiError {
    ApiError::unauthenticated("SIGN_IN_FAILED", "user or password is wrong")
}

pub(super) fn too_many(wait: Duration) -> ApiError {
    let text = format!("too many tries; wait {} s", wait.as_secs() + 1);
    ApiError::exhausted("SIGN_IN_RATE", "sign-ins", text, wait)
}

fn add_cookie<T>(answer: &mut Response<T>, cookie: Option<HeaderValue>) {
    let value = cookie.and_then(|cookie| cookie.to_str().ok()?.parse().ok());
    if let Some(value) = value {
        answer.metadata_mut().insert(SET_COOKIE.as_str(), value);
    }
}
