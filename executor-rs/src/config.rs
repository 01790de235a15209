//! Where the executor dials and as whom: environment, settings in code, and their check.

use std::collections::BTreeMap;
use std::env::VarError;
use std::path::PathBuf;
use std::time::Duration;

use rand::Rng as _;

use crate::error::{ConfigError, Fault};

/// Where an executor dials when nothing else is said.
const ENDPOINT_DEFAULT: &str = "http://127.0.0.1:7700";
/// Slots when nothing else is said.
const SLOTS_DEFAULT: u32 = 10;
/// How long a drain waits for handlers when nothing else is said; with the two seconds each that
/// handlers have to stop and results to be acknowledged it stays under Kubernetes' 30 s.
const SHUTDOWN_GRACE_DEFAULT: Duration = Duration::from_secs(25);
/// Longest app name and executor id, in bytes.
const NAME_BYTES_MAX: usize = 63;
/// Characters of a made-up executor id after the host's name.
const ID_SUFFIX_CHARS: usize = 6;
/// Most labels of an executor.
const LABELS_MAX: usize = 64;

/// How long to wait between attempts to connect. The wait is drawn at random each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconnect {
    /// The first wait after a lost session is up to this; 2 s by default.
    pub first: Duration,
    /// The following ones are up to this, doubled each time; 0.5 s by default.
    pub base: Duration,
    /// No wait is longer than this; 30 s by default.
    pub cap: Duration,
    /// A session that lasted this long makes the next wait a first one again; 60 s by default.
    pub healthy_after: Duration,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(2),
            base: Duration::from_millis(500),
            cap: Duration::from_secs(30),
            healthy_after: Duration::from_secs(60),
        }
    }
}

/// A client certificate for mutual TLS, both parts in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The certificate chain.
    pub certificate: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientIdentity(..)")
    }
}

/// Where the token comes from.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// Given as text, and where.
    Text(String, &'static str),
    /// Read anew at each dial, so that it can be rotated.
    File(PathBuf),
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(_, source) => write!(f, "Text(.., {source})"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl Token {
    /// Where it was found, for who looks into a refusal.
    pub(crate) fn source(&self) -> String {
        match self {
            Self::Text(_, source) => (*source).to_owned(),
            Self::File(path) => format!("the file {}", path.display()),
        }
    }
}

/// Everything that can be set; `None` means the default.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) endpoints: Option<Vec<String>>,
    pub(crate) token: Option<Token>,
    pub(crate) app: Option<String>,
    pub(crate) executor_id: Option<String>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) identity: Option<ClientIdentity>,
    pub(crate) slots: Option<u32>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) shutdown_grace: Option<Duration>,
    pub(crate) reconnect: Reconnect,
    pub(crate) keep_trying: bool,
}

/// Checked settings.
#[derive(Debug, Clone)]
pub(crate) struct Checked {
    pub(crate) endpoints: Vec<String>,
    pub(crate) token: Option<Token>,
    pub(crate) app: String,
    pub(crate) executor_id: String,
    pub(crate) ca: Option<Vec<u8>>,
    pub(crate) identity: Option<ClientIdentity>,
    pub(crate) slots: u32,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) shutdown_grace: Duration,
    pub(crate) reconnect: Reconnect,
    pub(crate) keep_trying: bool,
}

impl Settings {
    /// Reads the environment through `get`, so that a test need not change the process's own.
    ///
    /// # Errors
    /// Every variable whose value cannot be used.
    pub(crate) fn from_env(
        get: impl Fn(&str) -> Result<String, VarError>,
    ) -> Result<Self, ConfigError> {
        let mut faults = Vec::new();
        let mut read = |name: &str| match get(name) {
            Ok(value) if value.trim().is_empty() => None,
            Ok(value) => Some(value.trim().to_owned()),
            Err(VarError::NotPresent) => None,
            Err(VarError::NotUnicode(_)) => {
                faults.push(fault(name, "is not UTF-8; set it to plain text"));
                None
            }
        };
        let endpoints = read("CLAWJOB_ENDPOINTS");
        let (text, file) = (read("CLAWJOB_TOKEN"), read("CLAWJOB_TOKEN_FILE"));
        let (app, executor_id) = (read("CLAWJOB_APP"), read("CLAWJOB_EXECUTOR_ID"));
        let ca_file = read("CLAWJOB_CA_FILE").map(PathBuf::from);
        let endpoints: Option<Vec<String>> =
            endpoints.map(|list| list.split(',').map(|url| url.trim().to_owned()).collect());
        if let Some(endpoints) = &endpoints {
            check_endpoints("CLAWJOB_ENDPOINTS", endpoints, &mut faults);
        }
        if text.is_some() && file.is_some() {
            let text = "CLAWJOB_TOKEN is set too; unset one of the two";
            faults.push(fault("CLAWJOB_TOKEN_FILE", text));
        }
        check_name("CLAWJOB_APP", app.as_deref(), &mut faults);
        check_name("CLAWJOB_EXECUTOR_ID", executor_id.as_deref(), &mut faults);
        read_ca("CLAWJOB_CA_FILE", ca_file.as_ref(), &mut faults);
        if !faults.is_empty() {
            return Err(ConfigError { faults });
        }
        let token = text.map(|text| Token::Text(text, "CLAWJOB_TOKEN"));
        let token = token.or(file.map(|path| Token::File(path.into())));
        Ok(Self { endpoints, token, app, executor_id, ca_file, ..Self::default() })
    }

