//! A Postgres server for tests, and a schema of it for each.
//!
//! `CLAWJOB_TEST_POSTGRES` names a server to use (a database whose user may create schemas). Without
//! it each test process starts a private one in a temporary directory, found in PATH or under
//! /usr/lib/postgresql. A shell holds the server and ends it as soon as its standard input closes,
//! so it goes with the test process, however that ends.
//!
//! Nothing is skipped when there is no Postgres: the test fails and says what to install.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that can't set up its server must fail")]

use std::{
    io::{BufRead, BufReader, Lines, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::OnceLock,
    thread,
};

use tokio_postgres::{Client, NoTls};

/// How often a private server is tried: its port may be taken between choosing and using it.
const START_TRIES: u32 = 5;

/// Holds a server; its comment says how.
const KEEPER: &str = include_str!("postgres.sh");

/// A running server.
pub struct Server {
    /// Connection string of its database, without a schema.
    pub url: String,
    /// Where it listens on the loopback, for a private one.
    pub port: Option<u16>,
    keeper: Option<Keeper>,
}

/// A shell that keeps servers; they end with this value, and with this process.
pub struct Keeper {
    shell: Child,
    /// Closed when the process ends; that ends the servers.
    stdin: Option<ChildStdin>,
    /// What it answers.
    lines: Lines<BufReader<ChildStdout>>,
    /// Where the servers live.
    pub dir: PathBuf,
}

/// Where a private server is to be, other than in the temporary directory.
#[derive(Clone, Copy, Default)]
pub struct Places<'a> {
    /// All of it.
    pub data: Option<&'a Path>,
    /// Its write-ahead log.
    pub wal: Option<&'a Path>,
}

impl Keeper {
    /// Runs a script that tells its directory, then that it is ready; `tmp` is where it makes that.
    pub fn start(script: &str, args: &[&str], tmp: Option<&Path>) -> Result<Self, String> {
        let mut command = keeper_command(script);
        command.arg("keeper").arg(binaries()).args(args).current_dir("/");
        if let Some(tmp) = tmp {
            command.env("TMPDIR", tmp);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut shell = command.spawn().map_err(|fault| fault.to_string())?;
        let stdin = shell.stdin.take();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        let dir = lines.next().and_then(Result::ok);
        let ready = lines.next().and_then(Result::ok);
        match (dir, ready) {
            (Some(dir), Some(_)) => Ok(Self { shell, stdin, lines, dir: dir.into() }),
            _ => {
                drop(stdin);
                let output = shell.wait_with_output().map_err(|fault| fault.to_string())?;
                Err(String::from_utf8_lossy(&output.stderr).into_owned())
            }
        }
    }

    /// Has it do something, and waits until it has.
    pub fn order(&mut self, order: &str) {
        let stdin = self.stdin.as_mut().expect("it is open");
        writeln!(stdin, "{order}").unwrap();
        let done = self.lines.next().and_then(Result::ok);
        assert_eq!(done.as_deref(), Some(order), "the server does not obey");
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.shell.wait();
    }
}

/// The server that the tests of this process share; loss of power is not their subject.
pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| match std::env::var("CLAWJOB_TEST_POSTGRES") {
        Ok(url) => Server { url, port: None, keeper: None },
        Err(_) => Server::start(false),
    })
}

impl Server {
    /// Starts a private server; with `durable` it writes through to the disk.
    pub fn start(durable: bool) -> Self {
        Self::start_in(durable, Places::default())
    }

    /// The same in other places.
    pub fn start_in(durable: bool, places: Places<'_>) -> Self {
        let started = start_on_free_ports(|| Self::try_start(durable, places));
        started.unwrap_or_else(|faults| {
            panic!("the private Postgres of the tests did not start:\n{faults}")
        })
    }

    fn try_start(durable: bool, places: Places<'_>) -> Result<Self, String> {
        let port = free_port();
        let fsync = if durable { "on" } else { "off" };
        let wal = places.wal.map_or(String::new(), |wal| wal.display().to_string());
        let args = [&port.to_string(), fsync, &wal];
        let keeper = Keeper::start(KEEPER, &args, places.data)?;
        let host = keeper.dir.display().to_string().replace('/', "%2F");
        let url = format!("postgresql://clawjob@{host}:{port}/postgres?sslmode=disable");
        Ok(Self { url, port: Some(port), keeper: Some(keeper) })
    }

