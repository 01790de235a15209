-- Alarm rules, the alarms they raised, and what their channels are still owed.

CREATE TABLE alarm_rule (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id     bigint NOT NULL REFERENCES app (id) ON DELETE CASCADE,
    name       text NOT NULL,
    spec       jsonb NOT NULL,
    version    bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by text NOT NULL,
    UNIQUE (app_id, name)
);

-- The id is a function of run and rule, so an end that is told twice raises one alarm. Names are
-- kept as they were: an alarm outlives its rule, its job and its run. `rule_id` is NULL for the
-- default of the configuration.
CREATE TABLE alarm (
    id              uuid PRIMARY KEY,
    app_id          bigint NOT NULL REFERENCES app (id) ON DELETE CASCADE,
    job_id          bigint NOT NULL,
    rule_id         bigint,
    rule            text NOT NULL,
    job             text NOT NULL,
    condition       text NOT NULL,
    facts           jsonb NOT NULL,
    fire_at         timestamptz NOT NULL,
    acknowledged_at timestamptz,
    acknowledged_by text NOT NULL DEFAULT '',
    comment         text NOT NULL DEFAULT '',
    deliveries      int NOT NULL DEFAULT 0,
    last_error      text NOT NULL DEFAULT ''
);
CREATE INDEX alarm_app ON alarm (app_id, id);
CREATE INDEX alarm_streak ON alarm (rule_id, job_id, fire_at) WHERE rule_id IS NOT NULL;

-- The outbox: a row per channel until it is delivered or given up. A claim moves `due_at` ahead and
-- raises `attempt`; a claimant that dies is overtaken when that time comes.
CREATE TABLE alarm_delivery (
    alarm_id uuid NOT NULL REFERENCES alarm (id) ON DELETE CASCADE,
    channel  smallint NOT NULL,
    rule_id  bigint,
    target   text NOT NULL,
    attempt  int NOT NULL DEFAULT 0,
    owed_at  timestamptz NOT NULL,
    due_at   timestamptz NOT NULL,
    PRIMARY KEY (alarm_id, channel)
);
CREATE INDEX alarm_delivery_due ON alarm_delivery (due_at);