    /// These settings, with `other`'s where these say nothing.
    #[cfg(all(feature = "agent", unix))]
    pub(crate) fn or(self, other: Self) -> Self {
        let mut labels = other.labels;
        labels.extend(self.labels);
        Self {
            endpoints: self.endpoints.or(other.endpoints),
            token: self.token.or(other.token),
            app: self.app.or(other.app),
            executor_id: self.executor_id.or(other.executor_id),
            ca_file: self.ca_file.or(other.ca_file),
            identity: self.identity.or(other.identity),
            slots: self.slots.or(other.slots),
            labels,
            shutdown_grace: self.shutdown_grace.or(other.shutdown_grace),
            reconnect: self.reconnect,
            keep_trying: self.keep_trying || other.keep_trying,
        }
    }

    /// Fills in the defaults and reports all that is missing or wrong, `others` included.
    pub(crate) fn check(&self, others: Vec<Fault>) -> Result<Checked, ConfigError> {
        let mut faults = others;
        let endpoints = self.endpoints.clone().unwrap_or_else(|| vec![ENDPOINT_DEFAULT.to_owned()]);
        check_endpoints("endpoints", &endpoints, &mut faults);
        if self.app.is_none() {
            let text = "is not set; set CLAWJOB_APP or call .app(name)";
            faults.push(fault("app", text));
        }
        check_name("app", self.app.as_deref(), &mut faults);
        check_name("executor_id", self.executor_id.as_deref(), &mut faults);
        let slots = self.slots.unwrap_or(SLOTS_DEFAULT);
        if slots == 0 {
            faults.push(fault("slots", "is 0, so nothing could run; give at least 1"));
        }
        if self.labels.len() > LABELS_MAX {
            let text = format!("there are {}; at most {LABELS_MAX} are taken", self.labels.len());
            faults.push(fault("labels", text));
        }
        let ca = read_ca("ca_file", self.ca_file.as_ref(), &mut faults);
        if !faults.is_empty() {
            return Err(ConfigError { faults });
        }
        Ok(Checked {
            endpoints,
            token: self.token.clone(),
            app: self.app.clone().unwrap_or_default(),
            executor_id: self.executor_id.clone().unwrap_or_else(default_id),
            ca,
            identity: self.identity.clone(),
            slots,
            labels: self.labels.clone(),
            shutdown_grace: self.shutdown_grace.unwrap_or(SHUTDOWN_GRACE_DEFAULT),
            reconnect: self.reconnect.clone(),
            keep_trying: self.keep_trying,
        })
    }
}

fn fault(field: &str, message: impl Into<String>) -> Fault {
    Fault { field: field.to_owned(), message: message.into() }
}

fn check_endpoints(field: &str, endpoints: &[String], faults: &mut Vec<Fault>) {
    if endpoints.is_empty() {
        faults.push(fault(field, "is empty; give at least one URL, such as http://host:7700"));
    }
    for url in endpoints {
        if let Some(problem) = endpoint_problem(url) {
            faults.push(fault(field, format!("{url:?} {problem}")));
        }
    }
}

/// What is wrong with an endpoint's URL, if anything.
pub(crate) fn endpoint_problem(url: &str) -> Option<&'static str> {
    let Ok(uri) = url.parse::<tonic::transport::Uri>() else {
        return Some("is not a URL; write http://host:7700 or https://host:7700");
    };
    match uri.scheme_str() {
        Some("http" | "https") => {}
        _ => return Some("has no http:// or https:// in front"),
    }
    if uri.host().is_none_or(str::is_empty) {
        return Some("names no host");
    }
    if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
        return Some("has a path; gRPC needs the host and port alone");
    }
    uri.authority()
        .filter(|a| a.as_str().contains('@'))
        .map(|_| "carries a user name; credentials go into CLAWJOB_TOKEN or CLAWJOB_TOKEN_FILE")
}

