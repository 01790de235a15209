//! Configuration: a YAML or TOML file, then environment, then flags; every fault at once.
//!
//! A key is a path of names joined by dots, `log.level`. In the environment it is
//! `CLAWJOB_LOG_LEVEL`; a list there is separated by commas. Keys are set one at a time on the
//! defaults, so each has its own verdict and a wrong one does not hide the next.

mod alarm;
mod bounds;
mod period;
mod print;
mod sign_in;
mod wanted;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use alarm::{Alarm, AlarmType, Smtp, SmtpTlsMode};
pub use print::{print, without_password};
pub use sign_in::SignIn;

/// Prefix of environment variables.
const ENV_PREFIX: &str = "CLAWJOB_";
/// Variables of that prefix that others read.
const ENV_OF_OTHERS: [&str; 8] =
    ["CONFIG", "ENDPOINTS", "TOKEN", "TOKEN_FILE", "APP", "CA_FILE", "EXECUTOR_ID", "SOAK"];
/// The same by their beginnings: of tests, and what Kubernetes sets for a service named `clawjob`.
const ENV_OF_OTHERS_BEGIN: [&str; 3] = ["TEST_", "SERVICE_", "PORT_"];

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Address of the one port, `HOST:PORT`.
    pub listen: String,
    /// Where the embedded database, the admin token and the lock file are.
    pub data_dir: PathBuf,
    /// `postgres://…`; absent means the embedded SQLite.
    pub database: Option<String>,
    /// A second connection string for everything but locks and notifications, for a pooling proxy.
    pub database_pool: Option<String>,
    /// Pooled connections.
    pub database_pool_size: usize,
    /// Address that executors and other nodes reach this node by; absent means `listen`.
    pub advertise: Option<String>,
    /// Path before every route, such as `/clawjob`; empty means none.
    pub context_path: String,
    /// TLS is ended by a proxy in front: allows plain text on other addresses than loopback.
    pub behind_proxy: bool,
    /// The proxy in front speaks HTTP, and writes the client's address into `X-Forwarded-For`.
    pub forwarded_for: bool,
    /// `/metrics` answers without a credential.
    pub metrics_open: bool,
    /// TLS of the port.
    pub tls: Tls,
    /// Logs.
    pub log: Log,
    /// Traces.
    pub otlp: Otlp,
    /// Bounds on what users send.
    pub limits: Limits,
    /// Timings of sessions and of giving up.
    pub timings: Timings,
    /// How long sign-ins last.
    pub sign_in: SignIn,
    /// How long things are kept.
    pub retention: Retention,
    /// The alarm for jobs without a rule, and the mail server.
    pub alarm: Alarm,
}

/// TLS of the port: both files, or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tls {
    /// Certificate chain, PEM.
    pub cert_file: Option<PathBuf>,
    /// Private key, PEM.
    pub key_file: Option<PathBuf>,
    /// Clients must show a certificate of this authority, PEM.
    pub client_ca_file: Option<PathBuf>,
}

/// Shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// Logs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Log {
    /// A level, or directives such as `info,clawjob_scheduler::hub=debug`.
    pub level: String,
    /// Shape of the lines.
    pub format: LogFormat,
    /// Written there instead of standard error; a new file each day.
    pub file: Option<PathBuf>,
    /// Daily files kept.
    pub files_max: usize,
}

/// Traces over OTLP/gRPC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Otlp {
    /// `http://collector:4317`; absent means no traces are sent.
    pub endpoint: Option<String>,
}

/// Bounds on what users send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Params of a job or run, bytes.
    pub params_bytes: u32,
    /// Output of a run, bytes.
    pub output_bytes: u32,
    /// Sessions that may be open.
    pub sessions: u32,
    /// Sessions admitted per second.
    pub sessions_per_second: u32,
    /// Connections that may be open.
    pub connections: u32,
}

/// Timings of sessions and of giving up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// Executors report this often.
    #[serde(with = "period")]
    pub heartbeat_interval: Duration,
    /// An executor not heard of for this long is suspect: no new runs.
    #[serde(with = "period")]
    pub heartbeat_timeout: Duration,
    /// Its runs are given up after this long out of contact.
    #[serde(with = "period")]
    pub lost_after: Duration,
    /// After a start or an outage of the database nobody is given up before this has passed.
    #[serde(with = "period")]
    pub takeover_grace: Duration,
    /// A run must be acknowledged within this time.
    #[serde(with = "period")]
    pub run_ack_timeout: Duration,
    /// A shutdown ends after this long at the latest.
    #[serde(with = "period")]
    pub shutdown_grace: Duration,
}

