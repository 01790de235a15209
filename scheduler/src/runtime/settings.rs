//! The configuration as each part takes it.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use chrono::{DateTime, Utc};
use parking_lot::RwLock;

use super::loops::Keep;
use crate::{
    alarm::{
        ChannelSettings,
        mail::{SmtpSettings, SmtpTls},
    },
    api::{
        ApiSettings,
        auth::{ADMIN_TOKEN_FILE, SignInTimes},
        listen::{ListenSettings, Port},
        tls::TlsFiles,
    },
    config::{self, AlarmType, Config, SmtpTlsMode},
    hub::{HubSettings, settings::Cluster},
    janitor::LostRules,
    model::alarm::{Channel, DefaultAlarm, Mail, Secret, Webhook},
    store::{
        SharedStore,
        ops::{NodeRow, Retention},
        postgres::{PostgresConfig, PostgresStore},
        sqlite::SqliteStore,
    },
};

/// A sign-in's last use may be so much later than what the store says of it.
const USE_WRITTEN_WITHIN: Duration = Duration::from_secs(5 * 60);

pub(super) fn listen(config: &Config) -> Result<ListenSettings> {
    Ok(ListenSettings {
        address: config.listen.parse().context("listen")?,
        tls: tls(config),
        behind_proxy: config.behind_proxy,
        connections_max: config.limits.connections as usize,
    })
}

pub(super) fn api(config: &Config, node: &str) -> Result<ApiSettings> {
    Ok(ApiSettings {
        node_id: node.to_owned(),
        context_path: config.context_path.clone(),
        params_bytes_max: config.limits.params_bytes,
        output_bytes_max: config.limits.output_bytes,
        metrics_open: config.metrics_open,
        behind_proxy: config.behind_proxy,
        forwarded_for: config.forwarded_for,
        channels: channels(config)?,
        ..ApiSettings::default()
    })
}

fn channels(config: &Config) -> Result<ChannelSettings> {
    let smtp = &config.alarm.smtp;
    let server = match (&smtp.host, &smtp.from) {
        (Some(host), Some(from)) => {
            let password =
                smtp.secret().map_err(|fault| anyhow!("alarm.smtp.password: {fault}"))?;
            Some(SmtpSettings {
                host: host.clone(),
                port: smtp.port,
                tls: match smtp.tls {
                    SmtpTlsMode::Implicit => SmtpTls::Implicit,
                    SmtpTlsMode::StartTls => SmtpTls::StartTls,
                    SmtpTlsMode::None => SmtpTls::None,
                },
                login: smtp.user.clone().map(|user| (user, Secret::new(password))),
                from: from.clone(),
            })
        }
        _ => None,
    };
    let run_url = config.alarm.run_url.clone();
    Ok(ChannelSettings { smtp: server, run_url, ..ChannelSettings::default() })
}

/// The alarm for jobs that no rule covers.
pub(super) fn default_alarm(config: &Config) -> Result<Option<DefaultAlarm>> {
    let alarm = &config.alarm;
    if !alarm.enabled {
        return Ok(None);
    }
    let channel = match alarm.kind {
        AlarmType::Webhook => Channel::Webhook(Webhook {
            url: alarm.webhook_url.clone().context("alarm.webhook_url")?,
            secret: Secret::new(
                alarm.signing_secret().map_err(|fault| anyhow!("alarm.webhook_secret: {fault}"))?,
            ),
            ..Webhook::default()
        }),
        AlarmType::Mail => Channel::Mail(Mail { to: alarm.mail_to.clone() }),
    };
    let (on_failure, on_success) = (alarm.on_failure, alarm.on_success);
    Ok(Some(DefaultAlarm { on_failure, on_success, channel }))
}

pub(super) fn lost_rules(config: &Config) -> LostRules {
    LostRules {
        lost_after: config.timings.lost_after,
        takeover_grace: config.timings.takeover_grace,
    }
}

pub(super) async fn open_store(config: &Config) -> Result<SharedStore> {
    match &config.database {
        None => {
            refuse_lost_database(&config.data_dir)?;
            Ok(SqliteStore::open(&config.data_dir)?)
        }
        Some(url) => {
            let settings = PostgresConfig {
                url: url.clone(),
                pool_url: config.database_pool.clone(),
                pool_size: config.database_pool_size,
            };
            let named = || format!("database {}", config::without_password(url));
            Ok(PostgresStore::connect(settings).await.with_context(named)?)
        }
    }
}

/// An admin token says that there was a database: to begin with an empty one unasked would look like
/// a start that went well, and overwrite the token.
fn refuse_lost_database(dir: &Path) -> Result<()> {
    if SqliteStore::is_in(dir) || !dir.join(ADMIN_TOKEN_FILE).exists() {
        return Ok(());
    }
    let dir = dir.display();
    Err(anyhow!(
        "data directory {dir} holds {ADMIN_TOKEN_FILE} but no database: put the database's files \
         back from a backup, or, to begin with an empty one, move {dir}/{ADMIN_TOKEN_FILE} away"
    ))
}

pub(super) fn tls(config: &Config) -> Option<TlsFiles> {
    Some(TlsFiles {
        cert: config.tls.cert_file.clone()?,
        key: config.tls.key_file.clone()?,
        client_ca: config.tls.client_ca_file.clone(),
    })
}

/// `elapsed` is when the store was opened.
pub(super) fn hub_settings(config: &Config, node: &str, elapsed: Duration) -> HubSettings {
    let cluster = match config.database {
        Some(_) => Cluster::joining(elapsed),
        None => Cluster::default(),
    };
    HubSettings {
        node_id: node.to_owned(),
        cluster: Arc::new(RwLock::new(cluster)),
        heartbeat_interval: config.timings.heartbeat_interval,
        heartbeat_timeout: config.timings.heartbeat_timeout,
        lost_after: config.timings.lost_after,
        run_ack_timeout: config.timings.run_ack_timeout,
        kill_ack_resend: config.timings.run_ack_timeout,
        admit_per_second: config.limits.sessions_per_second,
        max_sessions: config.limits.sessions as usize,
        max_output_bytes: config.limits.output_bytes,
        ..HubSettings::default()
    }
}

pub(super) fn advertised(config: &Config, port: &Port) -> String {
    let own = || format!("{}://{}{}", port.scheme(), port.address(), config.context_path);
    config.advertise.clone().unwrap_or_else(own)
}

pub(super) fn node_row(config: &Config, node: &str, port: &Port, at: DateTime<Utc>) -> NodeRow {
    NodeRow {
        id: node.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        advertise_address: advertised(config, port),
        draining: false,
        gone: false,
        started_at: at,
        last_seen_at: at,
        sessions: 0,
        partitions: Vec::new(),
        clock_offset_us: 0,
        lag: Duration::ZERO,
        database_latency: Duration::ZERO,
    }
}

pub(super) fn sign_in_times(config: &Config) -> SignInTimes {
    SignInTimes { idle_end: config.sign_in.idle_end, absolute_end: config.sign_in.absolute_end }
}

pub(super) fn keep(config: &Config) -> Keep {
    Keep {
        runs: Retention { runs: config.retention.runs, logs: config.retention.logs },
        audit: config.retention.audit,
        idle: config.sign_in.idle_end + USE_WRITTEN_WITHIN,
    }
}
