//! The alarm of the configuration, and the mail server that rules use too.

use std::path::PathBuf;

use lettre::{Address, message::Mailbox};
use serde::{Deserialize, Deserializer, Serialize};

use crate::model::alarm::webhook_url;

/// Receivers of the configuration's mails.
const MAIL_TO_MAX: usize = 20;

/// What the configuration's alarm is sent by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlarmType {
    /// `alarm.webhook_url`.
    Webhook,
    /// `alarm.mail_to`.
    Mail,
}

/// The alarm for jobs that no rule of their app covers, and what all alarms share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alarm {
    /// Whether there is one.
    pub enabled: bool,
    /// How it is sent.
    #[serde(rename = "type")]
    pub kind: AlarmType,
    /// Tell of runs that ended FAILED, TIMED_OUT or LOST.
    pub on_failure: bool,
    /// Tell of runs that ended SUCCEEDED.
    pub on_success: bool,
    /// Where to post.
    pub webhook_url: Option<String>,
    /// Signs what is posted.
    pub webhook_secret: Option<String>,
    /// File that holds it.
    pub webhook_secret_file: Option<PathBuf>,
    /// Whom to write to; as text separated by commas.
    #[serde(deserialize_with = "addresses")]
    pub mail_to: Vec<String>,
    /// Where a run can be looked at: a URL with `{app}`, `{job}` and `{run}`.
    pub run_url: Option<String>,
    /// The mail server.
    pub smtp: Smtp,
}

/// How the connection to the mail server is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SmtpTlsMode {
    /// TLS from the first byte.
    Implicit,
    /// Plain text that must change to TLS.
    StartTls,
    /// Plain text.
    None,
}

/// The mail server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Smtp {
    /// Its name; absent means that no mail can be sent.
    pub host: Option<String>,
    /// Its port; absent means the usual one of `tls`.
    pub port: Option<u16>,
    /// How the connection is protected.
    pub tls: SmtpTlsMode,
    /// User, when it asks for one.
    pub user: Option<String>,
    /// Password of that user.
    pub password: Option<String>,
    /// File that holds it.
    pub password_file: Option<PathBuf>,
    /// Who mails come from.
    pub from: Option<String>,
}

impl Default for Alarm {
    fn default() -> Self {
        Self {
            enabled: false,
            kind: AlarmType::Webhook,
            on_failure: true,
            on_success: false,
            webhook_url: None,
            webhook_secret: None,
            webhook_secret_file: None,
            mail_to: Vec::new(),
            run_url: None,
            smtp: Smtp {
                host: None,
                port: None,
                tls: SmtpTlsMode::StartTls,
                user: None,
                password: None,
                password_file: None,
                from: None,
            },
        }
    }
}

/// A list, or one text with commas, as the environment has it.
fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "must be a list of mail addresses")]
    enum Form {
        List(Vec<String>),
        Text(String),
    }
    Ok(match Form::deserialize(from)? {
        Form::List(list) => list,
        Form::Text(text) => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        }
    })
}

impl Alarm {
    /// What the types alone do not say: (key, fault).
    pub(super) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        let mut check = |key, ok: bool, fault: &str| {
            if !ok {
                faults.push((key, fault.to_owned()));
            }
        };
        if self.enabled {
            let speaks = self.on_failure || self.on_success;
            check(
                "alarm.on_failure",
                speaks,
                "set this or alarm.on_success, or alarm.enabled=false",
            );
            match self.kind {
                AlarmType::Webhook => {
                    let given = self.webhook_url.is_some();
                    check("alarm.webhook_url", given, "must be set, since alarm.type is webhook");
                }
                AlarmType::Mail => {
                    let given = !self.mail_to.is_empty();
                    check("alarm.mail_to", given, "must be set, since alarm.type is mail");
                    let server = self.smtp.host.is_some();
                    check("alarm.smtp.host", server, "must be set, since alarm.type is mail");
                }
            }
        }
        let fewer = self.mail_to.len() <= MAIL_TO_MAX;
        check("alarm.mail_to", fewer, "at most 20 addresses; write to a list instead");
        for address in &self.mail_to {
            let ok = address.parse::<Address>().is_ok();
            check("alarm.mail_to", ok, &format!("{address:?} is no mail address"));
        }
        if let Some(fault) = self.webhook_url.as_ref().and_then(|url| webhook_url(url).err()) {
            check("alarm.webhook_url", false, &fault.to_string());
        }
        let link = self.run_url.as_ref().is_none_or(|url| {
            (url.starts_with("http://") || url.starts_with("https://")) && url.contains("{run}")
        });
        let form =
            "must be a URL with {run}, such as https://jobs.example.com/apps/{app}/runs/{run}";
        check("alarm.run_url", link, form);
        faults.extend(self.smtp.faults());
        for (key, text, file) in [
            ("alarm.webhook_secret_file", &self.webhook_secret, &self.webhook_secret_file),
            ("alarm.smtp.password_file", &self.smtp.password, &self.smtp.password_file),
        ] {
            let plain = key.trim_end_matches("_file");
            if text.is_some() && file.is_some() {
                faults.push((key, format!("is set beside {plain}: leave one of them out")));
            } else if let Err(fault) = secret(text.as_deref(), file.as_deref()) {
                faults.push((key, fault));
            }
        }
        faults
    }

    /// The same without what is secret, for printing.
    pub(super) fn hide(&mut self) {
        for secret in [&mut self.webhook_secret, &mut self.smtp.password].into_iter().flatten() {
            "***".clone_into(secret);
        }
    }

    /// The signing secret; empty for none.
    ///
    /// # Errors
    /// In words, when its file can't be read.
    pub fn signing_secret(&self) -> Result<String, String> {
        secret(self.webhook_secret.as_deref(), self.webhook_secret_file.as_deref())
    }
}