/// How long things are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retention {
    /// Ended runs.
    #[serde(with = "period")]
    pub runs: Duration,
    /// Logs of runs.
    #[serde(with = "period")]
    pub logs: Duration,
    /// Events of the audit log.
    #[serde(with = "period")]
    pub audit: Duration,
}

impl Default for Config {
    fn default() -> Self {
        let day = Duration::from_secs(86_400);
        Self {
            listen: "127.0.0.1:7700".to_owned(),
            data_dir: PathBuf::from("clawjob-data"),
            database: None,
            database_pool: None,
            database_pool_size: 10,
            advertise: None,
            context_path: String::new(),
            behind_proxy: false,
            forwarded_for: false,
            metrics_open: false,
            tls: Tls::default(),
            log: Log {
                level: "info".to_owned(),
                format: LogFormat::Text,
                file: None,
                files_max: 7,
            },
            otlp: Otlp::default(),
            limits: Limits {
                params_bytes: 256 * 1024,
                output_bytes: 256 * 1024,
                sessions: 20_000,
                sessions_per_second: 2_000,
                connections: 30_000,
            },
            timings: Timings {
                heartbeat_interval: Duration::from_secs(3),
                heartbeat_timeout: Duration::from_secs(7),
                lost_after: Duration::from_secs(60),
                takeover_grace: Duration::from_secs(60),
                run_ack_timeout: Duration::from_secs(5),
                shutdown_grace: Duration::from_secs(30),
            },
            sign_in: SignIn::default(),
            retention: Retention { runs: 30 * day, logs: 7 * day, audit: 365 * day },
            alarm: Alarm::default(),
        }
    }
}

/// A key that could not be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// Where it was set: a file, a variable, a flag.
    pub origin: String,
    /// Its path.
    pub key: String,
    /// What is wrong with it and what would be right.
    pub fault: String,
}

/// All faults of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFaults(pub Vec<ConfigFault>);

