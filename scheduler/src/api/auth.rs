//! Bearer tokens: how they look, how they are checked, and the first one.
//!
//! A token reads `clawjob_<id>_<secret>`. The secret is 256 random bits, of which the store keeps
//! the SHA-256; so a slow hash would add nothing, and a stolen database opens nothing.

use std::{
    collections::{HashMap, HashSet},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
use http::{HeaderMap, header::AUTHORIZATION};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::{
    caller::{Caller, EVERY_APP},
    status::{ApiError, ApiResult},
};
use crate::{
    clock::Clock,
    model::principal::{Grant, Role, Token},
    store::{SharedStore, StoreError, Topic, ops::RequestKey},
};

/// How long a checked token is believed without asking the store again.
pub const TOKEN_CACHE_AGE_MAX: Duration = Duration::from_secs(30);
/// Tokens remembered at once; beyond it all are asked for again.
pub const TOKEN_CACHE_MAX: usize = 10_000;
/// How often the use of tokens is written down.
pub const TOKEN_TOUCH_INTERVAL: Duration = Duration::from_secs(60);
/// Longest credential that is looked at, bytes.
pub const BEARER_BYTES_MAX: usize = 512;
/// File in the data directory that holds the first admin token.
pub const ADMIN_TOKEN_FILE: &str = "admin.token";

const PREFIX: &str = "clawjob";
/// Tokens read in one step when the first start looks for an admin.
const TOKEN_PAGE: u32 = 500;

/// A secret that was just made, with what the store keeps of it.
#[derive(Clone)]
pub struct FreshSecret {
    /// The token's public id.
    pub id: String,
    /// What its bearer sends; shown once.
    pub text: String,
    /// SHA-256 of the secret part.
    pub hash: Vec<u8>,
}

impl FreshSecret {
    /// 256 random bits. The id is a ULID, so tokens sort by the time they were made.
    pub fn new(now: DateTime<Utc>) -> Self {
        let ms = u64::try_from(now.timestamp_millis()).unwrap_or(0);
        let id = ulid::Ulid::from_parts(ms, rand::random()).to_string().to_lowercase();
        let secret = hex::encode(rand::random::<[u8; 32]>());
        let text = format!("{}_{secret}", token_prefix(&id));
        Self { id, text, hash: hash(&secret) }
    }
}

/// The first characters of a token, by which its bearer recognises it.
pub fn token_prefix(id: &str) -> String {
    format!("{PREFIX}_{id}")
}

fn hash(secret: &str) -> Vec<u8> {
    Sha256::digest(secret.as_bytes()).to_vec()
}

/// Splits `clawjob_<id>_<secret>`.
fn parse(bearer: &str) -> Option<(&str, &str)> {
    let rest = bearer.strip_prefix(PREFIX)?.strip_prefix('_')?;
    let (id, secret) = rest.split_once('_')?;
    (!id.is_empty() && !secret.is_empty()).then_some((id, secret))
}

/// Checks credentials. One per process.
pub struct Auth {
    store: SharedStore,
    clock: Arc<dyn Clock>,
    /// By id, with the monotonic time of the look-up.
    cache: Mutex<HashMap<String, (Arc<Token>, Duration)>>,
    used: Mutex<HashSet<String>>,
}

impl Auth {
    /// Nothing remembered yet.
    pub fn new(store: SharedStore, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { store, clock, cache: Mutex::default(), used: Mutex::default() })
    }

    /// The caller by `authorization: Bearer …`.
    ///
    /// # Errors
    /// UNAUTHENTICATED with the reason TOKEN_INVALID, TOKEN_EXPIRED or TOKEN_REVOKED; UNAVAILABLE
    /// when the store can't be asked.
    pub async fn authenticate(&self, headers: &HeaderMap) -> ApiResult<Caller> {
        let value = headers.get(AUTHORIZATION).ok_or_else(|| {
            invalid("no credential: send the header `authorization: Bearer <token>`")
        })?;
        let text = value.to_str().map_err(|_| invalid("the authorization header is no text"))?;
        let (scheme, bearer) = text.split_once(' ').unwrap_or((text, ""));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(invalid("the authorization header must read `Bearer <token>`"));
        }
        self.verify(bearer.trim()).await
    }

    /// The caller by a token's text.
    ///
    /// # Errors
    /// As [`Auth::authenticate`].
    pub async fn verify(&self, bearer: &str) -> ApiResult<Caller> {
        if bearer.len() > BEARER_BYTES_MAX {
            return Err(invalid("the token is too long to be one"));
        }
        let (id, secret) = parse(bearer)
            .ok_or_else(|| invalid("the token is none: it must read clawjob_<id>_<secret>"))?;
        let token = self.token(id).await?;
        // Its state is told to those alone who know the secret.
        if !bool::from(hash(secret).ct_eq(&token.secret_hash)) {
            return Err(invalid("the token is unknown; make another one with CreateToken"));
        }
        self.holds(&token)?;
        let mut used = self.used.lock();
        if used.len() < TOKEN_CACHE_MAX {
            used.insert(token.id.clone());
        }
        drop(used);
        Ok(Caller::new(token))
    }

    /// Whether what the caller may do has ended since it began: its token was revoked or has
    /// expired. A store that is out of reach ends nobody.
    ///
    /// # Errors
    /// UNAUTHENTICATED, as [`Auth::authenticate`].
    pub async fn still_holds(&self, caller: &Caller) -> ApiResult<()> {
        match self.token(&caller.token().id).await {
            Ok(token) => self.holds(&token),
            Err(error) if error.code() == tonic::Code::Unauthenticated => Err(error),
            Err(_) => Ok(()),
        }
    }

    /// Forgets a token at once, since it was changed here.
    pub fn forget(&self, id: &str) {
        self.cache.lock().remove(id);
    }

    fn holds(&self, token: &Token) -> ApiResult<()> {
        if token.revoked_at.is_some() {
            return Err(ApiError::unauthenticated("TOKEN_REVOKED", "the token was revoked"));
        }
        if token.expires_at.is_some_and(|end| end <= self.clock.now()) {
            return Err(ApiError::unauthenticated("TOKEN_EXPIRED", "the token has expired"));
        }
        Ok(())
    }

    async fn token(&self, id: &str) -> ApiResult<Arc<Token>> {
        let asked_at = self.clock.elapsed();
        if let Some((token, at)) = self.cache.lock().get(id)
            && asked_at.saturating_sub(*at) < TOKEN_CACHE_AGE_MAX
        {
            return Ok(token.clone());
        }
        let token = match self.store.find_token(id).await {
            Ok(token) => Arc::new(token),
            Err(StoreError::NotFound(_)) => {
                return Err(invalid("the token is unknown; make another one with CreateToken"));
            }
            Err(error) => return Err(error.into()),
        };
        let mut cache = self.cache.lock();
        if cache.len() >= TOKEN_CACHE_MAX {
            cache.clear();
        }
        cache.insert(id.to_owned(), (token.clone(), asked_at));
        Ok(token)
    }

    /// Drops what is remembered when tokens change, and writes down which were used; runs until
    /// `stop`.
    pub async fn upkeep(&self, stop: CancellationToken) {
        let mut hints = self.store.hints();
        let mut open = true;
        let mut touch = Box::pin(self.clock.wait(TOKEN_TOUCH_INTERVAL));
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                hint = hints.recv(), if open => match hint {
                    Ok(Topic::Tokens) | Err(RecvError::Lagged(_)) => self.cache.lock().clear(),
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

    /// Writes down the tokens used since the last time. What can't be written now is told next
    /// time they are used.
    pub async fn write_used(&self) {
        let used: Vec<String> = self.used.lock().drain().collect();
        if used.is_empty() {
            return;
        }
        if let Err(error) = self.store.touch_tokens(&used, self.clock.now()).await {
            tracing::debug!(%error, tokens = used.len(), "the use of tokens was not written down");
        }
    }
}

fn invalid(message: &str) -> ApiError {
    ApiError::unauthenticated("TOKEN_INVALID", message)
}

/// Why the first admin token could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file could not be written.
    #[error("can't write {path}: {source}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// Makes the first admin token unless one that holds exists: stores its hash, writes it to
/// `dir/admin.token`, readable by the owner alone, and returns it to be printed once.
///
/// The file is there before the store knows the token: a crash in between leaves a file that the
/// next start replaces, never a cluster that nobody can administer.
///
/// # Errors
/// The store's, or the file's.
pub async fn bootstrap_admin_token(
    store: &SharedStore,
    dir: &Path,
    now: DateTime<Utc>,
) -> Result<Option<String>, BootstrapError> {
    let mut last = String::new();
    loop {
        let page = store.list_tokens(&last, TOKEN_PAGE).await?;
        if page.iter().any(|token| administers(token, now)) {
            return Ok(None);
        }
        match page.last() {
            Some(token) => last.clone_from(&token.id),
            None => break,
        }
    }
    let secret = FreshSecret::new(now);
    let path = dir.join(ADMIN_TOKEN_FILE);
    write_secret(dir, &path, &secret)
        .map_err(|source| BootstrapError::File { path: path.display().to_string(), source })?;
    let token = Token {
        id: secret.id,
        secret_hash: secret.hash,
        display_name: "admin made at the first start".to_owned(),
        grants: vec![Grant { app: EVERY_APP.to_owned(), role: Role::Admin }],
        executor_id_patterns: Vec::new(),
        handler_patterns: Vec::new(),
        owner: "system".to_owned(),
        created_at: now,
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
    };
    // Nodes that start at once see the same last token: one of them makes the admin.
    let request = RequestKey { key: format!("system/bootstrap/{last}"), body_hash: Vec::new() };
    match store.create_token(&token, Some(&request)).await {
        Ok(()) => Ok(Some(secret.text)),
        Err(StoreError::Conflict(_)) => {
            // Ours holds nothing. If it can't be removed it still opens nothing.
            let _ = std::fs::remove_file(&path);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn administers(token: &Token, now: DateTime<Utc>) -> bool {
    let grants = &token.grants;
    token.revoked_at.is_none()
        && token.expires_at.is_none_or(|end| end > now)
        && grants.iter().any(|g| g.app == EVERY_APP && g.role == Role::Admin)
}

/// Writes beside the file and renames, so that it is never half there, and never readable.
fn write_secret(dir: &Path, path: &Path, secret: &FreshSecret) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let fresh = dir.join(format!("{ADMIN_TOKEN_FILE}.{}", secret.id));
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    let written = writeln!(file, "{}", secret.text).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| std::fs::rename(&fresh, path));
    if placed.is_err() {
        // The error that counts is the one above.
        let _ = std::fs::remove_file(&fresh);
    }
    placed?;
    std::fs::File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_into_id_and_secret() {
        let fresh = FreshSecret::new(DateTime::UNIX_EPOCH);
        let (id, secret) = parse(&fresh.text).expect("parses");
        assert_eq!(id, fresh.id);
        assert_eq!(hash(secret), fresh.hash);
        assert_eq!(secret.len(), 64);
        assert!(fresh.text.starts_with(&token_prefix(id)));
    }

    #[test]
    fn what_is_no_token_is_told_from_one() {
        for text in ["", "clawjob", "clawjob_", "clawjob_x", "clawjob__s", "clawjob_x_", "x_y_z"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
