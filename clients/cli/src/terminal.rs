//! The surroundings of a command: streams, environment variables, time zone; tests bring their own.

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, BufReader, IsTerminal as _, Read, Write},
    path::PathBuf,
};

use jiff::tz::TimeZone;

/// Where a command reads, writes and looks around.
pub struct Terminal {
    /// Answers.
    pub out: Box<dyn Write>,
    /// Errors, remarks and questions.
    pub err: Box<dyn Write>,
    /// Files given as `-`, and answers to questions.
    pub input: Box<dyn Read>,
    /// Whether a person can answer a question on `input`.
    pub interactive: bool,
    /// Whether states may be coloured.
    pub colour: bool,
    /// The environment variables.
    pub env: BTreeMap<String, String>,
    /// Where relative paths and `clawjob-data` are looked for.
    pub directory: PathBuf,
    /// The zone in which instants are shown and times without an offset are read.
    pub zone: TimeZone,
}

impl Terminal {
    /// Those of this process. Colours only on a terminal without `NO_COLOR`.
    pub fn of_process() -> Terminal {
        // `vars` would panic on a variable that is not UTF-8.
        let env: BTreeMap<_, _> = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let plain = env.get("NO_COLOR").is_some_and(|value| !value.is_empty());
        Terminal {
            out: Box::new(io::stdout()),
            err: Box::new(io::stderr()),
            input: Box::new(io::stdin()),
            interactive: io::stdin().is_terminal() && io::stderr().is_terminal(),
            colour: io::stdout().is_terminal() && !plain,
            env,
            directory: PathBuf::from("."),
            zone: TimeZone::system(),
        }
    }

    /// A variable that is set and not empty.
    pub(crate) fn var(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Asks a person for a yes; to be called on an interactive terminal only.
    ///
    /// # Errors
    /// A terminal that can't be written or read.
    pub(crate) fn confirms(&mut self, question: &str) -> io::Result<bool> {
        write!(self.err, "{question} [y/N] ")?;
        self.err.flush()?;
        let mut answer = String::new();
        BufReader::new(self.input.as_mut()).read_line(&mut answer)?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// A remark for the person at the terminal, kept out of the answer.
    pub(crate) fn remark(&mut self, text: &str) {
        // A closed stderr must not end the command.
        let _ = writeln!(self.err, "{text}");
    }
}
