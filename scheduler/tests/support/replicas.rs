//! A Postgres primary and a synchronous standby of it, which can take its place.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "real servers are waited for in real time")]

use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::server::{Keeper, connect, free_port, start_on_free_ports};

/// Servers come to what is waited for within this time, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Makes a primary `a`, copies it to a standby `b` that streams from it, runs both until standard input
/// closes. A line `kill` ends the primary's postmaster as the kernel would; what it had started ends
/// by itself as soon as it notices.
const KEEPER: &str = r#"
trap '' INT HUP
dir=$(mktemp -d "${TMPDIR:-/tmp}/clawjob-test-replicas-XXXXXX") || exit 1
bin=$1
fail() { cat "$dir/log" >&2; rm -rf "$dir"; exit 1; }
serve() {
    "$bin/postgres" -D "$dir/$1" -k "$dir" -p "$2" -c listen_addresses=127.0.0.1 \
        -c max_connections=200 -c shared_buffers=64MB -c fsync=off -c cluster_name="$1" \
        -c log_min_messages=error >>"$dir/log" 2>&1 </dev/null &
    server=$!
    tries=0
    until "$bin/pg_isready" -q -h "$dir" -p "$2" -U clawjob -d postgres; do
        kill -0 "$server" 2>/dev/null || fail
        tries=$((tries + 1)); [ "$tries" -lt 600 ] || { echo "no answer" >&2; fail; }
        sleep 0.1
    done
}
"$bin/initdb" -D "$dir/a" -U clawjob -A trust -E UTF8 --locale=C -N >"$dir/log" 2>&1 || fail
echo "$dir"
serve a "$2"
a=$server
"$bin/pg_basebackup" -h "$dir" -p "$2" -U clawjob -D "$dir/b" -R -X stream -c fast -N \
    >>"$dir/log" 2>&1 || { kill -INT "$a"; fail; }
serve b "$3"
b=$server
echo ready
while read -r order; do
    case "$order" in
        kill) kill -KILL "$a"; wait "$a" 2>/dev/null; echo kill ;;
    esac
done
kill -INT "$b" "$a" 2>/dev/null
wait
rm -rf "$dir"
"#;

/// The two servers.
pub struct Replicas {
    /// Where the primary listens on the loopback, and where the standby does.
    pub ports: [u16; 2],
    keeper: Keeper,
}

impl Replicas {
    /// Starts both; nothing is acknowledged by the primary from then on that the standby lacks.
    pub async fn start() -> Self {
        let replicas = start_on_free_ports(|| {
            let ports = [free_port(), free_port()];
            let [a, b] = ports.map(|port| port.to_string());
            let keeper = Keeper::start(KEEPER, &[&a, &b], None)?;
            Ok(Self { ports, keeper })
        });
        let replicas = replicas.unwrap_or_else(|faults| {
            panic!("the private Postgres servers of the tests did not start:\n{faults}")
        });
        let primary = replicas.client(0).await;
        let wait = "ALTER SYSTEM SET synchronous_standby_names = 'b'";
        primary.batch_execute(wait).await.expect("set");
        primary.batch_execute("SELECT pg_reload_conf()").await.expect("read again");
        let end = Instant::now() + PATIENCE;
        while !replicas.is_synchronous().await {
            assert!(Instant::now() < end, "the standby does not become synchronous");
            tokio::time::sleep(LOOK).await;
        }
        replicas
    }

    /// Whether the primary waits for the standby.
    pub async fn is_synchronous(&self) -> bool {
        let sql = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        let row = self.client(0).await.query_one(sql, &[]).await.expect("an answer");
        row.get::<_, i64>(0) == 1
    }

    /// Kills the primary.
    pub fn kill_primary(&mut self) {
        self.keeper.order("kill");
    }

    /// Makes the standby the primary; returns when it has begun to take what is written.
    pub async fn promote(&self) -> Instant {
        let standby = self.client(1).await;
        let sql = "SELECT pg_promote(true, 60)";
        let promoted = standby.query_one(sql, &[]).await.expect("an answer");
        assert!(promoted.get::<_, bool>(0), "it was not promoted");
        Instant::now()
    }

    async fn client(&self, server: usize) -> Client {
        connect(&url(&[self.ports[server]], "")).await
    }
}

/// A connection string over the loopback, with further options.
pub fn url(ports: &[u16], more: &str) -> String {
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("postgresql://clawjob@{}/postgres?sslmode=disable{more}", hosts.join(","))
}
