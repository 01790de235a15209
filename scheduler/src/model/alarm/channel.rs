//! Where alarms go, and where they must not go.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::{Host, Url};

/// Longest URL of a webhook, in bytes.
const WEBHOOK_URL_MAX: usize = 2_048;

/// A text that is never shown: not read back, not logged, not in an error. It is stored as it is,
/// since signing needs it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Takes the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for whoever signs or sends with it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "none" } else { "***" })
    }
}

/// A way to tell somebody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// An HTTP POST.
    Webhook(Webhook),
    /// A mail.
    Mail(Mail),
}

/// An HTTP target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Webhook {
    /// Where to, as [`webhook_url`] lets it pass.
    pub url: String,
    /// Signs the body; empty means unsigned.
    pub secret: Secret,
    /// Sent along. Values may be credentials.
    pub headers: BTreeMap<String, Secret>,
}

/// Receivers of a mail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mail {
    /// Addresses.
    pub to: Vec<String>,
}

impl Channel {
    /// Who may hang: deliveries to one target share its places. A webhook's scheme, host and port;
    /// `mail` for the one mail server.
    pub fn target(&self) -> String {
        match self {
            Self::Mail(_) => "mail".to_owned(),
            Self::Webhook(webhook) => match Url::parse(&webhook.url) {
                Ok(url) => url.origin().ascii_serialization(),
                Err(_) => "invalid".to_owned(),
            },
        }
    }
}

/// Why a URL can't be a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WebhookFault {
    /// Not a URL at all, or not one of a web server.
    #[error("is no URL of the form https://host/path")]
    NotHttp,
    /// Too long.
    #[error("has over {WEBHOOK_URL_MAX} bytes")]
    TooLong,
    /// Names a user or password.
    #[error("holds a user or password, which would be shown; send it as a header instead")]
    Credentials,
    /// Leads to an address that no receiver has.
    #[error(
        "leads to a link-local, multicast or unspecified address, where cloud machines keep their \
         credentials; name a receiver's own address"
    )]
    Forbidden,
}

/// Reads the URL of a webhook.
///
/// # Errors
/// Anything but plain http and https, and addresses that [`forbidden_address`] names.
pub fn webhook_url(text: &str) -> Result<Url, WebhookFault> {
    if text.len() > WEBHOOK_URL_MAX {
        return Err(WebhookFault::TooLong);
    }
    let url = Url::parse(text).map_err(|_| WebhookFault::NotHttp)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(WebhookFault::NotHttp);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(WebhookFault::Credentials);
    }
    let forbidden = match url.host() {
        None => return Err(WebhookFault::NotHttp),
        Some(Host::Ipv4(address)) => forbidden_address(address.into()),
        Some(Host::Ipv6(address)) => forbidden_address(address.into()),
        // What the name leads to is looked at when it is resolved.
        Some(Host::Domain(_)) => false,
    };
    if forbidden { Err(WebhookFault::Forbidden) } else { Ok(url) }
}

/// Addresses that are never sent to: link-local ones, under which cloud machines find their own
/// credentials, multicast, broadcast and the unspecified one. Private networks and loopback are
/// allowed: most receivers are there.
pub fn forbidden_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            v4.is_link_local() || v4.is_multicast() || v4.is_broadcast() || v4.is_unspecified()
        }
        IpAddr::V6(v6) => {
            let metadata = [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254];
            // 64:ff9b::/96 reaches the v4 address in its last 32 bits.
            let translated = match v6.segments() {
                [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                    let bits = (u32::from(high) << 16) | u32::from(low);
                    forbidden_address(IpAddr::V4(bits.into()))
                }
                _ => false,
            };
            v6.is_unicast_link_local()
                || v6.is_multicast()
                || v6.is_unspecified()
                || v6.segments() == metadata
                || translated
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_web_addresses_are_taken() {
        for url in [
            "https://hooks.example.com/a?b=c",
            "http://127.0.0.1:9/x",
            "http://10.1.2.3/",
            "http://[::1]:8080/",
        ] {
            assert!(webhook_url(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn addresses_of_metadata_services_are_refused_however_they_are_written() {
        for url in [
            "http://169.254.169.254/latest/meta-data",
            "http://0xA9FEA9FE/",
            "http://2852039166/",
            "http://0251.0376.0251.0376/",
            "http://[::ffff:169.254.169.254]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[fe80::1]/",
            "http://[fd00:ec2::254]/",
            "http://0.0.0.0/",
            "http://[::]/",
            "http://255.255.255.255/",
        ] {
            assert_eq!(webhook_url(url), Err(WebhookFault::Forbidden), "{url}");
        }
    }

    #[test]
    fn other_schemes_and_credentials_are_refused() {
        for url in ["ftp://h/", "file:///etc/passwd", "h/x", "", "unix:/run/x", "http://"] {
            assert_eq!(webhook_url(url), Err(WebhookFault::NotHttp), "{url}");
        }
        assert_eq!(webhook_url("https://u:p@h/"), Err(WebhookFault::Credentials));
        let long = format!("https://h/{}", "x".repeat(WEBHOOK_URL_MAX));
        assert_eq!(webhook_url(&long), Err(WebhookFault::TooLong));
    }

    #[test]
    fn a_target_is_the_server_and_not_the_path() {
        let hook = |url: &str| {
            Channel::Webhook(Webhook { url: url.to_owned(), ..Webhook::default() }).target()
        };
        assert_eq!(hook("https://h/a?key=1"), "https://h");
        assert_eq!(hook("https://h:443/b"), "https://h");
        assert_ne!(hook("https://h:8443/b"), "https://h");
    }

    #[test]
    fn a_secret_does_not_show_itself() {
        let channel = Channel::Webhook(Webhook {
            url: "https://h/".to_owned(),
            secret: Secret::new("s3cret"),
            headers: [("authorization".to_owned(), Secret::new("Bearer t0ken"))].into(),
        });
        let shown = format!("{channel:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("t0ken"), "{shown}");
    }
}
