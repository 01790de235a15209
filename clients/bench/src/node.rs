//! A scheduler as a process.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// A scheduler must listen within this time, on a busy machine too.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// How to start it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program `clawjob`.
    pub binary: PathBuf,
    /// Its data, its log.
    pub dir: PathBuf,
    /// Address and port where it listens.
    pub listen: String,
    /// Further arguments of `clawjob server`.
    pub args: Vec<String>,
    /// Words before the program, such as `ip netns exec NAME`.
    pub prefix: Vec<String>,
}

/// A scheduler process.
pub struct Node {
    plan: Plan,
    child: Child,
}

impl Node {
    /// Starts one, and returns when it listens.
    ///
    /// # Errors
    /// The program is not there, or ended, or does not listen in time.
    pub fn start(plan: Plan) -> Result<Self> {
        let child = spawn(&plan)?;
        Ok(Self { plan, child })
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.plan.listen)
    }

    /// The same without the scheme.
    #[must_use]
    pub fn listen(&self) -> &str {
        &self.plan.listen
    }

    /// The admin's token, which the first start on a database writes.
    ///
    /// # Errors
    /// This was not the first.
    pub fn admin_token(&self) -> Result<String> {
        let path = self.plan.dir.join("admin.token");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading the admin's token, {}", path.display()))?;
        Ok(text.trim().to_owned())
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// It is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.child.id().cast_signed()), signal)?)
    }

    /// Kills it without a word.
    ///
    /// # Errors
    /// The kernel's.
    pub fn kill9(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts it again where it was.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.child = spawn(&self.plan)?;
        Ok(())
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.kill9();
    }
}

fn spawn(plan: &Plan) -> Result<Child> {
    std::fs::create_dir_all(&plan.dir)?;
    let log = File::options().create(true).append(true).open(plan.dir.join("log"))?;
    let mut words = plan.prefix.iter().map(String::as_str).chain([path(&plan.binary)]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).args(["server", "--data-dir", path(&plan.dir), "--listen", &plan.listen]);
    command.args(&plan.args).env_clear();
    command.envs(std::env::vars().filter(|(name, _)| !name.starts_with("CLAWJOB_")));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut child = command
        .spawn()
        .with_context(|| format!("starting {}: build it, or name it", plan.binary.display()))?;
    let out = child.stdout.take().context("its output is piped")?;
    let (ready, up) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if line.starts_with("listening on ") {
                // Nobody waits for a second such line.
                let _ = ready.send(());
            }
        }
    });
    if up.recv_timeout(START_TIMEOUT).is_err() {
        let _ = child.kill();
        let _ = child.wait();
        let log = std::fs::read_to_string(plan.dir.join("log")).unwrap_or_default();
        bail!("the scheduler does not listen on {}:\n{log}", plan.listen);
    }
    Ok(child)
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// The scheduler's program beside this one, unless another is named.
///
/// # Errors
/// There is none.
pub fn binary(named: Option<&Path>) -> Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_path_buf(),
        None => std::env::current_exe()?.with_file_name("clawjob"),
    };
    if !path.is_file() {
        bail!("no scheduler at {}: build it, or name it with --scheduler", path.display());
    }
    Ok(path)
}

/// A port of `address` that is free now.
///
/// # Errors
/// The kernel's.
pub fn free_port(address: &str) -> Result<u16> {
    Ok(TcpListener::bind((address, 0))?.local_addr()?.port())
}
