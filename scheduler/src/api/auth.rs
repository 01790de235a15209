//! Credentials: tokens of their own and sign-ins, how they are checked and remembered.

mod first;
mod secret;

use std::{collections::HashMap, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::{
    caller::Caller,
    status::{ApiError, ApiResult},
};
use crate::{
    clock::Clock,
    model::principal::{Holder, Token},
    store::{SharedStore, StoreError, Topic},
};
pub use first::{ADMIN_TOKEN_FILE, BootstrapError, bootstrap_admin_token};
pub use secret::{FreshSecret, token_prefix};
use secret::{hash, is_sign_in, parse};

/// How long a checked credential is believed without asking the store again.
pub const TOKEN_CACHE_AGE_MAX: Duration = Duration::from_secs(30);
/// Credentials remembered at once; beyond it all are asked for again.
pub const TOKEN_CACHE_MAX: usize = 10_000;
/// How often the use of credentials is written down.
pub const TOKEN_TOUCH_INTERVAL: Duration = Duration::from_secs(60);
/// Longest credential that is looked at, bytes.
pub const BEARER_BYTES_MAX: usize = 512;

/// Where most calls have their credential, as errors name it.
const HEADER: &str = "authorization header";
/// How a token reads.
const TOKEN_FORM: &str = "clawjob_<id>_<secret>";

/// How long a sign-in lasts.
#[derive(Clone, Copy, Debug)]
pub struct SignInTimes {
    /// Without a call it ends after this time, to the minute.
    pub idle_end: Duration,
    /// It ends after this time, used or not.
    pub absolute_end: Duration,
}

impl Default for SignInTimes {
    fn default() -> Self {
        let hour = Duration::from_secs(3600);
        Self { idle_end: hour, absolute_end: 12 * hour }
    }
}

/// A credential as the store had it.
struct Known {
    caller: Caller,
    /// Monotonic time of the look-up.
    asked_at: Duration,
    /// When it was last used, as far as this node knows; of sign-ins.
    used_at: Option<DateTime<Utc>>,
}

/// Checks credentials. One per process.
pub struct Auth {
    store: SharedStore,
    clock: Arc<dyn Clock>,
    times: SignInTimes,
    cache: Mutex<HashMap<String, Known>>,
    /// Uses to be written down, by id.
    used: Mutex<HashMap<String, DateTime<Utc>>>,
}

impl Auth {
    /// Nothing remembered yet.
    pub fn new(store: SharedStore, clock: Arc<dyn Clock>, times: SignInTimes) -> Arc<Self> {
        let (cache, used) = (Mutex::default(), Mutex::default());
        Arc::new(Self { store, clock, times, cache, used })
    }

    /// How long sign-ins last.
    pub fn times(&self) -> SignInTimes {
        self.times
    }

    /// The caller by `authorization: Bearer …`.
    ///
    /// # Errors
    /// UNAUTHENTICATED with the reason TOKEN_INVALID, TOKEN_EXPIRED, TOKEN_REVOKED or
    /// SIGN_IN_ENDED; UNAVAILABLE when the store can't be asked.
    pub async fn authenticate(&self, headers: &HeaderMap) -> ApiResult<Caller> {
        self.verify(HEADER, bearer(headers)?).await
    }

    /// The caller by a credential's text; `place` is where that stood, for who looks into a
    /// refusal.
    ///
    /// # Errors
    /// As [`Auth::authenticate`].
    pub async fn verify(&self, place: &str, bearer: &str) -> ApiResult<Caller> {
        if bearer.len() > BEARER_BYTES_MAX {
            let fault = format!("longer than any token ({BEARER_BYTES_MAX} bytes)");
            return Err(malformed(place, &fault));
        }
        let Some((id, secret)) = parse(bearer) else {
            return Err(malformed(place, "not of the form of a token"));
        };
        let (caller, used_at) = self.known(id).await?;
        // Its state is told to those alone who know the secret.
        if !bool::from(hash(secret).ct_eq(caller.secret_hash())) {
            return Err(unknown(id));
        }
        self.holds(&caller, used_at)?;
        self.note_use(id);
        Ok(caller)
    }

    /// Whether what the caller may do has ended since it began: its token was revoked or has
    /// expired, or its sign-in has ended. A store that is out of reach ends nobody.
    ///
    /// # Errors
    /// UNAUTHENTICATED, as [`Auth::authenticate`].
    pub async fn still_holds(&self, caller: &Caller) -> ApiResult<()> {
        match self.known(caller.credential()).await {
            Ok((caller, used_at)) => self.holds(&caller, used_at),
            Err(error) if error.code() == tonic::Code::Unauthenticated => Err(error),
            Err(_) => Ok(()),
        }
    }

    /// Forgets a credential at once, since it was changed here.
    pub fn forget(&self, id: &str) {
        self.cache.lock().remove(id);
    }

    /// Forgets all, since a user was changed here.
    pub fn forget_all(&self) {
        self.cache.lock().clear();
    }

    fn holds(&self, caller: &Caller, used_at: Option<DateTime<Utc>>) -> ApiResult<()> {
        let now = self.clock.now();
        if let Some(token) = caller.token() {
            token_holds(token, now)?;
        }
        if caller.as_user().is_some_and(|user| user.disabled) {
            return Err(ended("the user was disabled"));
        }
        let Some(sign_in) = caller.sign_in() else { return Ok(()) };
        let idle = (now - used_at.unwrap_or(sign_in.last_used_at)).to_std().unwrap_or_default();
        if sign_in.expires_at <= now || idle >= self.times.idle_end {
            return Err(ended("the sign-in has ended; sign in again"));
        }
        Ok(())
    }

    /// The credential of that id, with its last use if it is a sign-in.
    async fn known(&self, id: &str) -> ApiResult<(Caller, Option<DateTime<Utc>>)> {
        let asked_at = self.clock.elapsed();
        let mut before = None;
        if let Some(known) = self.cache.lock().get(id) {
            if asked_at.saturating_sub(known.asked_at) < TOKEN_CACHE_AGE_MAX {
                return Ok((known.caller.clone(), known.used_at));
            }
            before = known.used_at;
        }
        let caller = self.look_up(id).await.map_err(|error| match error {
            StoreError::NotFound(_) => unknown(id),
            error => error.into(),
        })?;
        let stored = caller.sign_in().map(|sign_in| sign_in.last_used_at);
        let used_at = stored.map(|at| {
            let waits = self.used.lock().get(id).copied();
            [before, waits].into_iter().flatten().fold(at, DateTime::max)
        });
        let mut cache = self.cache.lock();
        if cache.len() >= TOKEN_CACHE_MAX {
            cache.clear();
        }
        cache.insert(id.to_owned(), Known { caller: caller.clone(), asked_at, used_at });
        Ok((caller, used_at))
    }

    async fn look_up(&self, id: &str) -> Result<Caller, StoreError> {
        if !is_sign_in(id) {
            return Ok(Caller::new(Arc::new(self.store.find_token(id).await?)));
        }
        let sign_in = Arc::new(self.store.find_sign_in(id).await?);
        Ok(match &sign_in.holder {
            Holder::User(user) => {
                Caller::user(Arc::new(self.store.find_user(user).await?), sign_in)
            }
            Holder::Token(token) => {
                let token = self.store.find_token(token).await?;
                Caller::token_signed_in(Arc::new(token), sign_in)
            }
        })
    }

    fn note_use(&self, id: &str) {
        let now = self.clock.now();
        if let Some(known) = self.cache.lock().get_mut(id)
            && known.used_at.is_some()
        {
            known.used_at = Some(now);
        }
        let mut used = self.used.lock();
        if used.len() < TOKEN_CACHE_MAX {
            used.insert(id.to_owned(), now);
        }
    }

    /// Drops what is remembered when credentials change, and writes down which were used; runs
    /// until `stop`.
    pub async fn upkeep(&self, stop: CancellationToken) {
        let mut hints = self.store.hints();
        let mut open = true;
        let mut touch = Box::pin(self.clock.wait(TOKEN_TOUCH_INTERVAL));
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                hint = hints.recv(), if open => match hint {
                    Ok(Topic::Tokens) | Err(RecvError::Lagged(_)) => self.forget_all(),
                    Ok(_) => {}
                    Err(RecvError::Closed) => open = false,
                },
                () = &mut touch => {
                    self.write_used().await;
                    touch = Box::pin(self.clock.wait(TOKEN_TOUCH_INTERVAL));
                }
            }
        }
        self.write_used().await;
    }

    /// Writes down the credentials used since the last time. What can't be written now is told
    /// next time they are used.
    pub async fn write_used(&self) {
        let used: Vec<_> = self.used.lock().drain().collect();
        let (sign_ins, tokens): (Vec<_>, Vec<_>) =
            used.into_iter().partition(|(id, _)| is_sign_in(id));
        let tokens: Vec<String> = tokens.into_iter().map(|(id, _)| id).collect();
        let mut written = Ok(());
        if !tokens.is_empty() {
            written = self.store.touch_tokens(&tokens, self.clock.now()).await;
        }
        if !sign_ins.is_empty() {
            written = written.and(self.store.touch_sign_ins(&sign_ins).await);
        }
        if let Err(error) = written {
            tracing::debug!(%error, "the use of credentials was not written down");
        }
    }
}

