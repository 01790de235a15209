//! Bounds of the configuration's values.

use std::time::Duration;

use super::Config;

/// What the types alone do not say.
pub(super) fn faults(config: &Config) -> Vec<(&'static str, String)> {
    let mut faults = Vec::new();
    let mut check = |key, ok: bool, fault: &str| {
        if !ok {
            faults.push((key, fault.to_owned()));
        }
    };
    let listen: Result<std::net::SocketAddr, _> = config.listen.parse();
    check("listen", listen.is_ok(), "must be ADDRESS:PORT, such as 127.0.0.1:7700");
    let is_postgres =
        |url: &String| url.starts_with("postgres://") || url.starts_with("postgresql://");
    let postgres = "must begin with postgres:// (leave it out for the embedded database)";
    check("database", config.database.iter().all(is_postgres), postgres);
    check("database_pool", config.database_pool.iter().all(is_postgres), postgres);
    let pooled = config.database.is_some() || config.database_pool.is_none();
    check("database_pool", pooled, "goes with database, the connection string for locks");
    check("database_pool_size", (1..=1_000).contains(&config.database_pool_size), "1 to 1000");
    let path = &config.context_path;
    // It stands in the console's page and in cookies.
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    let path_ok = path.is_empty()
        || (path.starts_with('/')
            && !path.ends_with('/')
            // To a browser such a path names another host.
            && !path.contains("//")
            && path.chars().all(plain));
    let rule = "must begin with one / and not end with it, and have letters, digits, - _ . ~ alone \
                between single ones";
    check("context_path", path_ok, rule);
    let forwarded = !config.forwarded_for || config.behind_proxy;
    check(
        "forwarded_for",
        forwarded,
        "goes with behind_proxy: anybody else could write the header",
    );
    let pair = config.tls.cert_file.is_some() == config.tls.key_file.is_some();
    check("tls.cert_file", pair, "tls.cert_file and tls.key_file belong together: set both");
    let levels = "must be off, error, warn, info, debug, trace, or such as info,hyper=off";
    check("log.level", is_log_level(&config.log.level), levels);
    check("log.files_max", (1..=1_000).contains(&config.log.files_max), "1 to 1000");
    let times = &config.timings;
    let beat = times.heartbeat_interval;
    let second = Duration::from_secs(1);
    let beat_ok = beat >= Duration::from_millis(100) && beat <= 60 * second;
    check("timings.heartbeat_interval", beat_ok, "100ms to 60s");
    let timeout_ok = times.heartbeat_timeout >= 2 * beat;
    check("timings.heartbeat_timeout", timeout_ok, "at least two heartbeat intervals");
    let lost_ok = times.lost_after > times.heartbeat_timeout;
    check("timings.lost_after", lost_ok, "must be longer than timings.heartbeat_timeout");
    check("timings.shutdown_grace", times.shutdown_grace >= second, "at least 1s");
    let hour = 3_600 * second;
    check("retention.runs", config.retention.runs >= hour, "at least 1h");
    check("retention.logs", config.retention.logs >= hour, "at least 1h");
    let day = 24 * hour;
    check("retention.audit", config.retention.audit >= day, "at least 1d");
    for (key, value) in [
        ("limits.params_bytes", config.limits.params_bytes),
        ("limits.output_bytes", config.limits.output_bytes),
    ] {
        check(key, (1_024..=1_048_576).contains(&value), "1024 to 1048576");
    }
    for (key, value) in [
        ("limits.sessions", config.limits.sessions),
        ("limits.sessions_per_second", config.limits.sessions_per_second),
        ("limits.connections", config.limits.connections),
    ] {
        check(key, value > 0, "at least 1");
    }
    faults.extend(config.alarm.faults());
    faults.extend(config.sign_in.faults());
    faults
}

/// A level or directives. A bare word, perhaps a mistyped level, would silence all but that target.
pub(super) fn is_log_level(text: &str) -> bool {
    let is_level = |word: &str| word.parse::<tracing::level_filters::LevelFilter>().is_ok();
    text.parse::<tracing_subscriber::filter::EnvFilter>().is_ok()
        && text.split(',').all(|part| part.contains('=') || is_level(part))
}
