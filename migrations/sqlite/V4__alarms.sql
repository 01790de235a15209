-- Alarm rules, the alarms they raised, and what their channels are still owed.

CREATE TABLE alarm_rule (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    app_id     INTEGER NOT NULL REFERENCES app (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    spec       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    UNIQUE (app_id, name)
) STRICT;

-- The id is a function of run and rule, so an end that is told twice raises one alarm. Names are
-- kept as they were: an alarm outlives its rule, its job and its run. `rule_id` is NULL for the
-- default of the configuration.
CREATE TABLE alarm (
    id              BLOB PRIMARY KEY,
    app_id          INTEGER NOT NULL REFERENCES app (id) ON DELETE CASCADE,
    job_id          INTEGER NOT NULL,
    rule_id         INTEGER,
    rule            TEXT NOT NULL,
    job             TEXT NOT NULL,
    condition       TEXT NOT NULL,
    facts           TEXT NOT NULL,
    fire_at         INTEGER NOT NULL,
    acknowledged_at INTEGER,
    acknowledged_by TEXT NOT NULL DEFAULT '',
    comment         TEXT NOT NULL DEFAULT '',
    deliveries      INTEGER NOT NULL DEFAULT 0,
    last_error      TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX alarm_app ON alarm (app_id, id);
CREATE INDEX alarm_streak ON alarm (rule_id, job_id, fire_at) WHERE rule_id IS NOT NULL;

-- The outbox: a row per channel until it is delivered or given up. A claim moves `due_at` ahead and
-- raises `attempt`; a claimant that dies is overtaken when that time comes.
CREATE TABLE alarm_delivery (
    alarm_id BLOB NOT NULL REFERENCES alarm (id) ON DELETE CASCADE,
    channel  INTEGER NOT NULL,
    rule_id  INTEGER,
    target   TEXT NOT NULL,
    attempt  INTEGER NOT NULL DEFAULT 0,
    owed_at  INTEGER NOT NULL,
    due_at   INTEGER NOT NULL,
    PRIMARY KEY (alarm_id, channel)
) STRICT, WITHOUT ROWID;
CREATE INDEX alarm_delivery_due ON alarm_delivery (due_at);
