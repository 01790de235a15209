//! The first admin token.

use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path};

use chrono::{DateTime, Utc};

use super::secret::FreshSecret;
use crate::{
    api::caller::EVERY_APP,
    model::principal::{Grant, Role, Token},
    store::{SharedStore, StoreError, ops::RequestKey},
};

/// File in the data directory that holds the first admin token.
pub const ADMIN_TOKEN_FILE: &str = "admin.token";
/// Tokens read in one step when the first start looks for an admin.
const TOKEN_PAGE: u32 = 500;

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
