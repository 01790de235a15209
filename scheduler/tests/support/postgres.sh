# A private Postgres for tests: sh -c "$(cat postgres.sh)" keeper BIN PORT FSYNC [WAL]
#
# Makes the directory, tells its name, runs the server until standard input closes, cleans up. A
# line `down` stops the server in between, and `up` starts it again. WAL is where its write-ahead log is
# to be, if that is elsewhere.

# The user may interrupt the tests: the shell outlives that by the moment it needs.
trap '' INT HUP
dir=$(mktemp -d "${TMPDIR:-/tmp}/clawjob-test-postgres-XXXXXX") || exit 1
wal="${4:+$4/wal-$$}"
remove() { rm -rf "$dir" ${wal:+"$wal"}; }
"$1/initdb" -D "$dir/data" ${wal:+-X "$wal"} -U clawjob -A trust -E UTF8 --locale=C -N \
    >"$dir/log" 2>&1 || { cat "$dir/log" >&2; remove; exit 1; }
start() {
    "$1/postgres" -D "$dir/data" -k "$dir" -p "$2" -c listen_addresses=127.0.0.1 \
        -c max_connections=500 -c shared_buffers=128MB -c fsync="$3" -c max_wal_size=4GB \
        -c autovacuum_naptime=10s -c log_min_messages=error >>"$dir/log" 2>&1 </dev/null &
    server=$!
    tries=0
    until "$1/pg_isready" -q -h "$dir" -p "$2" -U clawjob -d postgres; do
        kill -0 "$server" 2>/dev/null || { cat "$dir/log" >&2; remove; exit 1; }
        tries=$((tries + 1)); [ "$tries" -lt 600 ] || { echo "no answer" >&2; break; }
        sleep 0.1
    done
}
stop() {
    kill -INT "$server" 2>/dev/null
    wait "$server" 2>/dev/null
}
echo "$dir"
start "$@"
echo ready
while read -r order; do
    case "$order" in
        down) stop; echo down ;;
        up) wait "$server" 2>/dev/null; start "$@"; echo up ;;
    esac
done
stop
remove