fn check_name(field: &str, name: Option<&str>, faults: &mut Vec<Fault>) {
    let Some(name) = name else { return };
    if !is_name(name) {
        faults.push(fault(
            field,
            format!(
                "{name:?} is no name; use 1 to {NAME_BYTES_MAX} of a-z, 0-9, '.', '_', '-', \
                 beginning and ending with a letter or digit"
            ),
        ));
    }
}

fn is_name(name: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.len() <= NAME_BYTES_MAX
        && edge(name.bytes().next())
        && edge(name.bytes().last())
        && name.bytes().all(|b| edge(Some(b)) || b"._-".contains(&b))
}

fn read_ca(field: &str, path: Option<&PathBuf>, faults: &mut Vec<Fault>) -> Option<Vec<u8>> {
    let path = path?;
    match std::fs::read(path) {
        Ok(pem) if pem.windows(10).any(|window| window == b"-----BEGIN") => Some(pem),
        Ok(_) => {
            let text = format!("{} holds no PEM certificate", path.display());
            faults.push(fault(field, text));
            None
        }
        Err(error) => {
            let text = format!("{} cannot be read: {error}", path.display());
            faults.push(fault(field, text));
            None
        }
    }
}

/// The host's name and six random characters, so that two processes of a host do not clash.
fn default_id() -> String {
    let host = hostname::get().map(|name| name.to_string_lossy().into_owned());
    let mut rng = rand::rng();
    let suffix: String = (0..ID_SUFFIX_CHARS)
        .map(|_| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[rng.random_range(0..36)]))
        .collect();
    id_from(&host.unwrap_or_default(), &suffix)
}

fn id_from(host: &str, suffix: &str) -> String {
    let clean: String = host
        .chars()
        .map(|c| c.to_ascii_lowercase())
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
        .take(NAME_BYTES_MAX - suffix.len() - 1)
        .collect();
    let clean = clean.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let host = if clean.is_empty() { "executor" } else { clean };
    format!("{host}-{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Result<String, VarError> + 'a {
        move |name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned()).ok_or(VarError::NotPresent)
        }
    }

    #[test]
    fn all_faults_of_the_environment_come_at_once() {
        let error = Settings::from_env(env(&[
            ("CLAWJOB_ENDPOINTS", "http://a:7700,b:7700,https://c/path,http://u@d"),
            ("CLAWJOB_TOKEN", "t"),
            ("CLAWJOB_TOKEN_FILE", "/f"),
            ("CLAWJOB_APP", "No App"),
            ("CLAWJOB_EXECUTOR_ID", "-x"),
            ("CLAWJOB_CA_FILE", "/no/such/file.pem"),
        ]))
        .unwrap_err();
        let fields: Vec<&str> = error.faults.iter().map(|fault| fault.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "CLAWJOB_ENDPOINTS",
                "CLAWJOB_ENDPOINTS",
                "CLAWJOB_ENDPOINTS",
                "CLAWJOB_TOKEN_FILE",
                "CLAWJOB_APP",
                "CLAWJOB_EXECUTOR_ID",
                "CLAWJOB_CA_FILE",
            ]
        );
    }

    #[test]
    fn the_defaults_are_filled_in_and_what_is_missing_is_named() {
        let settings = Settings::from_env(env(&[])).unwrap();
        let error = settings.check(Vec::new()).unwrap_err();
        assert!(error.to_string().contains("CLAWJOB_APP"), "{error}");
        let checked =
            Settings { app: Some("demo".to_owned()), ..settings }.check(Vec::new()).unwrap();
        assert_eq!(checked.endpoints, [ENDPOINT_DEFAULT]);
        assert_eq!(checked.shutdown_grace, SHUTDOWN_GRACE_DEFAULT);
        assert!(is_name(&checked.executor_id), "{}", checked.executor_id);
    }

    #[test]
    fn any_host_name_makes_a_legal_id() {
        for host in ["", "Web_01.Example", "--", "ünïcode", &"x".repeat(300)] {
            let id = id_from(host, "abc123");
            assert!(is_name(&id), "{host:?} -> {id:?}");
        }
        assert_eq!(id_from("Web_01.Example", "abc123"), "web_01.example-abc123");
    }
}
