//! Opening a session: connection, credentials, Hello and Welcome.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clawjob_proto::v1::{
    SessionResponse, Welcome, close, executor_service_client::ExecutorServiceClient,
    session_response::Frame,
};
use tokio::io::AsyncReadExt as _;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};
use tonic_types::StatusExt as _;

use super::outbox::Outbox;
use crate::config::{Checked, Token};
use crate::error::Error;

/// Longest time for TCP and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time from Hello to Welcome.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// HTTP/2 pings, also without traffic.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// Longest time for the answer to a ping.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest message taken, in bytes: above the contract's bound of 1 MiB, so that a raised bound
/// on the other side does not end the session.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest token; more is surely another file.
const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Reason of a refusal for a protocol version that is not spoken.
const VERSION_UNSUPPORTED: &str = "PROTOCOL_VERSION_UNSUPPORTED";

/// How long to wait before the token's file is looked at again when it could not be used: somebody
/// has to put it there.
const TOKEN_FILE_WAIT: Duration = Duration::from_secs(5);

/// A connection, with the credential that its session is to be opened with.
pub(super) struct Connection {
    channel: Channel,
    bearer: Option<MetadataValue<Ascii>>,
    /// Where the credential was found.
    source: Option<String>,
}

/// A session that a Welcome has opened.
pub(super) struct Opened {
    pub(super) welcome: Welcome,
    pub(super) inbound: Streaming<SessionResponse>,
}

/// Why a dial came to nothing, or a session ended.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) message: String,
    /// Trying again cannot help.
    pub(super) permanent: Option<Error>,
    /// The scheduler asks for this wait.
    pub(super) retry_after: Option<Duration>,
}

impl Fault {
    pub(super) fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), permanent: None, retry_after: None }
    }

    /// The token can't be used, and only somebody at this machine can change that.
    fn of_token(message: String) -> Self {
        Self { message, permanent: None, retry_after: Some(TOKEN_FILE_WAIT) }
    }

    /// Judges a status: five codes are for good, everything else may pass.
    pub(super) fn of(status: &Status) -> Self {
        let details = status.get_error_details();
        let reason = details.error_info().map(|info| info.reason.as_str());
        let hint = match status.code() {
            Code::Unauthenticated => "; check CLAWJOB_TOKEN or CLAWJOB_TOKEN_FILE",
            Code::PermissionDenied => "; the token is not for this app, executor id or handler",
            Code::InvalidArgument => "; the settings of the executor are not accepted",
            Code::Unimplemented => "; the address answers, but is no ClawJob scheduler",
            Code::FailedPrecondition if matches!(reason, None | Some(VERSION_UNSUPPORTED)) => {
                "; update the executor or the scheduler"
            }
            _ => {
                let message = match source_chain(status) {
                    Some(cause) => format!("{:?}: {}: {cause}", status.code(), status.message()),
                    None => format!("{:?}: {}", status.code(), status.message()),
                };
                let retry_after = details.retry_info().and_then(|info| info.retry_delay);
                return Self { message, permanent: None, retry_after };
            }
        };
        let code = format!("{:?}", status.code());
        let message = status.message().to_owned();
        let permanent = Error::Refused { code, message, hint: hint.to_owned() };
        Self { message: permanent.to_string(), permanent: Some(permanent), retry_after: None }
    }

    /// Says in a refusal of the credential which one that was: there may be one in the environment,
    /// one in a file and one in code.
    fn naming(mut self, source: Option<&str>) -> Self {
        if let Some(Error::Refused { code, hint, .. }) = &mut self.permanent
            && ["Unauthenticated", "PermissionDenied"].contains(&code.as_str())
        {
            match source {
                Some(source) => *hint += &format!("; the token used was that of {source}"),
                None => *hint += "; no token was given",
            }
        }
        if let Some(permanent) = &self.permanent {
            self.message = permanent.to_string();
        }
        self
    }

    /// Judges a Close frame. Errors and a peer that found this one unresponsive may pass whatever
    /// the frame says; the other reasons are for good unless it says otherwise.
    pub(super) fn of_close(close: &clawjob_proto::v1::Close) -> Self {
        let reason = close::Reason::try_from(close.reason).unwrap_or(close::Reason::Error);
        let message = format!("closed by the scheduler ({reason:?}): {}", close.message);
        let permanent = match reason {
            _ if close.reconnect => None,
            close::Reason::Superseded => Some(Error::Superseded(close.message.clone())),
            close::Reason::Revoked | close::Reason::Protocol => Some(Error::Refused {
                code: format!("{reason:?}"),
                message: close.message.clone(),
                hint: String::new(),
            }),
            close::Reason::Unspecified | close::Reason::Error | close::Reason::Unresponsive => None,
        };
        Self { message, permanent, retry_after: None }
    }
}

