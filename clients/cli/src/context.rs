//! What every command works with.

use crate::{
    args::{ClientArgs, OutputFormat},
    client::Client,
    error::CliError,
    names::{self, Kind},
    terminal::Terminal,
};

/// The connection, the terminal and the common flags.
pub(crate) struct Context<'a> {
    /// The server.
    pub(crate) client: Client,
    /// Where answers go.
    pub(crate) term: &'a mut Terminal,
    /// How they are printed.
    pub(crate) format: OutputFormat,
    /// The app of short names and lists, when one was named.
    pub(crate) app: Option<String>,
}

impl<'a> Context<'a> {
    /// # Errors
    /// All wrong settings at once.
    pub(crate) fn new(args: &ClientArgs, term: &'a mut Terminal) -> Result<Context<'a>, CliError> {
        let app = args.app.clone().filter(|app| !app.is_empty() && app != "-");
        let client = Client::new(args, term);
        let app = app.map(|app| names::app_id(&app).map(String::from)).transpose();
        match (client, app) {
            (Ok(client), Ok(app)) => Ok(Context { client, term, format: args.output, app }),
            (Err(CliError::Usage(mut faults)), Err(e)) => {
                faults.push(e.to_string());
                Err(CliError::Usage(faults))
            }
            (Err(e), _) | (_, Err(e)) => Err(e),
        }
    }

    /// The full name for what the user wrote.
    ///
    /// # Errors
    /// See [`names::full`].
    pub(crate) fn name(&self, kind: Kind, text: &str) -> Result<String, CliError> {
        names::full(kind, text, self.app.as_deref())
    }

    /// The parent of lists.
    pub(crate) fn parent(&self) -> String {
        match &self.app {
            Some(app) => format!("apps/{app}"),
            None => names::ALL_APPS.into(),
        }
    }

    /// Says that something was done, in the table format only: JSON and YAML print the answer.
    ///
    /// # Errors
    /// An output that cannot be written.
    pub(crate) fn done(&mut self, text: &str) -> Result<(), CliError> {
        use std::io::Write as _;
        match self.format {
            OutputFormat::Table => writeln!(self.term.out, "{text}")?,
            // What google.protobuf.Empty is in JSON.
            _ => writeln!(self.term.out, "{{}}")?,
        }
        Ok(())
    }
}
