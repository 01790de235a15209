//! Passwords: what is asked of them, how they are kept, and how they are checked.

use std::sync::Arc;

use argon2::{
    Algorithm, Argon2, Params, PasswordHash, PasswordHasher as _, PasswordVerifier as _, Version,
    password_hash::{Output, SaltString},
};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use crate::api::status::{ApiError, ApiResult, Violations};

/// Characters of a password at least. Length is what counts; kinds of characters are not asked for.
pub const PASSWORD_CHARS_MIN: usize = 12;
/// Bytes of a password at most.
pub const PASSWORD_BYTES_MAX: usize = 256;
/// Hashes computed at once: each takes 19 MiB and a core.
pub const HASHES_MAX: usize = 2;
/// Computations that may wait for their turn; more are refused.
pub const HASHES_WAITING_MAX: usize = 64;

/// Costs of Argon2id: 19 MiB, two passes, one lane; the first choice of OWASP's password storage
/// cheat sheet.
const COSTS: (u32, u32, u32) = (19 * 1024, 2, 1);
/// Bytes of a hash.
const HASH_BYTES: usize = 32;

/// Hashes and checks, off the threads that serve, and a few at a time.
pub struct Passwords {
    argon: Argon2<'static>,
    /// A hash that nothing fits: who gives an unknown name has to wait just as long.
    decoy: Arc<str>,
    turns: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

impl Passwords {
    /// With costs that fit this day.
    ///
    /// # Errors
    /// INTERNAL for costs that the library does not take: a fault of the build.
    pub fn new() -> ApiResult<Self> {
        let (memory, passes, lanes) = COSTS;
        let params = Params::new(memory, passes, lanes, Some(HASH_BYTES)).map_err(internal)?;
        let salt = SaltString::encode_b64(&rand::random::<[u8; 16]>()).map_err(internal)?;
        let decoy = PasswordHash {
            algorithm: Algorithm::Argon2id.ident(),
            version: Some(Version::V0x13.into()),
            params: (&params).try_into().map_err(internal)?,
            salt: Some(salt.as_salt()),
            hash: Some(Output::new(&rand::random::<[u8; HASH_BYTES]>()).map_err(internal)?),
        };
        let decoy = decoy.to_string().into();
        Ok(Self {
            argon: Argon2::new(Algorithm::Argon2id, Version::V0x13, params),
            decoy,
            turns: Arc::new(Semaphore::new(HASHES_MAX)),
            places: Arc::new(Semaphore::new(HASHES_MAX + HASHES_WAITING_MAX)),
        })
    }

    /// What is kept of a password.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when too many wait.
    pub async fn hash(&self, password: &str) -> ApiResult<String> {
        self.salted(password, &rand::random::<[u8; 16]>()).await
    }

    /// As slow to guess from, and the same for the same password of the same request.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when too many wait.
    pub async fn mark(&self, password: &str, request: &str) -> ApiResult<String> {
        self.salted(password, &Sha256::digest(request)).await
    }

    async fn salted(&self, password: &str, salt: &[u8]) -> ApiResult<String> {
        let salt = SaltString::encode_b64(salt).map_err(internal)?;
        let (argon, password) = (self.argon.clone(), password.to_owned());
        let hash = move || {
            let hash = argon.hash_password(password.as_bytes(), &salt).map_err(internal)?;
            Ok(hash.to_string())
        };
        self.in_turn(hash).await
    }

    /// Whether the password is the one that was kept. Without one it is not, after the same work.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when too many wait.
    pub async fn fits(&self, kept: Option<&str>, password: &str) -> ApiResult<bool> {
        // One that is too long is nobody's, and is not read to its end.
        let known = kept.is_some() && password.len() <= PASSWORD_BYTES_MAX;
        let password = &password.as_bytes()[..password.len().min(PASSWORD_BYTES_MAX)];
        let (argon, password) = (self.argon.clone(), password.to_owned());
        let kept: Arc<str> = kept.map_or_else(|| self.decoy.clone(), Arc::from);
        let check = move || {
            let kept = PasswordHash::new(&kept).map_err(internal)?;
            Ok(argon.verify_password(&password, &kept).is_ok())
        };
        Ok(self.in_turn(check).await? && known)
    }

    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> ApiResult<T> + Send + 'static,
    ) -> ApiResult<T> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| busy())?;
        let turn = self.turns.clone().acquire_owned().await.map_err(internal)?;
        let done = tokio::task::spawn_blocking(move || {
            // Held by the work itself: a caller that goes away leaves it running.
            let _held = (place, turn);
            work()
        });
        done.await.map_err(internal)?
    }
}