fn source_chain(error: &dyn std::error::Error) -> Option<String> {
    let mut last = error.source()?;
    while let Some(deeper) = last.source() {
        last = deeper;
    }
    Some(last.to_string())
}

/// Connects to one endpoint. Each session has a connection of its own, since unread streams would
/// fill a shared one's window. The token is read first: without one there is no use in dialing.
pub(super) async fn connect(settings: &Checked, endpoint: &str) -> Result<Connection, Fault> {
    let bearer = read_token(settings.token.as_ref()).await?;
    let channel = open_channel(settings, endpoint).await?;
    let source = settings.token.as_ref().map(Token::source);
    Ok(Connection { channel, bearer, source })
}

async fn open_channel(settings: &Checked, endpoint: &str) -> Result<Channel, Fault> {
    let transient = |e: tonic::transport::Error| {
        Fault::transient(source_chain(&e).unwrap_or_else(|| e.to_string()))
    };
    let mut target = Endpoint::from_shared(endpoint.to_owned())
        .map_err(transient)?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true);
    if endpoint.starts_with("https") {
        let mut tls = ClientTlsConfig::new();
        tls = match &settings.ca {
            Some(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
            None => tls.with_native_roots(),
        };
        if let Some(identity) = &settings.identity {
            tls = tls.identity(Identity::from_pem(&identity.certificate, &identity.key));
        }
        target = target.tls_config(tls).map_err(transient)?;
    }
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, target.connect());
    match connecting.await {
        Ok(connected) => connected.map_err(transient),
        Err(_) => Err(Fault::transient(format!("no connection within {CONNECT_TIMEOUT:?}"))),
    }
}

/// Opens the session over a connection. The Hello is in the outbox already: a server may want to
/// read it before it answers with headers.
pub(super) async fn open(connection: Connection, outbox: &Arc<Outbox>) -> Result<Opened, Fault> {
    let Connection { channel, bearer, source } = connection;
    let mut request = Request::new(outbox.stream());
    let client = concat!("rust/", env!("CARGO_PKG_VERSION"));
    request.metadata_mut().insert("clawjob-client", MetadataValue::from_static(client));
    if let Some(bearer) = bearer {
        request.metadata_mut().insert("authorization", bearer);
    }
    let mut client =
        ExecutorServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let refused = |status: Status| Fault::of(&status).naming(source.as_deref());
    let opening = async move {
        let mut inbound = client.session(request).await.map_err(refused)?.into_inner();
        loop {
            let response = inbound.message().await.map_err(refused)?;
            match response.map(|response| response.frame) {
                Some(Some(Frame::Welcome(welcome))) => return Ok(Opened { welcome, inbound }),
                Some(Some(Frame::Close(close))) => return Err(Fault::of_close(&close)),
                // A frame of a later contract, or one that makes no sense yet.
                Some(_) => {}
                None => return Err(Fault::transient("the stream ended before a Welcome")),
            }
        }
    };
    match tokio::time::timeout(WELCOME_TIMEOUT, opening).await {
        Ok(opened) => opened,
        Err(_) => Err(Fault::transient(format!("no Welcome within {WELCOME_TIMEOUT:?}"))),
    }
}

/// The beginning of a file, which is all of it if a token is what it holds.
async fn beginning(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let file = tokio::fs::File::open(path).await?;
    file.take(2 * TOKEN_BYTES_MAX as u64).read_to_string(&mut text).await?;
    Ok(text)
}