/// Whether a token works.
///
/// # Errors
/// UNAUTHENTICATED, reason TOKEN_REVOKED or TOKEN_EXPIRED.
fn token_holds(token: &Token, now: DateTime<Utc>) -> ApiResult<()> {
    if token.revoked_at.is_some() {
        return Err(ApiError::unauthenticated("TOKEN_REVOKED", "the token was revoked"));
    }
    if token.expires_at.is_some_and(|end| end <= now) {
        return Err(ApiError::unauthenticated("TOKEN_EXPIRED", "the token has expired"));
    }
    Ok(())
}

/// The token in `authorization: Bearer …`. What stands there is not repeated: it may be a secret.
fn bearer(headers: &HeaderMap) -> ApiResult<&str> {
    let fault = match headers.get(AUTHORIZATION).map(HeaderValue::to_str) {
        None => "missing",
        Some(Err(_)) => "not plain text",
        Some(Ok(text)) => match text.trim().split_once(' ').unwrap_or((text.trim(), "")) {
            ("", _) => "empty",
            (scheme, _) if !scheme.eq_ignore_ascii_case("bearer") => "without the word Bearer",
            (_, token) if token.trim().is_empty() => "without a token behind Bearer",
            (_, token) => return Ok(token.trim()),
        },
    };
    Err(invalid(&format!("{HEADER}: {fault}; send `authorization: Bearer {TOKEN_FORM}`")))
}

fn malformed(place: &str, fault: &str) -> ApiError {
    invalid(&format!(
        "{place}: {fault}; it must read {TOKEN_FORM}, whole as it was shown when made"
    ))
}

fn unknown(id: &str) -> ApiError {
    if is_sign_in(id) {
        return ended("the sign-in is unknown or has ended; sign in again");
    }
    invalid("the token is unknown; make another one with CreateToken")
}

fn ended(message: &str) -> ApiError {
    ApiError::unauthenticated("SIGN_IN_ENDED", message)
}

fn invalid(message: &str) -> ApiError {
    ApiError::unauthenticated("TOKEN_INVALID", message)
}
