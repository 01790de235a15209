//! Alarms by mail, over one SMTP server that the operator names.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use lettre::{
    Address, AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor,
    message::{Mailbox, header::ContentType},
    transport::smtp::{
        authentication::Credentials,
        client::{Tls, TlsParameters},
    },
};

use super::{Notice, SendFault};
use crate::model::alarm::{Mail, Secret};

/// How the connection to the mail server is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpTls {
    /// TLS from the first byte; port 465 by default.
    Implicit,
    /// Plain text that must change to TLS before anything is said; port 587 by default.
    StartTls,
    /// Plain text, for a relay on this machine or network; port 25 by default.
    None,
}

impl SmtpTls {
    fn port(self) -> u16 {
        match self {
            Self::Implicit => 465,
            Self::StartTls => 587,
            Self::None => 25,
        }
    }
}

/// The mail server.
#[derive(Clone, Debug)]
pub struct SmtpSettings {
    /// Its name; its certificate must be made out to it.
    pub host: String,
    /// Its port; None means the usual one.
    pub port: Option<u16>,
    /// How the connection is protected.
    pub tls: SmtpTls,
    /// User and password, when it asks for them.
    pub login: Option<(String, Secret)>,
    /// Who mails come from: an address, or `Name <address>`.
    pub from: String,
}

/// Whether the text is a mail address.
pub fn is_address(text: &str) -> bool {
    text.parse::<Address>().is_ok()
}

/// Sends mails, each over a connection of its own: alarms come seldom.
pub(super) struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl Mailer {
    pub(super) fn new(settings: SmtpSettings, timeout: Duration) -> Result<Self, String> {
        // Fails when the program has chosen a provider already; that one is used then.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let from: Mailbox =
            settings.from.parse().map_err(|fault| format!("alarm.smtp.from: {fault}"))?;
        let parameters = || {
            TlsParameters::new(settings.host.clone())
                .map_err(|fault| format!("alarm.smtp.tls: {fault}"))
        };
        let tls = match settings.tls {
            SmtpTls::Implicit => Tls::Wrapper(parameters()?),
            SmtpTls::StartTls => Tls::Required(parameters()?),
            SmtpTls::None => Tls::None,
        };
        let port = settings.port.unwrap_or(settings.tls.port());
        let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&settings.host)
            .port(port)
            .tls(tls)
            .timeout(Some(timeout));
        if let Some((user, password)) = settings.login {
            let login = Credentials::new(user, password.expose().to_owned());
            transport = transport.credentials(login);
        }
        Ok(Self { transport: transport.build(), from })
    }

    pub(super) async fn send(
        &self,
        mail: &Mail,
        notice: &Notice,
        link: &str,
        now: DateTime<Utc>,
    ) -> Result<(), SendFault> {
        let message = self.message(mail, notice, link, now).map_err(SendFault::refused)?;
        match self.transport.send(message).await {
            Ok(_) => Ok(()),
            Err(fault) if fault.is_permanent() || fault.is_transient() => {
                Err(SendFault::refused(format!("the mail server refused: {fault}")))
            }
            Err(fault) => Err(SendFault::unreachable(format!("the mail server: {fault}"))),
        }
    }

    fn message(
        &self,
        mail: &Mail,
        notice: &Notice,
        link: &str,
        now: DateTime<Utc>,
    ) -> Result<Message, String> {
        let mut message = Message::builder()
            .from(self.from.clone())
            .date(now.into())
            .subject(format!("[ClawJob] {}", notice.subject()))
            .header(ContentType::TEXT_PLAIN);
        if let Some(alarm) = notice.alarm {
            // The same for every repeat, so that mail programs show one.
            let domain = self.from.email.domain();
            message = message.message_id(Some(format!("<{alarm}.clawjob@{domain}>")));
        }
        for to in &mail.to {
            let address: Address = to.parse().map_err(|fault| format!("{to}: {fault}"))?;
            message = message.to(Mailbox::new(None, address));
        }
        message.body(text(notice, link)).map_err(|fault| fault.to_string())
    }
}

/// For people.
fn text(notice: &Notice, link: &str) -> String {
    let facts = &notice.facts;
    let instant = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Secs, true);
    let mut lines = vec![facts.message(), String::new()];
    let attempts = facts.attempts.to_string();
    for (name, value) in [
        ("Job", facts.job.as_str()),
        ("Name", &facts.job_display_name),
        ("Owner", &facts.owner),
        ("Run", &facts.run),
        ("State", &facts.state),
        ("Trigger", &facts.trigger),
        ("Attempts", &attempts),
        ("Fire time", &instant(facts.fire_time)),
        ("End time", &instant(facts.end_time)),
        ("Executor", &facts.executor),
        ("Rule", &notice.rule),
        ("Look at it", link),
    ] {
        if !value.is_empty() {
            lines.push(format!("{name}: {value}"));
        }
    }
    lines.push(String::new());
    lines.join("\r\n")
}
