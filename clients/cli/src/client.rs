//! The connection: endpoints tried in turn, the token, and repeats where they do no harm.

use std::{error::Error as _, fs, time::Duration};

use tonic::{
    Code, Request, Response, Status, TimeoutExpired,
    metadata::MetadataValue,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};
use tonic_types::StatusExt as _;

use clawjob_proto::v1::{
    alarm_service_client::AlarmServiceClient, calendar_service_client::CalendarServiceClient,
    cluster_service_client::ClusterServiceClient, fleet_service_client::FleetServiceClient,
    identity_service_client::IdentityServiceClient, job_service_client::JobServiceClient,
    run_service_client::RunServiceClient,
};

use crate::{
    args::ClientArgs,
    error::CliError,
    terminal::Terminal,
    time,
    token::{self, Token},
};

/// Where a server of this machine listens unless told otherwise.
pub(crate) const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:7700";
/// Time for TCP and TLS to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for an answer, unless the call asks the server to wait.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How often all endpoints are tried before giving up.
const ROUNDS_MAX: u32 = 3;
/// Wait before the second round; it doubles for the third.
const ROUND_PAUSE: Duration = Duration::from_millis(250);
/// The longest wait a server can ask for between two rounds.
const ROUND_PAUSE_MAX: Duration = Duration::from_secs(5);
/// HTTP/2 ping of a connection that is silent under a call, and the time for its answer: a server
/// that hangs gives way to the next endpoint after both.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(4));
/// Largest answer in bytes: a page of 1,000 jobs may carry 256 KiB of params each.
const ANSWER_BYTES_MAX: usize = 320 << 20;

/// What a repeat of a call would do, and how long an answer may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    repeatable: bool,
    timeout: Option<Duration>,
}

impl Call {
    /// Reads, and changes that a `request_id` or their nature makes safe to repeat.
    pub(crate) const SAFE: Call = Call { repeatable: true, timeout: Some(CALL_TIMEOUT) };
    /// A change whose repeat could differ: sent once, though other endpoints are tried to connect.
    pub(crate) const ONCE: Call = Call { repeatable: false, timeout: Some(CALL_TIMEOUT) };
    /// A stream: it lasts until its end.
    pub(crate) const STREAM: Call = Call { repeatable: true, timeout: None };

    /// A long poll that the server answers after `wait` at the latest.
    pub(crate) fn waiting(wait: Duration) -> Call {
        Call { repeatable: true, timeout: Some(wait + CALL_TIMEOUT) }
    }
}

/// A client of one ClawJob cluster.
pub(crate) struct Client {
    endpoints: Vec<Endpoint>,
    token: Option<Token>,
    current: usize,
    channel: Option<Channel>,
}

impl Client {
    /// Reads endpoints, token and certificate authority; connects only with the first call.
    ///
    /// # Errors
    /// All wrong settings at once.
    pub(crate) fn new(args: &ClientArgs, term: &Terminal) -> Result<Client, CliError> {
        let mut faults = Vec::new();
        let mut urls: Vec<String> = args.endpoints.iter().map(|url| url.trim().into()).collect();
        urls.retain(|url| !url.is_empty());
        if urls.is_empty() {
            urls.push(DEFAULT_ENDPOINT.into());
        }
        let authority = args.ca_file.as_ref().filter(|path| !path.as_os_str().is_empty());
        let authority = authority.and_then(|path| match fs::read(path) {
            Ok(pem) => Some(Certificate::from_pem(pem)),
            Err(e) => {
                faults.push(format!("--ca-file {}: {e}", path.display()));
                None
            }
        });
        let mut endpoints = Vec::new();
        for url in &urls {
            match endpoint(url, authority.as_ref()) {
                Ok(endpoint) => endpoints.push(endpoint),
                Err(fault) => faults.push(format!("--endpoint {url:?}: {fault}")),
            }
        }
        let local = endpoints.iter().all(|e| is_local(e.uri().host()));
        let token = token::find(args, term, local).unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
        if faults.is_empty() {
            Ok(Client { endpoints, token, current: 0, channel: None })
        } else {
            Err(CliError::Usage(faults))
        }
    }