    /// Stops a private server, as an operator does who restarts it.
    pub fn down(&mut self) {
        self.keeper.as_mut().expect("a private server").order("down");
    }

    /// Starts it again, with the data and on the port it had.
    pub fn up(&mut self) {
        self.keeper.as_mut().expect("a private server").order("up");
    }

    /// What a private server has written into its log.
    pub fn log(&self) -> String {
        let keeper = self.keeper.as_ref().expect("a private server");
        std::fs::read_to_string(keeper.dir.join("log")).unwrap_or_else(|fault| fault.to_string())
    }

    /// The connection string over TCP, for tests with something between.
    pub fn tcp_url(&self, port: u16) -> String {
        format!("postgresql://clawjob@127.0.0.1:{port}/postgres?sslmode=disable")
    }
}

/// Starts servers until their ports are found free.
pub fn start_on_free_ports<T>(start: impl Fn() -> Result<T, String>) -> Result<T, String> {
    let mut faults = String::new();
    for _ in 0..START_TRIES {
        match start() {
            Ok(started) => return Ok(started),
            Err(fault) => faults.push_str(&fault),
        }
    }
    Err(faults)
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A shell that runs the script. Postgres does not run as root: then its own user does.
fn keeper_command(script: &str) -> Command {
    let id = Command::new("id").arg("-u").output().map(|output| output.stdout);
    if id.is_ok_and(|id| id.trim_ascii() == b"0") {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--", "sh", "-c", script]);
        command
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }
}

/// The directory with the newest server's programs.
fn binaries() -> PathBuf {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    found.sort_by_key(|bin| {
        let version = bin.parent().and_then(|dir| dir.file_name()?.to_str()?.parse::<u32>().ok());
        std::cmp::Reverse(version.unwrap_or(0))
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.extend(std::env::split_paths(&path));
    let complete = |bin: &&PathBuf| {
        ["initdb", "postgres", "pg_isready"].iter().all(|name| bin.join(name).is_file())
    };
    found.iter().find(complete).cloned().unwrap_or_else(|| {
        panic!(
            "these tests need Postgres 14 or newer: install it (Debian and Ubuntu: \
             `apt-get install postgresql`, Fedora: `dnf install postgresql-server`, macOS: `brew \
             install postgresql`), or name a server in CLAWJOB_TEST_POSTGRES, for example \
             postgresql://user:password@localhost/test"
        )
    })
}

/// An empty schema of the shared server, dropped with this value.
pub struct Schema {
    /// Its name.
    pub name: String,
    /// Connection string that leads into it.
    pub url: String,
    /// The server that it is to be dropped on.
    server: Option<String>,
}

impl Schema {
    /// Makes one.
    pub async fn create() -> Self {
        Self::create_on(server()).await
    }

    /// Makes one on the given server.
    pub async fn create_on(server: &Server) -> Self {
        let name = format!("t_{:016x}", rand::random::<u64>());
        let sql = format!("CREATE SCHEMA {name}");
        connect(&server.url).await.batch_execute(&sql).await.unwrap();
        Self { url: within(&server.url, &name), name, server: Some(server.url.clone()) }
    }

    /// The schema that is there anyhow, of a server that is one test's own and ends with it.
    pub fn only(url: String) -> Self {
        Self { name: "public".to_owned(), url, server: None }
    }

    /// A connection with this schema as its search path.
    pub async fn connect(&self) -> Client {
        connect(&self.url).await
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let (Some(url), name) = (self.server.take(), self.name.clone()) else { return };
        // A runtime can't be entered from within another one: a thread of its own waits.
        let cleaner = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let sql = format!("SET client_min_messages = error; DROP SCHEMA {name} CASCADE");
            runtime.unwrap().block_on(async { connect(&url).await.batch_execute(&sql).await })
        });
        let _ = cleaner.join();
    }
}

/// The connection string with a search path.
pub fn within(url: &str, schema: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}options=-csearch_path%3D{schema}")
}

/// A plain connection, driven until it is dropped.
pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