impl Smtp {
    fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if self.host.is_none() {
            return faults;
        }
        match &self.from {
            None => faults.push(("alarm.smtp.from", "must be set with alarm.smtp.host".to_owned())),
            Some(from) if from.parse::<Mailbox>().is_err() => {
                let form = "must be an address, or Name <address>";
                faults.push(("alarm.smtp.from", form.to_owned()));
            }
            Some(_) => {}
        }
        let password = self.password.is_some() || self.password_file.is_some();
        if self.user.is_some() != password {
            let pair = "belongs with alarm.smtp.password or password_file: set both or none";
            faults.push(("alarm.smtp.user", pair.to_owned()));
        }
        faults
    }

    /// The password; empty for none.
    ///
    /// # Errors
    /// In words, when its file can't be read.
    pub fn secret(&self) -> Result<String, String> {
        secret(self.password.as_deref(), self.password_file.as_deref())
    }
}

/// A secret from the text itself or from a file, whose last line break does not count.
fn secret(text: Option<&str>, file: Option<&std::path::Path>) -> Result<String, String> {
    match (text, file) {
        (Some(text), _) => Ok(text.to_owned()),
        (None, None) => Ok(String::new()),
        (None, Some(path)) => match std::fs::read_to_string(path) {
            Ok(text) if text.trim().is_empty() => Err(format!("{} is empty", path.display())),
            Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
            Err(fault) => Err(format!("{} can't be read: {fault}", path.display())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, load, print};

    fn loaded(pairs: &[(&str, &str)]) -> Result<Config, Vec<String>> {
        let env = pairs.iter().map(|(k, v)| (format!("CLAWJOB_ALARM_{k}"), (*v).to_owned()));
        let faults = load(None, env.collect::<Vec<_>>().into_iter(), &[]);
        faults.map_err(|all| all.0.into_iter().map(|fault| fault.key).collect())
    }

    #[test]
    fn it_is_off_unless_asked_for() {
        let alarm = Config::default().alarm;
        assert!(!alarm.enabled && alarm.on_failure && !alarm.on_success);
        assert_eq!(alarm.faults(), []);
    }

    #[test]
    fn the_environment_sets_all_of_it() {
        let config = loaded(&[
            ("ENABLED", "true"),
            ("TYPE", "mail"),
            ("MAIL_TO", "a@example.com, b@example.com"),
            ("SMTP_HOST", "mail.example.com"),
            ("SMTP_FROM", "ClawJob <jobs@example.com>"),
            ("SMTP_USER", "jobs"),
            ("SMTP_PASSWORD", "s3cret"),
            ("SMTP_TLS", "implicit"),
        ])
        .expect("no faults");
        assert_eq!(config.alarm.mail_to, ["a@example.com", "b@example.com"]);
        assert_eq!(config.alarm.smtp.tls, SmtpTlsMode::Implicit);
        assert_eq!(config.alarm.smtp.secret().as_deref(), Ok("s3cret"));
        let shown = print(&config).expect("prints");
        assert!(!shown.contains("s3cret") && shown.contains("password: '***'"), "{shown}");
    }

    #[test]
    fn all_that_is_missing_is_told_at_once() {
        let keys = loaded(&[("ENABLED", "true"), ("TYPE", "mail"), ("SMTP_USER", "x")]);
        assert_eq!(keys.expect_err("faults"), ["alarm.mail_to", "alarm.smtp.host"]);
        let keys = loaded(&[
            ("ENABLED", "true"),
            ("WEBHOOK_URL", "http://169.254.169.254/"),
            ("ON_FAILURE", "false"),
            ("RUN_URL", "jobs.example.com"),
            ("MAIL_TO", "nobody"),
            ("SMTP_HOST", "h"),
            ("SMTP_USER", "x"),
            ("WEBHOOK_SECRET_FILE", "/nowhere/at/all"),
        ]);
        let wanted = [
            "alarm.on_failure",
            "alarm.mail_to",
            "alarm.webhook_url",
            "alarm.run_url",
            "alarm.smtp.from",
            "alarm.smtp.user",
            "alarm.webhook_secret_file",
        ];
        assert_eq!(keys.expect_err("faults"), wanted);
    }

    #[test]
    fn a_file_may_write_its_keys_with_dashes_and_keep_the_secret_elsewhere() {
        let dir = tempfile::tempdir().expect("a directory");
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "k3y\n").expect("written");
        let file = dir.path().join("clawjob.yaml");
        let text = format!(
            "alarm:\n  enabled: true\n  type: webhook\n  webhook-url: https://h/x\n  on-failure: \
             false\n  on-success: true\n  webhook-secret-file: {}\n",
            secret.display()
        );
        std::fs::write(&file, text).expect("written");
        let config = load(Some(&file), std::iter::empty(), &[]).expect("no faults");
        assert!(config.alarm.on_success && !config.alarm.on_failure);
        assert_eq!(config.alarm.signing_secret().as_deref(), Ok("k3y"));
    }
}
