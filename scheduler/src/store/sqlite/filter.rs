//! Conditions of a query as SQL. Only column names from the tables below go into the text; every
//! value is a parameter.

use rusqlite::types::Value;

use super::rows::{json, us};
use crate::{
    model::ids::RunId,
    store::{
        Result,
        fields::{job_column, run_column},
        ops::Condition,
    },
};

pub(super) use crate::store::fields::Fields;

/// A job's spec, or an empty one where it can't be read: a damaged row fails no list.
macro_rules! spec {
    () => {
        "iif(json_valid(j.spec), j.spec, '{}')"
    };
}

/// Fields of `job j JOIN app a`.
pub(super) const JOB_FIELDS: Fields = Fields {
    column: |field| {
        Some(match field {
            "handler" => concat!("json_extract(", spec!(), ", '$.handler')"),
            "owner" => concat!("coalesce(json_extract(", spec!(), ", '$.owner'), '')"),
            "display_name" => {
                concat!("coalesce(json_extract(", spec!(), ", '$.display_name'), '')")
            }
            field => return job_column(field),
        })
    },
    label: concat!("(SELECT value FROM json_each(", spec!(), ", '$.labels') WHERE key = ?)"),
};

/// Fields of `open_run r` joined with its job; a planned run that is not due is SCHEDULED. The
/// parameter `?1` is the caller's now.
pub(super) const OPEN_RUN_FIELDS: Fields = Fields {
    column: |field| match field {
        "state" => Some(OPEN_STATE),
        field => run_column(field),
    },
    label: RUN_LABEL,
};

/// Fields of `ended_run r` joined with its job.
pub(super) const ENDED_RUN_FIELDS: Fields = Fields {
    column: |field| match field {
        "state" => Some("r.state"),
        field => run_column(field),
    },
    label: RUN_LABEL,
};

/// State of an open run as it is shown.
pub(super) const OPEN_STATE: &str =
    "iif(r.state = 'QUEUED' AND r.due_at > ?1, 'SCHEDULED', r.state)";

/// Labels given by hand outdo the job's.
const RUN_LABEL: &str = concat!(
    "(SELECT value FROM (
         SELECT key, value, 0 AS rank FROM json_each(coalesce(r.extra, '{}'), '$.labels')
         UNION ALL SELECT key, value, 1 FROM json_each(",
    spec!(),
    ", '$.labels')) WHERE key = ? ORDER BY rank LIMIT 1)"
);

/// A WHERE clause under way, with its parameters in order.
pub(super) struct Where {
    sql: String,
    params: Vec<Value>,
}

impl Where {
    /// Begins with a condition that holds and the parameters that the caller's SQL uses before.
    pub(super) fn new(params: Vec<Value>) -> Self {
        Self { sql: "WHERE true".to_owned(), params }
    }

    /// Adds a condition with `?` in place of each parameter.
    pub(super) fn and(&mut self, condition: &str, params: impl IntoIterator<Item = Value>) {
        self.sql.push_str(" AND (");
        let mut params = params.into_iter();
        let mut parts = condition.split('?').peekable();
        while let Some(part) = parts.next() {
            self.sql.push_str(part);
            let Some(next) = parts.peek() else { break };
            if next.starts_with(|c: char| c.is_ascii_digit()) {
                self.sql.push('?');
            } else {
                self.params.extend(params.next());
                self.sql.push_str(&format!("?{}", self.params.len()));
            }
        }
        self.sql.push(')');
    }

    /// Adds "one of", if there is a choice. One alone is looked up by the column's index, which
    /// then gives the order, too; several would have to be sorted, so the rows are read in order
    /// instead (`+` keeps the index out).
    pub(super) fn and_in(&mut self, column: &str, ids: Option<Vec<i64>>) -> Result<()> {
        match ids.as_deref() {
            None => {}
            Some(&[id]) => self.and(&format!("{column} = ?"), [id.into()]),
            Some(ids) => {
                let list = Value::Text(json(&ids)?);
                self.and(&format!("+{column} IN (SELECT value FROM json_each(?))"), [list]);
            }
        }
        Ok(())
    }

    /// Adds a condition on named fields.
    ///
    /// # Errors
    /// `Internal` for a field that the table does not have: the caller checks names beforehand.
    pub(super) fn and_condition(&mut self, condition: &Condition, fields: &Fields) -> Result<()> {
        match condition {
            Condition::OneOf { field, values, negated } => {
                let list = Value::Text(json(values)?);
                let not = if *negated { "NOT " } else { "" };
                let column = fields.column(field)?;
                self.and(
                    &format!("coalesce({column}, '') {not}IN (SELECT value FROM json_each(?))"),
                    [list],
                );
            }
            Condition::Time { field, from, until } => {
                let column = fields.column(field)?;
                if let Some(from) = from {
                    self.and(&format!("{column} >= ?"), [us(*from).into()]);
                }
                if let Some(until) = until {
                    self.and(&format!("{column} < ?"), [us(*until).into()]);
                }
            }
            Condition::Label { key, value, negated } => {
                let not = if *negated { "NOT " } else { "" };
                let label = fields.label;
                let key = Value::Text(key.clone());
                match value {
                    None => self.and(&format!("{not}({label} IS NOT NULL)"), [key]),
                    Some(value) => {
                        let value = Value::Text(value.clone());
                        self.and(&format!("{not}({label} IS ?)"), [key, value]);
                    }
                }
            }
            // Told by the id alone, which the index of a list has: see `RunId::shard`.
            Condition::ShardOf(None) => self.and("substr(r.id, 7, 2) <> x'ffff'", []),
            Condition::ShardOf(Some(parent)) => {
                let (first, last) = RunId::shards(*parent);
                let blob = |id: RunId| Value::Blob(id.to_bytes().to_vec());
                self.and("r.id BETWEEN ? AND ?", [blob(first), blob(last)]);
            }
            Condition::Contains { field, text, negated } => {
                let not = if *negated { "NOT " } else { "" };
                let column = fields.column(field)?;
                let text = Value::Text(text.clone());
                self.and(
                    &format!("{not}(instr(lower(coalesce({column}, '')), lower(?)) > 0)"),
                    [text],
                );
            }
        }
        Ok(())
    }

    /// The clause, with what follows it, and all parameters.
    pub(super) fn finish(self, rest: &str) -> (String, Vec<Value>) {
        (format!("{} {rest}", self.sql), self.params)
    }
}