    /// Calls one RPC and returns its message.
    ///
    /// # Errors
    /// [`CliError::Unreachable`] when no endpoint can be connected or answers, else the last status.
    pub(crate) async fn call<Q: Clone, A>(
        &mut self,
        call: Call,
        message: Q,
        rpc: impl AsyncFn(Channel, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, CliError> {
        let (mut last, mut refusals, mut wait) = (None, Vec::new(), ROUND_PAUSE);
        let (mut broke, mut slow) = (false, false);
        for round in 0..ROUNDS_MAX {
            // Who has let the whole time for an answer pass once is not asked for another.
            if slow {
                break;
            }
            if round > 0 {
                time::pause(wait).await;
                wait *= 2;
            }
            refusals.clear();
            last = None;
            for _ in 0..self.endpoints.len() {
                let channel = match self.connected().await {
                    Ok(channel) => channel,
                    Err(refusal) => {
                        refusals.push(refusal);
                        self.turn();
                        continue;
                    }
                };
                let status = match rpc(channel, self.request(message.clone(), call)).await {
                    Ok(answer) => return Ok(answer.into_inner()),
                    Err(status) => status,
                };
                let fault = Fault::of(&status);
                if fault != Fault::Answered {
                    broke |= fault == Fault::Broke;
                    slow |= fault == Fault::Slow;
                    refusals.push((self.url(), fault.told(&status, call)));
                } else if !call.repeatable || !is_transient(&status) {
                    return Err(self.refusal(status));
                }
                if !call.repeatable {
                    return Err(CliError::Unreachable { refusals, broke });
                }
                if let Some(asked) = asked_wait(&status) {
                    wait = asked.min(ROUND_PAUSE_MAX);
                }
                if fault == Fault::Answered {
                    last = Some(status);
                }
                self.turn();
            }
        }
        Err(last.map_or_else(|| CliError::Unreachable { refusals, broke }, CliError::from))
    }

    /// A server's error; one about the token says which that was: there may be one in the
    /// environment, one in a file and one named by a flag.
    fn refusal(&self, status: Status) -> CliError {
        if status.code() != Code::Unauthenticated {
            return status.into();
        }
        let found_in = self.token.as_ref().map(|token| token.source.clone());
        CliError::Unauthenticated { status: Box::new(status), found_in }
    }

    /// The endpoint whose turn it is.
    fn url(&self) -> String {
        self.endpoints[self.current].uri().to_string()
    }

    /// The open connection, or a new one to the current endpoint.
    async fn connected(&mut self) -> Result<Channel, (String, String)> {
        if let Some(channel) = &self.channel {
            return Ok(channel.clone());
        }
        let endpoint = &self.endpoints[self.current];
        let channel = endpoint.connect().await.map_err(|e| (self.url(), causes(&e)))?;
        self.channel = Some(channel.clone());
        Ok(channel)
    }

    /// Goes on to the next endpoint.
    fn turn(&mut self) {
        self.channel = None;
        self.current = (self.current + 1) % self.endpoints.len();
    }

    fn request<Q>(&self, message: Q, call: Call) -> Request<Q> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.header.clone());
        }
        let me = concat!("cli/", env!("CARGO_PKG_VERSION"));
        request.metadata_mut().insert("clawjob-client", MetadataValue::from_static(me));
        if let Some(timeout) = call.timeout {
            request.set_timeout(timeout);
        }
        request
    }
}

/// Who made a call's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The server.
    Answered,
    /// The connection, which ended under the call.
    Broke,
    /// The client, since the time for an answer has passed on a connection that lives.
    Slow,
}

