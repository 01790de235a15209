//! The executor: settings, handlers, and the run until the end.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::config::{ClientIdentity, Reconnect, Settings, Token};
use crate::ctx::Ctx;
use crate::error::{ConfigError, Error};
use crate::failure::Failure;
use crate::handle::{Handle, Stop};
use crate::handler::{Entry, HandlerOptions, Registry};
use crate::session;

/// A program that offers handlers to an app. See the crate's front page for a whole one.
#[derive(Clone)]
#[must_use = "an executor does nothing until it runs"]
pub struct Executor {
    settings: Settings,
    registry: Registry,
    handle: Handle,
}

impl Executor {
    /// Takes the connection's settings from the environment: `CLAWJOB_ENDPOINTS` (URLs, separated
    /// by commas; `http://127.0.0.1:7700` when unset), `CLAWJOB_TOKEN` or `CLAWJOB_TOKEN_FILE`,
    /// `CLAWJOB_APP`, `CLAWJOB_EXECUTOR_ID` (the host's name and six random characters when
    /// unset) and `CLAWJOB_CA_FILE`. Settings made in code afterwards win.
    ///
    /// # Errors
    /// Every variable whose value cannot be used, all at once. What is missing altogether is
    /// reported by [`Executor::run`], since code may still set it.
    pub fn from_env() -> Result<Self, ConfigError> {
        Ok(Self::with(Settings::from_env(|name| std::env::var(name))?))
    }

    /// Starts from the defaults, without a look at the environment.
    pub fn builder() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        Self { settings, registry: Registry::default(), handle: Handle::new() }
    }

    /// The schedulers to dial: `http://host:port` or `https://host:port`, at least one.
    pub fn endpoints<U: Into<String>>(mut self, urls: impl IntoIterator<Item = U>) -> Self {
        self.settings.endpoints = Some(urls.into_iter().map(Into::into).collect());
        self
    }

    /// The bearer token.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.settings.token = Some(Token::Text(token.into(), "Executor::token"));
        self
    }

    /// A file with the bearer token, read anew at each dial so that it can be rotated.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.token = Some(Token::File(path.into()));
        self
    }

    /// The app this executor serves.
    pub fn app(mut self, app: impl Into<String>) -> Self {
        self.settings.app = Some(app.into());
        self
    }

    /// The executor's name, unique in its app.
    pub fn executor_id(mut self, id: impl Into<String>) -> Self {
        self.settings.executor_id = Some(id.into());
        self
    }

    /// PEM file with the authority that signed the scheduler's certificate; the system's own when
    /// not set.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.ca_file = Some(path.into());
        self
    }

    /// A client certificate for mutual TLS.
    pub fn client_identity(mut self, identity: ClientIdentity) -> Self {
        self.settings.identity = Some(identity);
        self
    }

    /// How many runs at once; at least 1, 10 when not set.
    pub fn slots(mut self, slots: u32) -> Self {
        self.settings.slots = Some(slots);
        self
    }

    /// A label that jobs can ask for.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.labels.insert(key.into(), value.into());
        self
    }

    /// How long the end waits for running handlers before it tells them to stop; 25 s when not
    /// set. Up to 5 s for stopping and for the last acknowledgements come on top.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.settings.shutdown_grace = Some(grace);
        self
    }

    /// How long to wait between attempts to connect.
    pub fn reconnect(mut self, reconnect: Reconnect) -> Self {
        self.settings.reconnect = reconnect;
        self
    }

    /// Goes on trying every 30 s when the scheduler refuses for good (a wrong token, say), rather
    /// than to end with that error.
    pub fn keep_trying_when_refused(mut self, keep_trying: bool) -> Self {
        self.settings.keep_trying = keep_trying;
        self
    }

    /// Offers a handler: an async function of its params and a [`Ctx`]. The params are read from
    /// JSON by serde, and their JSON Schema is shown in the console; a run whose params do not
    /// fit is refused before it starts. The output is written as JSON; `()` leaves none.
    pub fn handler<P, O, E, F, Fut>(self, name: &str, function: F) -> Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
        F: Fn(P, Ctx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.handler_with(name, HandlerOptions::new(), function)
    }

    /// As [`Executor::handler`], with options.
    pub fn handler_with<P, O, E, F, Fut>(
        mut self,
        name: &str,
        options: HandlerOptions,
        function: F,
    ) -> Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
        F: Fn(P, Ctx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.registry.add(Entry::new(name, options, function));
        self
    }

    /// A way to watch and to end this executor from elsewhere.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs until SIGTERM or SIGINT. The first drains: nothing new is taken, running handlers may
    /// finish. The second tells them to stop at once. Without a scheduler it goes on dialing.
    ///
    /// The end is bounded: the shutdown grace and 5 s. A handler that blocks its thread still holds
    /// up the end of tokio's runtime after that, so a program with such handlers should call
    /// [`std::process::exit`] next.
    ///
    /// # Errors
    /// Settings that cannot be used, or a scheduler that refuses this executor for good.
    pub async fn run(self) -> Result<(), Error> {
        self.start(true).await
    }

    /// As [`Executor::run`], but drains when `shutdown` resolves and leaves signals alone.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub async fn run_until(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), Error> {
        let handle = self.handle.clone();
        let run = self.start(false);
        tokio::pin!(run, shutdown);
        tokio::select! {
            ended = &mut run => return ended,
            () = &mut shutdown => handle.drain(),
        }
        run.await
    }

    async fn start(self, signals: bool) -> Result<(), Error> {
        let mut faults = self.registry.faults();
        let limits = self.limits();
        faults.extend(self.settings.labels.keys().filter(|key| key.is_empty()).map(|_| {
            crate::error::Fault {
                field: "label".to_owned(),
                message: "a label has an empty key; name it".to_owned(),
            }
        }));
        let settings = self.settings.check(faults)?;
        let (done, ended) = oneshot::channel();
        let guard = AbortOnDrop(self.handle.clone());
        session::spawn(session::Start {
            settings,
            limits,
            registry: self.registry,
            handle: self.handle,
            runtime: tokio::runtime::Handle::current(),
            signals,
            done,
        })?;
        let result = ended.await.unwrap_or_else(|_| {
            Err(Error::Thread("it ended without saying why; see the log above".to_owned()))
        });
        drop(guard);
        result
    }

    fn limits(&self) -> BTreeMap<String, u32> {
        let limit = |entry: &Entry| (entry.name.clone(), entry.options.max());
        self.registry.iter().map(limit).collect()
    }
}

/// Ends the session's thread when the future that waits for it is dropped.
struct AbortOnDrop(Handle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.ask(Stop::Abort);
    }
}
