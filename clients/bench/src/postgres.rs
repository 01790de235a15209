//! A private Postgres server with the committed settings, for one measurement.
//!
//! A shell holds the server and ends it as soon as its standard input closes, so it goes with this
//! process, however that ends.

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use tokio_postgres::{Client, NoTls};

/// The settings that every measurement runs on.
const SETTINGS: &str = include_str!("../postgresql.conf");

/// Files of 16 MiB each: a minute of 20,000 runs a second, fewer than `min_wal_size` has room for.
const LOG_FILES: u32 = 96;

/// Makes the directory, tells its name, runs the server until standard input closes, cleans up.
/// A line `kill` ends the server as a crash does, `up` starts it again.
const KEEPER: &str = r#"
trap '' INT HUP
dir=$(mktemp -d "${TMPDIR:-/tmp}/clawjob-bench-postgres-XXXXXX") || exit 1
"$1/initdb" -D "$dir/data" -U clawjob -A trust -E UTF8 --locale=C -N >"$dir/log" 2>&1 \
    || { cat "$dir/log" >&2; rm -rf "$dir"; exit 1; }
printf '%s\n' "$3" >>"$dir/data/postgresql.conf"
printf 'host all all 0.0.0.0/0 trust\n' >>"$dir/data/pg_hba.conf"
start() {
    "$1/postgres" -D "$dir/data" -k "$dir" -p "$2" -c listen_addresses="$4" \
        >>"$dir/log" 2>&1 </dev/null &
    server=$!
    tries=0
    until "$1/pg_isready" -q -h "$dir" -p "$2" -U clawjob -d postgres; do
        kill -0 "$server" 2>/dev/null || { cat "$dir/log" >&2; rm -rf "$dir"; exit 1; }
        tries=$((tries + 1)); [ "$tries" -lt 1200 ] || { echo "no answer" >&2; break; }
        sleep 0.05
    done
}
stop() {
    kill "-$1" "$server" 2>/dev/null
    wait "$server" 2>/dev/null
}
echo "$dir"
start "$@"
echo "$server"
while read -r order; do
    case "$order" in
        kill) stop QUIT; echo done ;;
        up) start "$@"; echo "$server" ;;
    esac
done
stop INT
rm -rf "$dir"
"#;

/// A running server.
pub struct Postgres {
    shell: Child,
    /// Closed when the process ends; that ends the server.
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    dir: PathBuf,
    /// Where it listens.
    pub port: u16,
    /// The server's process.
    pub pid: u32,
}

impl Postgres {
    /// Starts one that listens on `addresses`, IP addresses of this machine separated by commas,
    /// with `more` settings after the committed ones.
    ///
    /// # Errors
    /// There is no Postgres here, or it does not start.
    pub fn start(addresses: &str, more: &str) -> Result<Self> {
        let first = addresses.split(',').next().unwrap_or_default();
        let port = TcpListener::bind((first, 0))?.local_addr()?.port();
        let bin = binaries()?;
        let mut command = keeper_command();
        command
            .arg("keeper")
            .arg(bin)
            .arg(port.to_string())
            .arg(format!("{SETTINGS}{more}"))
            .arg(addresses);
        command.current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut shell = command.spawn().context("starting a shell for Postgres")?;
        let stdin = shell.stdin.take();
        let out = shell.stdout.take().context("its output is piped")?;
        let mut lines = BufReader::new(out).lines();
        let dir = lines.next().transpose()?.context("Postgres did not start")?.into();
        let pid = lines.next().transpose()?.context("Postgres did not start")?.parse()?;
        Ok(Self { shell, stdin, lines, dir, port, pid })
    }

    /// Ends the server at once, as a crash does: without a checkpoint, without a word to clients.
    ///
    /// # Errors
    /// The shell that keeps it is gone.
    pub fn crash(&mut self) -> Result<()> {
        self.order("kill").map(drop)
    }

    /// Starts it again; returns when it takes connections.
    ///
    /// # Errors
    /// It does not start.
    pub fn restart(&mut self) -> Result<()> {
        self.pid = self.order("up")?.parse()?;
        Ok(())
    }

    fn order(&mut self, order: &str) -> Result<String> {
        let stdin = self.stdin.as_mut().context("it is open")?;
        writeln!(stdin, "{order}")?;
        self.lines.next().transpose()?.context("the keeper of Postgres is gone")
    }

    /// The connection string through a socket, for the harness itself.
    #[must_use]
    pub fn url(&self) -> String {
        let host = self.dir.display().to_string().replace('/', "%2F");
        format!("postgresql://clawjob@{host}:{}/postgres?sslmode=disable", self.port)
    }

    /// A connection that is driven until it is dropped.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn connect(&self) -> Result<Client> {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}

/// Leaves the server with files for its log, as one has that has run for some hours and writes over old
/// ones. A new server makes each when it is needed, full of zeros: nothing is committed meanwhile.
///
/// # Errors
/// The server's.
pub async fn age(client: &Client) -> Result<()> {
    let sql = format!(
        "DO $$ BEGIN FOR n IN 1..{LOG_FILES} LOOP
            PERFORM pg_logical_emit_message(false, 'age', 'x'), pg_switch_wal();
        END LOOP; END $$; CHECKPOINT"
    );
    Ok(client.batch_execute(&sql).await?)
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // Nothing can be done about a shell that is gone already.
        let _ = self.shell.wait();
    }
}

/// Postgres does not run as root: then its own user runs it.
fn keeper_command() -> Command {
    let id = Command::new("id").arg("-u").output().map(|output| output.stdout);
    if id.is_ok_and(|id| id.trim_ascii() == b"0") {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--", "sh", "-c", KEEPER]);
        command
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER]);
        command
    }
}

/// The directory with the newest server's programs.
fn binaries() -> Result<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    let version = |bin: &Path| bin.parent()?.file_name()?.to_str()?.parse::<u32>().ok();
    found.sort_by_key(|bin| std::cmp::Reverse(version(bin)));
    found.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let complete = |bin: &&PathBuf| {
        ["initdb", "postgres", "pg_isready"].iter().all(|name| bin.join(name).is_file())
    };
    match found.iter().find(complete) {
        Some(bin) => Ok(bin.clone()),
        None => bail!("no Postgres server here: install one (Debian: apt-get install postgresql)"),
    }
}
