//! A command in a process group of its own, so that it can be ended with all it has started.

use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use super::strays::{self, Marks};
use crate::time;

/// A running command. Dropping it kills its group, and what has left the group.
pub(super) struct Group {
    child: Child,
    id: Option<Pid>,
    marks: Marks,
}

impl Group {
    /// Starts the command as the leader of a new group. Its environment has the marks.
    ///
    /// # Errors
    /// The system's, such as a program that is not there.
    pub(super) fn spawn(command: &mut Command, marks: Marks) -> std::io::Result<Self> {
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        Ok(Self { child, id, marks })
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for the leader's end; what it has started in its group ends with it.
    ///
    /// # Errors
    /// The system's.
    pub(super) async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.kill();
        Ok(status)
    }

    /// Asks all processes of the command to end, and kills those that have not when the leader has
    /// ended or `grace` is over.
    ///
    /// # Errors
    /// The system's.
    pub(super) async fn stop(&mut self, grace: Duration) -> std::io::Result<ExitStatus> {
        self.signal(Signal::SIGTERM);
        self.to_strays(strays::ask).await;
        let status = tokio::select! {
            status = self.child.wait() => status,
            () = time::sleep(grace) => {
                self.signal(Signal::SIGKILL);
                self.child.wait().await
            }
        };
        self.kill();
        self.to_strays(strays::kill).await;
        status
    }

    /// Looking through all processes is no work for the threads that handlers share.
    async fn to_strays(&self, act: fn(&Marks)) {
        let marks = self.marks.clone();
        if tokio::task::spawn_blocking(move || act(&marks)).await.is_err() {
            tracing::warn!("processes that left the command's group were not looked for");
        }
    }

    fn signal(&self, signal: Signal) {
        match self.id.map(|id| killpg(id, signal)) {
            // No such group: all of it has ended.
            None | Some(Ok(()) | Err(Errno::ESRCH)) => {}
            Some(Err(error)) => tracing::warn!(%error, %signal, "cannot signal the command"),
        }
    }

    /// Kills what is left of the group, once: its number may be given to others afterwards.
    fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.id = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.id.is_none() {
            return;
        }
        // Abandoned in the middle: the handler was dropped, or the agent ends.
        self.kill();
        strays::kill(&self.marks);
    }
}
