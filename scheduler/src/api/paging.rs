//! Pages: sizes and tokens.
//!
//! A token is the last key of the page before, the query it belongs to and when it was made, under
//! an HMAC with a key that all nodes share: it can't be forged, and it is refused for another query.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, TimeDelta, Utc};
use hmac::{Hmac, Mac};
use prost::Message;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use crate::api::{
    PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX,
    status::{ApiError, ApiResult, Violations},
};

/// How long a page token is good.
pub const PAGE_TOKEN_TTL: TimeDelta = TimeDelta::hours(24);
/// Bytes of a page's items as gRPC sends them; a page ends before an item that goes beyond, but not
/// before its first. With its token it stays below the 4 MiB that gRPC clients take by default.
pub const PAGE_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Longest page token, in bytes.
pub const PAGE_TOKEN_MAX: usize = 2048;

const REASON: &str = "PAGE_TOKEN_INVALID";

type HmacSha256 = Hmac<Sha256>;

#[derive(Serialize, Deserialize)]
struct Body<K> {
    /// Last key of the page before.
    k: K,
    /// Hash of the query.
    q: String,
    /// When it was made, seconds since 1970.
    t: i64,
}

/// What a page of a list belongs to: a token of one query is none of another.
pub struct Query {
    hash: String,
}

impl Query {
    /// Of everything that decides which rows come and in which order: method, parent, filter,
    /// order, and who asks.
    pub fn new(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        Self { hash: hex::encode(&hash.finalize()[..12]) }
    }

    /// The token of the page after `key`.
    ///
    /// # Errors
    /// INTERNAL for a key that is no JSON.
    pub fn token<K: Serialize>(
        &self,
        secret: &[u8],
        key: &K,
        now: DateTime<Utc>,
    ) -> ApiResult<String> {
        let body = Body { k: key, q: self.hash.clone(), t: now.timestamp() };
        let body = serde_json::to_vec(&body).map_err(|e| ApiError::internal(e.to_string()))?;
        let tag = mac(secret, &body)?.finalize().into_bytes();
        Ok(format!("{}.{}", URL_SAFE_NO_PAD.encode(&body), URL_SAFE_NO_PAD.encode(&tag[..16])))
    }

    /// Where the page begins; `None` for an empty token. A token that does not hold is added.
    pub fn key<K: DeserializeOwned>(
        &self,
        secret: &[u8],
        token: &str,
        now: DateTime<Utc>,
        bad: &mut Violations,
    ) -> Option<K> {
        self.key_in("page_token", secret, token, now, bad)
    }

    /// Like [`Self::key`], with a token in another field.
    pub fn key_in<K: DeserializeOwned>(
        &self,
        field: &str,
        secret: &[u8],
        token: &str,
        now: DateTime<Utc>,
        bad: &mut Violations,
    ) -> Option<K> {
        if token.is_empty() {
            return None;
        }
        match self.read::<K>(secret, token, now) {
            Ok(key) => Some(key),
            Err(why) => {
                bad.add(field, REASON, format!("{why}; leave it empty to begin again"));
                None
            }
        }
    }

    fn read<K: DeserializeOwned>(
        &self,
        secret: &[u8],
        token: &str,
        now: DateTime<Utc>,
    ) -> Result<K, &'static str> {
        const FORGED: &str = "was not made by this server";
        if token.len() > PAGE_TOKEN_MAX {
            return Err(FORGED);
        }
        let (body, tag) = token.split_once('.').ok_or(FORGED)?;
        let body = URL_SAFE_NO_PAD.decode(body).map_err(|_| FORGED)?;
        let tag = URL_SAFE_NO_PAD.decode(tag).map_err(|_| FORGED)?;
        if tag.len() != 16 {
            return Err(FORGED);
        }
        let mac = mac(secret, &body).map_err(|_| FORGED)?;
        mac.verify_truncated_left(&tag).map_err(|_| FORGED)?;
        let body: Body<K> = serde_json::from_slice(&body).map_err(|_| FORGED)?;
        if body.q != self.hash {
            return Err("is of a list with another parent, filter or order");
        }
        let age = now.timestamp().saturating_sub(body.t);
        if age > PAGE_TOKEN_TTL.num_seconds() {
            return Err("is older than 24 h");
        }
        Ok(body.k)
    }
}

fn mac(secret: &[u8], body: &[u8]) -> ApiResult<HmacSha256> {
    let mut mac =
        HmacSha256::new_from_slice(secret).map_err(|e| ApiError::internal(e.to_string()))?;
    mac.update(body);
    Ok(mac)
}

/// Entries of a page: 0 means [`PAGE_SIZE_DEFAULT`], more than [`PAGE_SIZE_MAX`] is cut.
pub fn size(page_size: i32, bad: &mut Violations) -> u32 {
    match u32::try_from(page_size) {
        Ok(0) => PAGE_SIZE_DEFAULT,
        Ok(size) => size.min(PAGE_SIZE_MAX),
        Err(_) => {
            bad.invalid("page_size", format!("is {page_size}; use 1 to {PAGE_SIZE_MAX}, or 0"));
            PAGE_SIZE_DEFAULT
        }
    }
}

