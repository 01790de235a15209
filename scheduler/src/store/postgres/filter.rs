//! Conditions of a query as SQL. Only column names from the tables below go into the text; every
//! value is a parameter.

use tokio_postgres::types::ToSql;

use crate::{
    model::ids::RunId,
    store::{
        Result,
        fields::{job_column, run_column},
        ops::Condition,
    },
};

pub(super) use crate::store::fields::Fields;

/// A value of a statement whose text is made for it.
pub(super) type Value = Box<dyn ToSql + Sync + Send>;

/// Fields of `job j JOIN app a`.
pub(super) const JOB_FIELDS: Fields = Fields {
    column: |field| {
        Some(match field {
            "handler" => "(j.spec ->> 'handler')",
            "owner" => "coalesce(j.spec ->> 'owner', '')",
            "display_name" => "coalesce(j.spec ->> 'display_name', '')",
            field => return job_column(field),
        })
    },
    label: "(j.spec -> 'labels' ->> KEY)",
};

/// State of an open run as it is shown; `$1` is the caller's now.
pub(super) const OPEN_STATE: &str =
    "(CASE WHEN r.state = 'QUEUED' AND r.due_at > $1 THEN 'SCHEDULED' ELSE r.state END)";

/// Labels given by hand outdo the job's.
const RUN_LABEL: &str = "coalesce(r.extra -> 'labels' ->> KEY, j.spec -> 'labels' ->> KEY)";

/// Fields of `open_run r JOIN job j`.
pub(super) const OPEN_RUN_FIELDS: Fields = Fields {
    column: |field| match field {
        "state" => Some(OPEN_STATE),
        field => run_column(field),
    },
    label: RUN_LABEL,
};

/// Fields of `ended_run r JOIN job j`.
pub(super) const ENDED_RUN_FIELDS: Fields = Fields {
    column: |field| match field {
        "state" => Some("r.state"),
        field => run_column(field),
    },
    label: RUN_LABEL,
};

/// The parameters of a statement under way.
#[derive(Default)]
pub(super) struct Values(Vec<Value>);

impl Values {
    /// Adds a value; returns its place in the text.
    pub(super) fn bind(&mut self, value: impl ToSql + Sync + Send + 'static) -> String {
        self.0.push(Box::new(value));
        format!("${}", self.0.len())
    }

    /// As the driver wants them.
    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.0.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
    }
}

/// A condition as SQL.
///
/// # Errors
/// `Internal` for a field that the table does not have: the caller checks names beforehand.
pub(super) fn sql(condition: &Condition, fields: &Fields, values: &mut Values) -> Result<String> {
    Ok(match condition {
        // A plain comparison where it can be one: only that finds an index.
        Condition::OneOf { field, values: list, negated } => {
            let test =
                format!("{} = ANY({}::text[])", fields.column(field)?, values.bind(list.clone()));
            negate(test, *negated)
        }
        Condition::Time { field, from, until } => {
            let column = fields.column(field)?;
            let mut tests = Vec::new();
            if let Some(from) = from {
                tests.push(format!("{column} >= {}::timestamptz", values.bind(*from)));
            }
            if let Some(until) = until {
                tests.push(format!("{column} < {}::timestamptz", values.bind(*until)));
            }
            if tests.is_empty() { "true".to_owned() } else { tests.join(" AND ") }
        }
        Condition::Label { key, value, negated } => {
            let key = format!("{}::text", values.bind(key.clone()));
            let label = fields.label.replace("KEY", &key);
            let test = match value {
                None => format!("{label} IS NOT NULL"),
                Some(value) => format!("{label} = {}::text", values.bind(value.clone())),
            };
            negate(test, *negated)
        }
        // Told by the id alone, which the index of a list has: see `RunId::shard`.
        Condition::ShardOf(None) => {
            r"substring(uuid_send(r.id) FROM 7 FOR 2) <> '\xffff'::bytea".to_owned()
        }
        Condition::ShardOf(Some(parent)) => {
            let (first, last) = RunId::shards(*parent);
            let (first, last) = (values.bind(first.to_uuid()), values.bind(last.to_uuid()));
            format!("r.id BETWEEN {first}::uuid AND {last}::uuid")
        }
        Condition::Contains { field, text, negated } => {
            let text = values.bind(text.clone());
            let column = fields.column(field)?;
            let test = format!("strpos(lower({column}), lower({text}::text)) > 0");
            negate(test, *negated)
        }
    })
}

/// What has no value passes a negation, too.
fn negate(test: String, negated: bool) -> String {
    if negated { format!("({test}) IS NOT TRUE") } else { test }
}