impl Fault {
    fn of(status: &Status) -> Fault {
        let mut cause = status.source();
        if cause.is_none() {
            return Fault::Answered;
        }
        while let Some(source) = cause {
            if source.is::<TimeoutExpired>() {
                return Fault::Slow;
            }
            cause = source.source();
        }
        Fault::Broke
    }

    /// What became of the call.
    fn told(self, status: &Status, call: Call) -> String {
        let cause = match self {
            Fault::Slow => {
                format!("it gave no answer within {:?}", call.timeout.unwrap_or(CALL_TIMEOUT))
            }
            Fault::Answered | Fault::Broke => {
                let cause = status.source().map_or_else(|| status.to_string(), causes);
                format!("the connection broke, or the server does not answer ({cause})")
            }
        };
        if call.repeatable { cause } else { format!("{cause}; the change may have been made") }
    }
}

/// A new id under which a change may be sent twice and happens once.
pub(crate) fn request_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Whether the same call may succeed elsewhere or later, the connection's own faults included.
pub(crate) fn is_transient(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable => true,
        // tonic's name for a connection that broke under the call.
        Code::Unknown | Code::Cancelled => status.source().is_some(),
        _ => false,
    }
}

/// The wait that the server asks for.
fn asked_wait(status: &Status) -> Option<Duration> {
    status.get_details_retry_info().and_then(|info| info.retry_delay)
}

fn endpoint(url: &str, authority: Option<&Certificate>) -> Result<Endpoint, String> {
    let wanted = "write a URL such as http://127.0.0.1:7700 or https://jobs.example.com:7700";
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|e| format!("{e}; {wanted}"))?;
    let uri = endpoint.uri().clone();
    if uri.host().is_none_or(str::is_empty) || !matches!(uri.path(), "" | "/") {
        return Err(wanted.into());
    }
    let endpoint = endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE.0)
        .keep_alive_timeout(KEEPALIVE.1);
    match uri.scheme_str() {
        Some("http") => Ok(endpoint),
        Some("https") => {
            let tls = match authority {
                Some(authority) => ClientTlsConfig::new().ca_certificate(authority.clone()),
                None => ClientTlsConfig::new().with_native_roots(),
            };
            endpoint.tls_config(tls).map_err(|e| causes(&e))
        }
        _ => Err(wanted.into()),
    }
}

/// Whether a host names this machine.
fn is_local(host: Option<&str>) -> bool {
    let host = host.unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// An error with its causes in one line, each said once.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

macro_rules! service {
    ($(#[$doc:meta])* $name:ident, $client:ident) => {
        $(#[$doc])*
        pub(crate) fn $name(channel: Channel) -> $client<Channel> {
            $client::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX)
        }
    };
}
service!(
    /// JobService over a connection.
    jobs, JobServiceClient
);
service!(
    /// RunService over a connection.
    runs, RunServiceClient
);
service!(
    /// FleetService over a connection.
    fleet, FleetServiceClient
);
service!(
    /// AlarmService over a connection.
    alarms, AlarmServiceClient
);
service!(
    /// ClusterService over a connection.
    cluster, ClusterServiceClient
);
service!(
    /// CalendarService over a connection.
    calendars, CalendarServiceClient
);
service!(
    /// IdentityService over a connection.
    identity, IdentityServiceClient
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_servers_are_endpoints() {
        assert!(endpoint("http://127.0.0.1:7700", None).is_ok());
        assert!(endpoint("http://127.0.0.1:7700/", None).is_ok());
        for url in ["127.0.0.1:7700", "ftp://host", "http://host/path", "", "http://", "a b"] {
            assert!(endpoint(url, None).is_err(), "{url}");
        }
    }

    #[test]
    fn loopback_hosts_are_local() {
        for host in ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"] {
            assert!(is_local(Some(host)), "{host}");
        }
        for host in ["example.com", "10.0.0.1", "0.0.0.0"] {
            assert!(!is_local(Some(host)), "{host}");
        }
    }
}
