//! Where a scheduler's time goes, as a flame graph: its stacks are sampled by perf, and inferno's
//! programs draw them. No event of the processor is needed, so it works in virtual machines too.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

/// Stacks a second and thread; odd, so that nothing periodic is met at the same point each time.
const SAMPLES_PER_SECOND: &str = "99";
/// Bytes of a stack that are kept with each sample: tasks within tasks go deep.
const STACK_BYTES: &str = "dwarf,32768";

/// Samples that are being taken.
pub struct Profile {
    perf: Child,
    svg: PathBuf,
    dir: TempDir,
}

impl Profile {
    /// Begins with all threads of the process.
    ///
    /// # Errors
    /// perf or inferno is not here.
    pub fn start(pid: u32, svg: &Path) -> Result<Self> {
        for (program, remedy) in [
            ("perf", "Debian: apt-get install linux-perf"),
            ("inferno-collapse-perf", "cargo install inferno"),
            ("inferno-flamegraph", "cargo install inferno"),
        ] {
            let mut asked = Command::new(program);
            asked.arg("--help").stdout(Stdio::null()).stderr(Stdio::null());
            asked.status().with_context(|| format!("no {program} here: {remedy}"))?;
        }
        let dir = tempfile::tempdir()?;
        let perf = Command::new("perf")
            .args(["record", "--quiet", "--event", "cpu-clock", "--freq", SAMPLES_PER_SECOND])
            .args(["--call-graph", STACK_BYTES, "--pid", &pid.to_string(), "--output"])
            .arg(data(&dir))
            .stdout(Stdio::null())
            .spawn()
            .context("starting perf")?;
        Ok(Self { perf, svg: svg.to_path_buf(), dir })
    }

    /// Ends and draws.
    ///
    /// # Errors
    /// perf took no samples, or the picture can't be written.
    pub fn stop(mut self) -> Result<()> {
        kill(Pid::from_raw(self.perf.id().cast_signed()), Signal::SIGINT)?;
        self.perf.wait()?;
        let mut script = Command::new("perf")
            .args(["script", "--no-inline", "--input"])
            .arg(data(&self.dir))
            .stdout(Stdio::piped())
            .spawn()?;
        let stacks = script.stdout.take().context("its output is piped")?;
        let mut collapse =
            Command::new("inferno-collapse-perf").stdin(stacks).stdout(Stdio::piped()).spawn()?;
        let collapsed = collapse.stdout.take().context("its output is piped")?;
        let drawn = Command::new("inferno-flamegraph")
            .args(["--title", "CPU of the scheduler", "--minwidth", "0.3"])
            .stdin(collapsed)
            .stdout(File::create(&self.svg)?)
            .status()?;
        let (scripted, collapsed) = (script.wait()?, collapse.wait()?);
        if !(scripted.success() && collapsed.success() && drawn.success()) {
            bail!("perf script: {scripted}, collapse: {collapsed}, flame graph: {drawn}");
        }
        println!("flame graph: {}", self.svg.display());
        Ok(())
    }
}

fn data(dir: &TempDir) -> PathBuf {
    dir.path().join("perf.data")
}
