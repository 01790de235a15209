//! The cookie of a sign-in, and the token that a change by cookie must carry besides.
//!
//! A browser adds a cookie to whatever is sent to this server, also when another site makes it
//! send. So the cookie is SameSite=Strict, is looked at for JSON calls alone (which other sites
//! can't send without being asked for leave first), and a change needs a header with a token that
//! only a page of this server can know.

use hmac::{Hmac, Mac};
use http::{
    HeaderMap,
    header::{COOKIE, HeaderValue},
};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use super::{ApiSettings, caller::Peer};

/// Header with the token of a change by cookie.
pub const CSRF_HEADER: &str = "x-clawjob-csrf";

/// Makes and reads the cookie of one cluster.
pub struct Cookies {
    key: Vec<u8>,
    name: String,
    path: String,
    behind_proxy: bool,
}

impl Cookies {
    /// `key` is the cluster's: all nodes read each other's cookies. Cookies know no ports, so
    /// clusters on one host need names of their own, or each would end the other's sign-ins.
    pub fn new(key: &[u8], settings: &ApiSettings) -> Self {
        let path = match settings.context_path.trim_end_matches('/') {
            "" => "/".to_owned(),
            path => path.to_owned(),
        };
        let name = format!("clawjob_{}", &mac(key, "cookie")[..8]);
        Self { key: key.to_vec(), name, path, behind_proxy: settings.behind_proxy }
    }

    /// The credential in the cookie, if there is one.
    pub fn read<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = all.flat_map(|text| text.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.name).then_some(value)
        });
        pairs.next()
    }

    /// `set-cookie` for a fresh sign-in. It has no end of its own: a browser forgets it when it is
    /// closed, and the sign-in's ends are kept here.
    pub fn set(&self, credential: &str, peer: Option<&Peer>) -> Option<HeaderValue> {
        self.header(credential, "", peer)
    }

    /// `set-cookie` that makes a browser forget it.
    pub fn clear(&self, peer: Option<&Peer>) -> Option<HeaderValue> {
        self.header("", "; Max-Age=0", peer)
    }

    fn header(&self, value: &str, age: &str, peer: Option<&Peer>) -> Option<HeaderValue> {
        let encrypted = self.behind_proxy || peer.is_some_and(|peer| peer.tls);
        let secure = if encrypted { "; Secure" } else { "" };
        let text = format!(
            "{}={value}; Path={}; HttpOnly; SameSite=Strict{secure}{age}",
            self.name, self.path
        );
        HeaderValue::from_str(&text).ok()
    }

    /// The token of changes by the sign-in of that id.
    pub fn csrf_token(&self, sign_in: &str) -> String {
        mac(&self.key, &format!("csrf {sign_in}"))
    }

    /// Whether the headers carry it.
    pub fn csrf_holds(&self, sign_in: &str, headers: &HeaderMap) -> bool {
        let given = headers.get(CSRF_HEADER).map(HeaderValue::as_bytes).unwrap_or_default();
        self.csrf_token(sign_in).as_bytes().ct_eq(given).into()
    }
}

fn mac(key: &[u8], text: &str) -> String {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return String::new() };
    mac.update(text.as_bytes());
    hex::encode(&mac.finalize().into_bytes()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookies(context_path: &str, behind_proxy: bool) -> Cookies {
        let context_path = context_path.to_owned();
        let settings = ApiSettings { context_path, behind_proxy, ..ApiSettings::default() };
        Cookies::new(b"a key of the cluster", &settings)
    }

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().expect("a name"), value.parse().expect("a value"))])
    }

    #[test]
    fn a_cookie_is_read_back_from_among_others() {
        let cookies = cookies("", false);
        let set = cookies.set("clawjob_s1_x", None).expect("a header");
        let set = set.to_str().expect("text");
        let pair = set.split(';').next().expect("a pair");
        let sent = headers("cookie", &format!("theme=dark; {pair}; lang=en"));
        assert_eq!(cookies.read(&sent), Some("clawjob_s1_x"));
        assert_eq!(cookies.read(&headers("cookie", "theme=dark")), None);
        assert!(set.contains("; Path=/; HttpOnly; SameSite=Strict"), "{set}");
        assert!(!set.contains("Secure"), "{set}");
    }

    #[test]
    fn behind_a_proxy_or_with_tls_it_is_secure_and_keeps_to_its_path() {
        let set = cookies("/clawjob", true).set("x", None).expect("a header");
        let set = set.to_str().expect("text");
        assert!(set.contains("; Path=/clawjob;") && set.contains("; Secure"), "{set}");
        let address = "10.0.0.1:1".parse().expect("an address");
        let peer = Peer { address, tls: true, certificate: None };
        let set = cookies("", false).set("x", Some(&peer)).expect("a header");
        assert!(set.to_str().expect("text").contains("; Secure"));
    }

    #[test]
    fn a_csrf_token_is_of_one_sign_in_of_one_cluster() {
        let ours = cookies("", false);
        let token = ours.csrf_token("s1");
        assert!(ours.csrf_holds("s1", &headers(CSRF_HEADER, &token)));
        assert!(!ours.csrf_holds("s2", &headers(CSRF_HEADER, &token)));
        assert!(!ours.csrf_holds("s1", &HeaderMap::new()));
        assert!(!ours.csrf_holds("s1", &headers(CSRF_HEADER, "")));
        let other = Cookies::new(b"another", &ApiSettings::default());
        assert!(!other.csrf_holds("s1", &headers(CSRF_HEADER, &token)));
    }
}
