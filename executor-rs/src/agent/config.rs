//! The agent's configuration file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Method, Url};
use serde::Deserialize;

use super::shell;
use crate::config::{Settings, Token};
use crate::error::{ConfigError, Error, Fault};

/// Largest configuration file, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// How long a command has between SIGTERM and SIGKILL, in seconds, when it names no time; less
/// than the usual grace of a kill, so that the group is gone before the handler is given up.
const STOP_GRACE_S_DEFAULT: u64 = 5;
/// How long a call may take, in seconds, when its target names no time.
const HTTP_TIMEOUT_S_DEFAULT: u64 = 30;
/// Longest time of a call, in seconds.
const HTTP_TIMEOUT_S_MAX: u64 = 24 * 3600;

/// Why the agent did not start or gave up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The file cannot be read.
    #[error("cannot read {path}: {message}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system or the parser says.
        message: String,
    },
    /// The file's content is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No HTTP client could be made.
    #[error("cannot make an HTTP client: {0}")]
    Http(#[from] reqwest::Error),
    /// The executor behind the agent ended with an error.
    #[error(transparent)]
    Executor(#[from] Error),
}

/// The whole file. Keys it does not know are errors.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// Schedulers to dial; the default of [`crate::Executor`] when absent.
    pub endpoints: Option<Vec<String>>,
    /// File with the bearer token.
    pub token_file: Option<PathBuf>,
    /// The app the agent serves.
    pub app: Option<String>,
    /// The agent's name in its app.
    pub executor_id: Option<String>,
    /// PEM file with the authority of the scheduler's certificate.
    pub ca_file: Option<PathBuf>,
    /// How many runs at once.
    pub slots: Option<u32>,
    /// Labels that jobs can ask for.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Turns the handler `shell` on.
    pub shell: Option<ShellSection>,
    /// Turns the handler `http` on.
    pub http: Option<HttpSection>,
}

/// The commands that may be run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellSection {
    /// By the name that params use.
    pub commands: BTreeMap<String, Command>,
}

/// One command.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program: an absolute path, or a name that is looked up in PATH.
    pub program: PathBuf,
    /// Its arguments. `{name}` stands for the param of that name; `{{` and `}}` for a brace. What
    /// a param holds stays one argument, whatever is in it.
    #[serde(default)]
    pub args: Vec<String>,
    /// Where it runs; the agent's own directory when absent.
    pub cwd: Option<PathBuf>,
    /// Environment variables on top of the few that are passed on (PATH, HOME, USER, LANG,
    /// LC_ALL, TZ, TMPDIR) and those that describe the run.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Seconds between SIGTERM and SIGKILL when the run is stopped.
    #[serde(default = "stop_grace_default")]
    pub stop_grace_s: u64,
}

/// The URLs that may be called.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSection {
    /// By the name that params use.
    pub targets: BTreeMap<String, Target>,
}

/// A place that may be called: everything under its URL.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// `http://` or `https://`, without a query. A path that ends in `/` allows everything under
    /// it; one that does not allows itself alone.
    pub url: String,
    /// Methods allowed; GET alone when absent.
    #[serde(default = "methods_default")]
    pub methods: Vec<String>,
    /// Headers sent with each call, such as credentials.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Longest time of a call, in seconds.
    #[serde(default = "http_timeout_default")]
    pub timeout_s: u64,
}

impl fmt::Debug for Target {
    /// Without the values of headers, which may be credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("url", &self.url)
            .field("methods", &self.methods)
            .field("headers", &self.headers.keys())
            .field("timeout_s", &self.timeout_s)
            .finish()
    }
}

fn stop_grace_default() -> u64 {
    STOP_GRACE_S_DEFAULT
}

fn http_timeout_default() -> u64 {
    HTTP_TIMEOUT_S_DEFAULT
}

fn methods_default() -> Vec<String> {
    vec!["GET".to_owned()]
}

