//! Processes of a run that left their command's group, as those do that a script starts with
//! `setsid`: found by what the command's environment says of the run, which they inherit.

use nix::sys::signal::Signal;

/// Lines of an environment, `NAME=VALUE`, that all processes of one attempt have and no others.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks(Vec<Vec<u8>>);

impl Marks {
    /// The marks of an attempt; `lines` are in the environment of its command.
    pub(super) fn new(lines: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let line = |(name, value)| format!("{name}={value}").into_bytes();
        Self(lines.into_iter().map(line).collect())
    }

    /// True when the environment is one of the attempt's.
    #[cfg(any(target_os = "linux", test))]
    fn are_in(&self, environment: &[u8]) -> bool {
        let has = |mark: &Vec<u8>| environment.split(|byte| *byte == 0).any(|line| line == mark);
        !self.0.is_empty() && self.0.iter().all(has)
    }
}

/// Asks the processes of the attempt to end.
pub(super) fn ask(marks: &Marks) {
    signal(marks, Signal::SIGTERM);
}

/// Kills the processes of the attempt, those included that come into being meanwhile.
pub(super) fn kill(marks: &Marks) {
    /// One that starts others while it is looked for is met by a later round.
    const ROUNDS_MAX: usize = 32;
    for _ in 0..ROUNDS_MAX {
        if signal(marks, Signal::SIGKILL) == 0 {
            return;
        }
    }
    tracing::warn!("processes of a stopped command go on making new ones");
}

/// Sends a signal to each process of the attempt; how many there were.
#[cfg(target_os = "linux")]
fn signal(marks: &Marks, signal: Signal) -> usize {
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    let own = nix::unistd::getpid();
    let mut found = 0;
    for process in processes.flatten() {
        let id = process.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(id) = id.map(nix::unistd::Pid::from_raw).filter(|id| *id != own) else { continue };
        // Those of others can't be read, and have nothing to do with the attempt.
        let Ok(environment) = std::fs::read(process.path().join("environ")) else { continue };
        if marks.are_in(&environment) && nix::sys::signal::kill(id, signal).is_ok() {
            found += 1;
        }
    }
    found
}

/// Elsewhere the group is all that can be found.
#[cfg(not(target_os = "linux"))]
fn signal(_: &Marks, _: Signal) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_environment_with_every_mark_is_the_attempts() {
        let marks = Marks::new([("RUN", "7".to_owned()), ("ATTEMPT", "1".to_owned())]);
        assert!(marks.are_in(b"PATH=/bin\0ATTEMPT=1\0RUN=7\0"));
        for other in [&b""[..], b"RUN=7\0", b"RUN=77\0ATTEMPT=1\0", b"XRUN=7\0ATTEMPT=1\0"] {
            assert!(!marks.are_in(other), "{other:?}");
        }
        assert!(!Marks::default().are_in(b"RUN=7\0"));
    }
}
