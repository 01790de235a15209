//! Where a scheduler's time goes, as a flame graph: its stacks are sampled by perf, and inferno's
//! programs draw them. No event of the processor is needed, so it works in virtual machines too.

use std::{
    fs,
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

/// What moves a picture, each from its begin to its end. A page shows it as an image, where no script
/// runs and nothing can be searched; and a script of somebody else's is not this project's to give away.
const MOVING: [(&str, &str); 4] = [
    ("<script", "</script>"),
    (" onload=\"", "\""),
    ("<text id=\"unzoom\"", "</text>"),
    ("<text id=\"search\"", "</text>"),
];

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
            .stderr(Stdio::inherit())
            .output()?;
        let (scripted, collapsed) = (script.wait()?, collapse.wait()?);
        if !(scripted.success() && collapsed.success() && drawn.status.success()) {
            let drawn = drawn.status;
            bail!("perf script: {scripted}, collapse: {collapsed}, flame graph: {drawn}");
        }
        fs::write(&self.svg, still(String::from_utf8(drawn.stdout)?))?;
        println!("flame graph: {}", self.svg.display());
        Ok(())
    }
}

fn data(dir: &TempDir) -> PathBuf {
    dir.path().join("perf.data")
}

/// The picture without what moves it.
fn still(mut svg: String) -> String {
    for (begin, end) in MOVING {
        while let Some(from) = svg.find(begin) {
            let inside = from + begin.len();
            let Some(length) = svg[inside..].find(end) else { break };
            svg.replace_range(from..inside + length + end.len(), "");
        }
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_kept_without_its_scripts_and_what_needs_them() {
        let svg = "<svg onload=\"init(evt)\" width=\"9\"><script>a < b</script><g>tick</g>\
            <text id=\"search\" x=\"1\">Search</text><script>c</script><text>poll</text></svg>";
        assert_eq!(still(svg.to_owned()), "<svg width=\"9\"><g>tick</g><text>poll</text></svg>");
        assert_eq!(still("<script>cut off".to_owned()), "<script>cut off");
    }
}