/// A page that is being filled, up to its size and [`PAGE_BYTES_MAX`].
pub struct Page<M> {
    items: Vec<M>,
    left: u32,
    bytes_left: usize,
}

impl<M: Message> Page<M> {
    /// An empty one for so many items.
    pub fn new(size: u32) -> Self {
        Self { items: Vec::new(), left: size, bytes_left: PAGE_BYTES_MAX }
    }

    /// Takes the item; false, and without it, when it belongs to the next page.
    pub fn push(&mut self, item: M) -> bool {
        let bytes = item.encoded_len();
        let fits = self.left > 0 && (self.items.is_empty() || bytes <= self.bytes_left);
        if fits {
            self.left -= 1;
            self.bytes_left = self.bytes_left.saturating_sub(bytes);
            self.items.push(item);
        }
        fits
    }

    /// How many more items it takes at most.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// What is on it.
    pub fn into_items(self) -> Vec<M> {
        self.items
    }
}

/// The page that the rows begin with, and its last row if some of them are left over. Who reads one
/// row more than the page's size learns so whether there is a next page.
pub fn cut<R, M: Message>(rows: &[R], size: u32, show: impl Fn(&R) -> M) -> (Vec<M>, Option<&R>) {
    let mut page = Page::new(size);
    let mut last = None;
    for row in rows {
        if !page.push(show(row)) {
            return (page.into_items(), last);
        }
        last = Some(row);
    }
    (page.into_items(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"a key of the cluster";

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000, 0).expect("in range")
    }

    fn read(query: &Query, secret: &[u8], token: &str, at: DateTime<Utc>) -> Result<u64, String> {
        let mut bad = Violations::new();
        let key = query.key::<u64>(secret, token, at, &mut bad);
        match bad.finish() {
            Ok(()) => Ok(key.expect("a key")),
            Err(error) => {
                assert_eq!(error.reason(), REASON);
                Err(error.message().to_owned())
            }
        }
    }

    #[test]
    fn a_token_brings_its_key_back_to_the_same_query_for_a_day() {
        let query = Query::new(&["ListRuns", "apps/a", ""]);
        let token = query.token(SECRET, &77_u64, now()).expect("makes");
        assert_eq!(read(&query, SECRET, &token, now() + PAGE_TOKEN_TTL), Ok(77));
        let late = now() + PAGE_TOKEN_TTL + TimeDelta::seconds(1);
        assert!(read(&query, SECRET, &token, late).expect_err("old").contains("24 h"));
        for other in [
            Query::new(&["ListRuns", "apps/b", ""]),
            Query::new(&["ListRuns", "apps/a", "state=RUNNING"]),
            Query::new(&["ListRuns", "apps/", "a"]),
        ] {
            assert!(read(&other, SECRET, &token, now()).is_err());
        }
    }

    #[test]
    fn a_forged_or_damaged_token_is_refused() {
        let query = Query::new(&["ListJobs"]);
        let token = query.token(SECRET, &77_u64, now()).expect("makes");
        assert!(read(&query, b"another key", &token, now()).is_err());
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let damaged = String::from_utf8(bytes).expect("ASCII");
            if damaged != token {
                assert!(read(&query, SECRET, &damaged, now()).is_err(), "{damaged}");
            }
        }
        for junk in [".", "a.b", "💥.💥", &"x".repeat(5000)] {
            assert!(read(&query, SECRET, junk, now()).is_err());
        }
    }

    #[test]
    fn a_page_ends_at_its_size_or_its_bytes_but_has_one_item() {
        let text = |bytes: &usize| "x".repeat(*bytes);
        let page = |rows: &[usize], size| {
            let (items, last) = cut(rows, size, text);
            (items.len(), last.copied())
        };
        assert_eq!(page(&[], 2), (0, None));
        assert_eq!(page(&[1, 2], 2), (2, None));
        assert_eq!(page(&[1, 2, 3], 2), (2, Some(2)));
        let third = PAGE_BYTES_MAX / 3;
        assert_eq!(page(&[third; 9], 50), (2, Some(third)), "each has a few bytes around it");
        assert_eq!(page(&[2 * PAGE_BYTES_MAX, 7], 50), (1, Some(2 * PAGE_BYTES_MAX)));
        assert_eq!(page(&[7, 2 * PAGE_BYTES_MAX], 50), (1, Some(7)));
    }

    #[test]
    fn sizes_are_defaulted_cut_and_refused() {
        let mut bad = Violations::new();
        let sizes = [0, 1, 1000, 1001, i32::MAX].map(|given| size(given, &mut bad));
        assert_eq!(sizes, [50, 1, 1000, 1000, 1000]);
        assert!(bad.is_empty());
        size(-1, &mut bad);
        assert!(!bad.is_empty());
    }
}
