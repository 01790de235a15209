//! What the lists can be filtered by.

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Free text: `=`, `!=`, and `:` for a part of it.
    Text,
    /// A name that is only ever equal or not.
    Name,
    /// The id or full name of an executor.
    Executor,
    /// One of these words.
    Word(&'static [&'static str]),
    /// The name or id of a run.
    Run,
    /// An instant.
    Time,
}

/// The fields of one list, and whether it has labels.
#[derive(Clone, Copy, Debug)]
pub struct Fields(&'static [(&'static str, Kind)], bool);

impl Fields {
    /// The field of that name.
    pub fn find(&self, name: &str) -> Option<(&'static str, Kind)> {
        self.0.iter().find(|(known, _)| *known == name).copied()
    }

    /// Whether labels can be asked for.
    pub fn has_labels(&self) -> bool {
        self.1
    }

    /// All names, for a message.
    pub fn names(&self) -> String {
        let names = self.0.iter().map(|(name, _)| *name);
        names.chain(self.1.then_some("labels.KEY")).collect::<Vec<_>>().join(", ")
    }
}

/// Fields of ListJobs.
pub const JOB_FIELDS: Fields = Fields(
    &[
        ("state", Kind::Word(&["ACTIVE", "PAUSED", "EXPIRED"])),
        ("handler", Kind::Text),
        ("owner", Kind::Text),
        ("display_name", Kind::Text),
        ("name", Kind::Text),
        ("next_fire_time", Kind::Time),
    ],
    true,
);

/// Fields of ListRuns and WatchRuns.
pub const RUN_FIELDS: Fields = Fields(
    &[
        ("job", Kind::Name),
        (
            "state",
            Kind::Word(&[
                "SCHEDULED",
                "QUEUED",
                "DISPATCHED",
                "RUNNING",
                "CANCELING",
                "RETRY_WAIT",
                "SUCCEEDED",
                "FAILED",
                "CANCELED",
                "TIMED_OUT",
                "LOST",
                "SKIPPED",
            ]),
        ),
        ("trigger", Kind::Word(&["SCHEDULE", "API", "RERUN", "MISFIRE", "CHAIN", "BACKFILL"])),
        ("executor", Kind::Executor),
        ("parent", Kind::Run),
        ("create_time", Kind::Time),
        ("fire_time", Kind::Time),
    ],
    true,
);

/// Fields of ListExecutors.
pub const EXECUTOR_FIELDS: Fields = Fields(
    &[
        ("state", Kind::Word(&["ONLINE", "SUSPECT", "DRAINING", "OFFLINE"])),
        ("cordoned", Kind::Word(&["true", "false"])),
        ("handler", Kind::Text),
        ("node_id", Kind::Text),
        ("name", Kind::Text),
    ],
    true,
);

/// Fields of ListAlarms.
pub const ALARM_FIELDS: Fields = Fields(
    &[
        ("rule", Kind::Name),
        ("job", Kind::Name),
        ("condition", Kind::Word(&["RUN_FAILED", "RUN_LOST", "RUN_SUCCEEDED"])),
        ("acknowledged", Kind::Word(&["true", "false"])),
        ("fire_time", Kind::Time),
    ],
    false,
);

/// Fields of ListAuditEvents.
pub const AUDIT_FIELDS: Fields = Fields(
    &[
        ("principal", Kind::Text),
        ("method", Kind::Text),
        ("resource", Kind::Text),
        ("app", Kind::Name),
        ("code", Kind::Name),
        ("request_id", Kind::Name),
        ("peer_address", Kind::Name),
        ("time", Kind::Time),
    ],
    false,
);

/// Fields of a job that an alarm rule's filter looks at.
pub const RULE_FIELDS: Fields = Fields(
    &[
        ("name", Kind::Text),
        ("handler", Kind::Text),
        ("owner", Kind::Text),
        ("display_name", Kind::Text),
    ],
    true,
);