async fn read_token(token: Option<&Token>) -> Result<Option<MetadataValue<Ascii>>, Fault> {
    let text = match token {
        None => return Ok(None),
        Some(Token::Text(text, _)) => text.clone(),
        Some(Token::File(path)) => {
            let file = path.display();
            match beginning(path).await.map(|text| text.trim().to_owned()) {
                Ok(text) if text.is_empty() => {
                    return Err(Fault::of_token(format!("the token file {file} is empty")));
                }
                Ok(text) if text.len() > TOKEN_BYTES_MAX => {
                    let text = format!("the token file {file} is longer than any token");
                    return Err(Fault::of_token(text));
                }
                Ok(text) => text,
                Err(error) => {
                    let text = format!("the token file {file} cannot be read: {error}");
                    return Err(Fault::of_token(text));
                }
            }
        }
    };
    let mut value = MetadataValue::try_from(format!("Bearer {text}")).map_err(|_| {
        Fault::of_token("the token has characters that a header cannot carry".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::ErrorDetails;

    /// Settings that dial `endpoint` with the token of a file.
    fn with_token_file(endpoint: &str, path: &Path) -> Checked {
        let settings = crate::config::Settings {
            endpoints: Some(vec![endpoint.to_owned()]),
            token: Some(Token::File(path.to_owned())),
            app: Some("demo".to_owned()),
            ..Default::default()
        };
        settings.check(Vec::new()).unwrap()
    }

    #[tokio::test]
    async fn without_a_usable_token_nothing_is_dialed_and_the_file_is_given_time() {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        nobody.set_nonblocking(true).unwrap();
        let endpoint = format!("http://{}", nobody.local_addr().unwrap());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let settings = with_token_file(&endpoint, &path);
        let long = "x".repeat(3 * TOKEN_BYTES_MAX);
        for (content, part) in [
            (None, "cannot be read"),
            (Some(" \n"), "is empty"),
            (Some(long.as_str()), "is longer than any token"),
        ] {
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let Err(fault) = connect(&settings, &endpoint).await else { panic!("no fault") };
            assert!(fault.message.contains(path.to_str().unwrap()), "{}", fault.message);
            assert!(fault.message.contains(part), "{}", fault.message);
            assert!(fault.permanent.is_none());
            assert_eq!(fault.retry_after, Some(TOKEN_FILE_WAIT));
        }
        assert!(nobody.accept().is_err(), "nothing was dialed");
    }

    #[test]
    fn c34_c35_only_the_named_codes_are_for_good() {
        let permanent = [
            Code::Unauthenticated,
            Code::PermissionDenied,
            Code::InvalidArgument,
            Code::FailedPrecondition,
            Code::Unimplemented,
        ];
        for code in (0..=16).map(Code::from_i32) {
            let fault = Fault::of(&Status::new(code, "x"));
            assert_eq!(fault.permanent.is_some(), permanent.contains(&code), "{code:?}");
        }
    }

    #[test]
    fn a_refused_token_is_named_by_where_it_was_found() {
        let refused = |token: Option<Token>| {
            let source = token.as_ref().map(Token::source);
            Fault::of(&Status::unauthenticated("unknown")).naming(source.as_deref()).message
        };
        let of_file = refused(Some(Token::File("/etc/clawjob/token".into())));
        assert!(of_file.ends_with("that of the file /etc/clawjob/token"), "{of_file}");
        let of_text = refused(Some(Token::Text("s3cret".to_owned(), "CLAWJOB_TOKEN")));
        assert!(of_text.ends_with("that of CLAWJOB_TOKEN"), "{of_text}");
        assert!(!of_text.contains("s3cret"), "{of_text}");
        assert!(refused(None).ends_with("no token was given"));
    }

    #[test]
    fn a_failed_precondition_of_another_reason_may_pass() {
        for (reason, permanent) in [(VERSION_UNSUPPORTED, true), ("NODE_NOT_READY", false)] {
            let details = ErrorDetails::with_error_info(
                reason,
                "clawjob.dev",
                std::collections::HashMap::<String, String>::new(),
            );
            let status = Status::with_error_details(Code::FailedPrecondition, "x", details);
            assert_eq!(Fault::of(&status).permanent.is_some(), permanent);
        }
    }

    #[test]
    fn the_wait_that_the_scheduler_asks_for_is_kept() {
        let details = ErrorDetails::with_retry_info(Some(Duration::from_secs(4)));
        let status = Status::with_error_details(Code::ResourceExhausted, "x", details);
        assert_eq!(Fault::of(&status).retry_after, Some(Duration::from_secs(4)));
    }

    #[test]
    fn closes_are_for_good_by_reason() {
        use close::Reason;
        for (reason, reconnect, permanent) in [
            (Reason::Error, false, false),
            (Reason::Unresponsive, false, false),
            (Reason::Superseded, false, true),
            (Reason::Superseded, true, false),
            (Reason::Revoked, false, true),
            (Reason::Protocol, false, true),
        ] {
            let close = clawjob_proto::v1::Close {
                reason: reason.into(),
                message: String::new(),
                reconnect,
            };
            assert_eq!(Fault::of_close(&close).permanent.is_some(), permanent, "{reason:?}");
        }
    }
}
