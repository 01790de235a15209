//! Very many executors in a process of their own. They speak the contract frame by frame and do
//! nothing with a run but count it and answer, so that what is measured is the scheduler.
//!
//! `clawjob-bench swarm` is that process; [`Swarm`] is how a measurement starts and asks it.

mod session;
mod tally;

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use tally::Tally;
pub use tally::{Lap, Report};

/// How often a measurement looks how far the swarm is.
const LOOK: Duration = Duration::from_millis(100);

/// What a swarm is to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Where to dial; executors are spread over them by turns.
    pub endpoints: Vec<String>,
    /// A token for executors of the app.
    pub token: String,
    /// Their app.
    pub app: String,
    /// How many executors.
    pub executors: u32,
    /// Slots of each.
    pub slots: u32,
}

/// What an executor needs of its process.
struct Shared {
    plan: Plan,
    tally: Mutex<Tally>,
    connected: AtomicU32,
}

impl Shared {
    fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The process: reads its plan and then orders, a line each, and ends with its standard input.
///
/// # Errors
/// The plan is none, or standard output is gone.
pub fn run() -> Result<()> {
    let mut lines = std::io::stdin().lines();
    let plan: Plan = serde_json::from_str(&lines.next().context("no plan came")??)?;
    let executors = plan.executors;
    let (tally, connected) = (Mutex::new(Tally::new()?), AtomicU32::new(0));
    let shared = Arc::new(Shared { plan, tally, connected });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let serving = shared.clone();
    // On a thread of its own: reading orders blocks, and a measurement has just one reader.
    std::thread::spawn(move || {
        runtime.block_on(async move {
            for number in 0..executors {
                tokio::spawn(session::serve(serving.clone(), number));
            }
            std::future::pending::<()>().await;
        });
    });
    let mut out = std::io::stdout();
    for line in lines {
        match line?.as_str() {
            "report" => {
                let report = shared.tally().report(shared.connected.load(Ordering::Relaxed));
                writeln!(out, "{}", serde_json::to_string(&report)?)?;
            }
            "lap" => {
                let lap = shared.tally().lap();
                writeln!(out, "{}", serde_json::to_string(&lap)?)?;
            }
            other => bail!("no such order: {other}"),
        }
    }
    Ok(())
}

/// A swarm in another process.
pub struct Swarm {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    executors: u32,
}

impl Swarm {
    /// Starts one. Its executors dial at once.
    ///
    /// # Errors
    /// The process does not start.
    pub fn start(plan: &Plan) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("swarm").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("starting the swarm")?;
        let mut stdin = child.stdin.take().context("its input is piped")?;
        let lines = BufReader::new(child.stdout.take().context("its output is piped")?).lines();
        writeln!(stdin, "{}", serde_json::to_string(plan)?)?;
        Ok(Self { child, stdin, lines, executors: plan.executors })
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has seen so far.
    ///
    /// # Errors
    /// It is gone.
    pub fn report(&mut self) -> Result<Report> {
        Ok(serde_json::from_str(&self.ask("report")?)?)
    }

    /// What it has seen since the last lap.
    ///
    /// # Errors
    /// It is gone.
    pub fn lap(&mut self) -> Result<Lap> {
        Ok(serde_json::from_str(&self.ask("lap")?)?)
    }

    fn ask(&mut self, order: &str) -> Result<String> {
        writeln!(self.stdin, "{order}")?;
        Ok(self.lines.next().context("the swarm is gone")??)
    }

    /// Waits until the report is as wanted.
    ///
    /// # Errors
    /// It is not within `limit`.
    pub async fn wait(
        &mut self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&Report) -> bool,
    ) -> Result<Report> {
        let until = Instant::now() + limit;
        loop {
            let report = self.report()?;
            if wanted(&report) {
                return Ok(report);
            }
            if Instant::now() > until {
                bail!("{what}: not within {limit:?}; the swarm has seen {report:?}");
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until all executors have a session.
    ///
    /// # Errors
    /// They have none within `limit`.
    pub async fn connected(&mut self, limit: Duration) -> Result<Report> {
        let executors = self.executors;
        self.wait("all connected", limit, |report| report.connected == executors).await
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