fn internal(cause: impl std::fmt::Display) -> ApiError {
    ApiError::internal(format!("password: {cause}"))
}

fn busy() -> ApiError {
    let text = "too many are signing in just now; try again";
    ApiError::exhausted("SIGN_IN_RATE", "sign-ins", text, std::time::Duration::from_secs(2))
}

/// Checks a password that is to be set for the user of that id. It is never quoted.
pub fn check_new(field: &str, password: &str, user: &str, bad: &mut Violations) {
    let chars = password.chars().count();
    if chars < PASSWORD_CHARS_MIN || password.len() > PASSWORD_BYTES_MAX {
        let text = format!(
            "must have at least {PASSWORD_CHARS_MIN} characters and at most {PASSWORD_BYTES_MAX} \
             bytes; a few words are good"
        );
        bad.invalid(field, text);
        return;
    }
    let mut distinct: Vec<char> = password.chars().collect();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() < PASSWORD_CHARS_MIN / 3 {
        bad.invalid(field, "repeats a few characters; use more of them");
    }
    if user.len() > 2 && password.to_lowercase().contains(&user.to_lowercase()) {
        bad.invalid(field, "must not contain the user's id");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_fits_its_own_hash_alone_and_two_hashes_differ() {
        let passwords = Passwords::new().expect("costs");
        let kept = passwords.hash("correct horse battery").await.expect("hashed");
        let again = passwords.hash("correct horse battery").await.expect("hashed");
        assert_ne!(kept, again);
        assert!(kept.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{kept}");
        assert!(passwords.fits(Some(&kept), "correct horse battery").await.expect("checked"));
        assert!(!passwords.fits(Some(&kept), "correct horse batterY").await.expect("checked"));
        assert!(!passwords.fits(None, "correct horse battery").await.expect("checked"));
    }

    #[tokio::test]
    async fn an_unknown_user_costs_what_a_known_one_does() {
        let passwords = Passwords::new().expect("costs");
        let kept = passwords.hash("correct horse battery").await.expect("hashed");
        let costs = |text: &str| {
            let hash = PasswordHash::new(text).expect("PHC");
            let len = hash.hash.expect("a hash").len();
            (hash.algorithm.to_string(), hash.version, hash.params.to_string(), len)
        };
        assert_eq!(costs(&passwords.decoy), costs(&kept));
    }

    #[tokio::test]
    async fn more_than_may_wait_are_refused() {
        let passwords = Passwords::new().expect("costs");
        let all = u32::try_from(HASHES_MAX + HASHES_WAITING_MAX).expect("small");
        let held = passwords.places.clone().acquire_many_owned(all).await.expect("places");
        let refused = passwords.fits(None, "x").await.expect_err("no place");
        assert_eq!(refused.reason(), "SIGN_IN_RATE");
        drop(held);
        assert!(!passwords.fits(None, "x").await.expect("a place"));
    }

    #[test]
    fn passwords_are_asked_to_be_long_and_not_quoted() {
        for weak in ["short", "aaaaaaaaaaaaaaaa", "my-name-is-annika", &"x".repeat(300)] {
            let mut bad = Violations::new();
            check_new("password", weak, "annika", &mut bad);
            let error = bad.finish().expect_err("weak");
            assert!(!error.message().contains(weak), "{}", error.message());
        }
        let mut bad = Violations::new();
        check_new("password", "vier alte Esel", "annika", &mut bad);
        assert!(bad.is_empty());
    }
}
