//! The first frame up.

use std::time::SystemTime;

use clawjob_proto::{PROTOCOL_MAJOR, PROTOCOL_MINOR, v1};

use crate::config::Checked;
use crate::engine::Engine;
use crate::handler::Registry;
use crate::time;

/// Optional behaviours that this SDK understands.
const FEATURES: [&str; 5] = ["checkpoint", "drain", "log", "progress", "shard"];

/// What of a Hello stays the same for the life of the process.
pub(super) struct Identity {
    base: v1::Hello,
}

impl Identity {
    pub(super) fn new(settings: &Checked, registry: &Registry, started: SystemTime) -> Self {
        let handler = |entry: &crate::handler::Entry| v1::Handler {
            name: entry.name.clone(),
            max_concurrency: entry.options.max(),
            params_schema: entry.schema.clone(),
            description: entry.options.text().to_owned(),
        };
        let hostname = hostname::get().map(|name| name.to_string_lossy().into_owned());
        Self {
            base: v1::Hello {
                protocol_major: PROTOCOL_MAJOR,
                protocol_minor: PROTOCOL_MINOR,
                features: FEATURES.map(str::to_owned).to_vec(),
                app: settings.app.clone(),
                executor_id: settings.executor_id.clone(),
                instance_id: uuid::Uuid::new_v4().to_string(),
                handlers: registry.iter().map(handler).collect(),
                labels: settings.labels.clone().into_iter().collect(),
                slots: settings.slots,
                sdk: Some(v1::SdkInfo {
                    language: "rust".to_owned(),
                    sdk_version: env!("CARGO_PKG_VERSION").to_owned(),
                    runtime_version: String::new(),
                    os: std::env::consts::OS.to_owned(),
                    arch: std::env::consts::ARCH.to_owned(),
                    hostname: hostname.unwrap_or_default(),
                    pid: std::process::id(),
                }),
                process_start_time: Some(time::timestamp(started)),
                ..v1::Hello::default()
            },
        }
    }

    /// The Hello of this moment.
    pub(super) fn hello(&self, engine: &Engine, resume_token: &str) -> v1::Hello {
        v1::Hello {
            resume_token: resume_token.to_owned(),
            attempts: engine.statuses(),
            last_command_seq: engine.last_command_seq(),
            ..self.base.clone()
        }
    }
}