impl std::fmt::Display for ConfigFaults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the configuration has {} fault(s):", self.0.len())?;
        for fault in &self.0 {
            write!(f, "\n  {} ({}): {}", fault.key, fault.origin, fault.fault)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigFaults {}

/// Reads the file (if any), the environment and the flags (path → text), in this order of
/// precedence from low to high.
///
/// # Errors
/// Every key that is unknown or has a value of the wrong kind or out of bounds.
pub fn load(
    file: Option<&Path>,
    env: impl Iterator<Item = (String, String)>,
    flags: &[(&str, String)],
) -> Result<Config, ConfigFaults> {
    let mut builder = Builder::default();
    if let Some(path) = file {
        builder.take_file(path);
    }
    for (name, text) in env {
        if let Some(rest) = name.strip_prefix(ENV_PREFIX)
            && !ENV_OF_OTHERS.contains(&rest)
            && !ENV_OF_OTHERS_BEGIN.iter().any(|begin| rest.starts_with(begin))
            && !(rest == "PORT" && text.contains("://"))
        {
            builder.take_variable(&name, rest, &text);
        }
    }
    for (key, text) in flags {
        builder.set_text("flag", key, text);
    }
    builder.finish()
}

struct Builder {
    tree: Value,
    origins: BTreeMap<String, String>,
    faults: Vec<ConfigFault>,
}

impl Default for Builder {
    fn default() -> Self {
        let tree = serde_json::to_value(Config::default()).unwrap_or(Value::Null);
        Self { tree, origins: BTreeMap::new(), faults: Vec::new() }
    }
}

impl Builder {
    fn take_file(&mut self, path: &Path) {
        let origin = path.display().to_string();
        match read_file(path) {
            Ok(Value::Object(map)) => self.take_tree(&origin, "", &Value::Object(map)),
            Ok(Value::Null) => {}
            Ok(_) => self.fault(&origin, "(file)", "must be a mapping of keys to values"),
            Err(fault) => self.fault(&origin, "(file)", &fault),
        }
    }

    fn take_tree(&mut self, origin: &str, path: &str, value: &Value) {
        let at_leaf = self.tree.pointer(&pointer(path)).is_some_and(|known| !known.is_object());
        match value {
            Value::Object(map) if !at_leaf => {
                for (name, inner) in map {
                    let name = name.replace('-', "_");
                    let key = if path.is_empty() { name } else { format!("{path}.{name}") };
                    if self.tree.pointer(&pointer(&key)).is_some() {
                        self.take_tree(origin, &key, inner);
                    } else {
                        self.unknown(origin, &key);
                    }
                }
            }
            _ => self.set(origin, path, value.clone()),
        }
    }

    fn take_variable(&mut self, name: &str, rest: &str, text: &str) {
        let wanted = rest.to_ascii_lowercase();
        let key = self.keys().into_iter().find(|key| key.replace('.', "_") == wanted);
        match key {
            Some(key) => self.set_text(name, &key, text),
            None => self.unknown(name, &wanted),
        }
    }

    /// Sets a key from text: as the text itself, or as the number or boolean that it spells.
    fn set_text(&mut self, origin: &str, key: &str, text: &str) {
        let as_text = Value::String(text.to_owned());
        let parsed = serde_json::from_str::<Value>(text).ok().filter(|v| !v.is_string());
        let value = match parsed {
            Some(value) if self.try_set(key, as_text.clone()).is_err() => value,
            _ => as_text,
        };
        self.set(origin, key, value);
    }

    fn set(&mut self, origin: &str, key: &str, value: Value) {
        let Some(present) = self.tree.pointer(&pointer(key)) else {
            return self.unknown(origin, key);
        };
        match self.try_set(key, value.clone()) {
            Ok(tree) => {
                self.tree = tree;
                self.origins.insert(key.to_owned(), origin.to_owned());
            }
            Err(_) => {
                let set = |tried| self.try_set(key, tried).map(drop);
                let fault = wanted::fault(set, present.is_object(), &value);
                self.fault(origin, key, &fault);
            }
        }
    }

    fn try_set(&self, key: &str, value: Value) -> Result<Value, String> {
        let mut tree = self.tree.clone();
        let slot = tree.pointer_mut(&pointer(key)).ok_or("is no such key")?;
        *slot = value;
        serde_json::from_value::<Config>(tree.clone()).map_err(|fault| fault.to_string())?;
        Ok(tree)
    }

    fn keys(&self) -> Vec<String> {
        fn walk(path: &str, value: &Value, keys: &mut Vec<String>) {
            match value {
                Value::Object(map) => {
                    for (name, inner) in map {
                        let key =
                            if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                        walk(&key, inner, keys);
                    }
                }
                _ => keys.push(path.to_owned()),
            }
        }
        let mut keys = Vec::new();
        walk("", &self.tree, &mut keys);
        keys
    }

    fn unknown(&mut self, origin: &str, key: &str) {
        let keys = self.keys();
        let groups = keys.iter().filter_map(|known| known.split_once('.').map(|(group, _)| group));
        let known = keys.iter().map(String::as_str).chain(groups);
        let near = known.min_by_key(|candidate| distance(candidate, key));
        let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        self.fault(origin, key, &format!("is not a known key{hint}"));
    }

    fn fault(&mut self, origin: &str, key: &str, fault: &str) {
        self.faults.push(ConfigFault {
            origin: origin.to_owned(),
            key: key.to_owned(),
            fault: fault.to_owned(),
        });
    }

    fn finish(mut self) -> Result<Config, ConfigFaults> {
        let config: Config = match serde_json::from_value(self.tree.clone()) {
            Ok(config) => config,
            Err(fault) => {
                self.fault("(all)", "(file)", &fault.to_string());
                return Err(ConfigFaults(self.faults));
            }
        };
        for (key, fault) in bounds::faults(&config) {
            let origin = self.origins.get(key).cloned().unwrap_or_else(|| "default".to_owned());
            self.fault(&origin, key, &fault);
        }
        if self.faults.is_empty() { Ok(config) } else { Err(ConfigFaults(self.faults)) }
    }
}

fn pointer(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("/{}", key.replace('.', "/")) }
}

fn read_file(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|fault| format!("can't be read: {fault}"))?;
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    if is_toml {
        toml::from_str(&text).map_err(|fault| format!("is not valid TOML: {fault}"))
    } else {
        serde_norway::from_str(&text).map_err(|fault| format!("is not valid YAML: {fault}"))
    }
}

/// Edit distance, for the hint beside an unknown key.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let cost = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests;
