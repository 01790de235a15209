//! Secrets of credentials: how they look, and what is kept of them.
//!
//! A token reads `clawjob_<id>_<secret>`, and so does a sign-in, whose id begins with `s`. The
//! secret is 256 random bits, of which the store keeps the SHA-256; so a slow hash would add
//! nothing, and a stolen database opens nothing.

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "clawjob";
/// What the id of a sign-in begins with. Those of tokens are ULIDs, which begin with a digit.
const SIGN_IN_MARK: char = 's';

/// A secret that was just made, with what the store keeps of it.
#[derive(Clone)]
pub struct FreshSecret {
    /// The credential's public id.
    pub id: String,
    /// What its bearer sends; shown once.
    pub text: String,
    /// SHA-256 of the secret part.
    pub hash: Vec<u8>,
}

impl FreshSecret {
    /// 256 random bits. The id is a ULID, so tokens sort by the time they were made.
    pub fn new(now: DateTime<Utc>) -> Self {
        Self::with_id(fresh_id(now))
    }

    /// The same for a sign-in.
    pub fn sign_in(now: DateTime<Utc>) -> Self {
        Self::with_id(format!("{SIGN_IN_MARK}{}", fresh_id(now)))
    }

    fn with_id(id: String) -> Self {
        let secret = hex::encode(rand::random::<[u8; 32]>());
        let text = format!("{}_{secret}", token_prefix(&id));
        Self { id, text, hash: hash(&secret) }
    }
}

/// The first characters of a token, by which its bearer recognises it.
pub fn token_prefix(id: &str) -> String {
    format!("{PREFIX}_{id}")
}

pub(super) fn hash(secret: &str) -> Vec<u8> {
    Sha256::digest(secret.as_bytes()).to_vec()
}

/// Splits `clawjob_<id>_<secret>`.
pub(super) fn parse(bearer: &str) -> Option<(&str, &str)> {
    let rest = bearer.strip_prefix(PREFIX)?.strip_prefix('_')?;
    let (id, secret) = rest.split_once('_')?;
    (!id.is_empty() && !secret.is_empty()).then_some((id, secret))
}

/// Whether the id is a sign-in's.
pub(super) fn is_sign_in(id: &str) -> bool {
    id.starts_with(SIGN_IN_MARK)
}

fn fresh_id(now: DateTime<Utc>) -> String {
    let ms = u64::try_from(now.timestamp_millis()).unwrap_or(0);
    ulid::Ulid::from_parts(ms, rand::random()).to_string().to_lowercase()
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
        assert!(!is_sign_in(id));
        assert!(is_sign_in(&FreshSecret::sign_in(DateTime::UNIX_EPOCH).id));
    }

    #[test]
    fn what_is_no_token_is_told_from_one() {
        for text in ["", "clawjob", "clawjob_", "clawjob_x", "clawjob__s", "clawjob_x_", "x_y_z"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