/// Reads and checks a configuration file: TOML when its name ends in `.toml`, else YAML.
///
/// # Errors
/// A file that cannot be read or parsed; else everything that is wrong with it.
pub fn load(path: &Path) -> Result<AgentConfig, AgentError> {
    let fail = |message: String| AgentError::File { path: path.to_owned(), message };
    let size = std::fs::metadata(path).map_err(|e| fail(e.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(fail(format!("it has {size} bytes of at most {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
    let toml = path.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("toml"));
    let config: AgentConfig = if toml {
        toml::from_str(&text).map_err(|e| fail(e.to_string()))?
    } else {
        serde_norway::from_str(&text).map_err(|e| fail(e.to_string()))?
    };
    config.check()?;
    Ok(config)
}

impl AgentConfig {
    /// Everything wrong with the handlers' sections, at once.
    fn check(&self) -> Result<(), ConfigError> {
        let mut faults = Vec::new();
        let mut fault = |field: String, message: String| faults.push(Fault { field, message });
        if self.shell.is_none() && self.http.is_none() {
            let text = "neither is there, so the agent could do nothing; add one".to_owned();
            fault("shell, http".to_owned(), text);
        }
        for (name, command) in self.shell.iter().flat_map(|section| &section.commands) {
            let field = format!("shell.commands.{name}");
            if command.program.as_os_str().is_empty() {
                fault(format!("{field}.program"), "is empty; name a program".to_owned());
            }
            for arg in &command.args {
                if let Err(problem) = shell::placeholders(arg) {
                    fault(format!("{field}.args"), format!("{arg:?} {problem}"));
                }
            }
        }
        for (name, target) in self.http.iter().flat_map(|section| &section.targets) {
            let field = format!("http.targets.{name}");
            if let Err(problem) = target.base() {
                fault(format!("{field}.url"), format!("{:?} {problem}", target.url));
            }
            if target.methods.is_empty() {
                fault(format!("{field}.methods"), "is empty; name at least GET".to_owned());
            }
            for method in &target.methods {
                if Method::from_bytes(method.as_bytes()).is_err() {
                    fault(format!("{field}.methods"), format!("{method:?} is no HTTP method"));
                }
            }
            if let Err(problem) = target.header_map() {
                fault(format!("{field}.headers"), problem);
            }
            if target.timeout_s == 0 || target.timeout_s > HTTP_TIMEOUT_S_MAX {
                let text = format!("is {}; give 1 to {HTTP_TIMEOUT_S_MAX}", target.timeout_s);
                fault(format!("{field}.timeout_s"), text);
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(ConfigError { faults }) }
    }

    pub(super) fn settings(&self) -> Settings {
        Settings {
            endpoints: self.endpoints.clone(),
            token: self.token_file.clone().map(Token::File),
            app: self.app.clone(),
            executor_id: self.executor_id.clone(),
            ca_file: self.ca_file.clone(),
            slots: self.slots,
            labels: self.labels.clone(),
            ..Settings::default()
        }
    }
}

impl ShellSection {
    /// One line for the console.
    pub(super) fn describe(&self) -> String {
        let names: Vec<&str> = self.commands.keys().map(String::as_str).collect();
        format!("Runs a command: {}", names.join(", "))
    }
}

impl HttpSection {
    /// One line for the console.
    pub(super) fn describe(&self) -> String {
        let names: Vec<&str> = self.targets.keys().map(String::as_str).collect();
        format!("Calls a URL: {}", names.join(", "))
    }
}

impl Command {
    pub(super) fn stop_grace(&self) -> Duration {
        Duration::from_secs(self.stop_grace_s)
    }
}

impl Target {
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s)
    }

    /// The URL under which calls are allowed.
    pub(super) fn base(&self) -> Result<Url, &'static str> {
        let url = Url::parse(&self.url).map_err(|_| "is not a URL")?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err("needs http:// or https:// and a host");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("has a query or a fragment; give those with the run");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("carries a user name; put credentials into headers");
        }
        Ok(url)
    }

    pub(super) fn header_map(&self) -> Result<reqwest::header::HeaderMap, String> {
        use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| format!("{name:?} is no header name"))?;
            let mut value = HeaderValue::from_str(value)
                .map_err(|_| format!("the value of {name:?} cannot be sent"))?;
            value.set_sensitive(true);
            map.insert(name, value);
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(yaml: &str) -> Result<AgentConfig, AgentError> {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        std::fs::write(file.path(), yaml).unwrap();
        load(file.path())
    }

    #[test]
    fn yaml_and_toml_say_the_same() {
        let yaml =
            parse("app: ops\nshell:\n  commands:\n    up:\n      program: uptime\n").unwrap();
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        std::fs::write(file.path(), "app = 'ops'\n[shell.commands.up]\nprogram = 'uptime'\n")
            .unwrap();
        let toml = load(file.path()).unwrap();
        assert_eq!(format!("{yaml:?}"), format!("{toml:?}"));
        assert!(yaml.http.is_none());
    }

    #[test]
    fn unknown_keys_and_empty_files_are_errors() {
        let error = parse("app: ops\nshel: {}\n").unwrap_err().to_string();
        assert!(error.contains("shel"), "{error}");
        let error = parse("app: ops\n").unwrap_err().to_string();
        assert!(error.contains("shell, http"), "{error}");
    }

    #[test]
    fn all_faults_come_at_once() {
        let error = parse(
            "shell: {commands: {a: {program: '', args: ['{x', '{a b}']}}}\n\
             http: {targets: {b: {url: 'ftp://x', methods: ['A B'], timeout_s: 0,\n\
             headers: {'a b': c}}}}\n",
        )
        .unwrap_err();
        let AgentError::Config(error) = error else { panic!("{error}") };
        assert_eq!(error.faults.len(), 7, "{error}");
    }
}
