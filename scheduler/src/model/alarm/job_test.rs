//! Tests of a job, as a rule's filter asks for them.

use serde::{Deserialize, Serialize};

use crate::model::job::JobSpec;

/// A field of a job that a rule may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobField {
    /// Its id.
    Name,
    /// Its handler.
    Handler,
    /// Who answers for it.
    Owner,
    /// Its name for people.
    DisplayName,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobTest {
    /// The field equals one of the values.
    OneOf {
        /// Which.
        field: JobField,
        /// Texts.
        values: Vec<String>,
        /// NOT.
        negated: bool,
    },
    /// The text occurs in the field, whatever the case.
    Contains {
        /// Which.
        field: JobField,
        /// Part of it.
        text: String,
        /// NOT.
        negated: bool,
    },
    /// A label has the value.
    Label {
        /// Its key.
        key: String,
        /// Its value; None asks only whether it is there.
        value: Option<String>,
        /// NOT.
        negated: bool,
    },
}

impl JobTest {
    /// What a job's id is compared with.
    pub fn names(&self) -> &[String] {
        match self {
            Self::OneOf { field: JobField::Name, values, .. } => values,
            Self::Contains { field: JobField::Name, text, .. } => std::slice::from_ref(text),
            _ => &[],
        }
    }

    /// Whether the job passes.
    pub fn holds(&self, name: &str, job: &JobSpec) -> bool {
        let text = |field: &JobField| match field {
            JobField::Name => name,
            JobField::Handler => &job.handler,
            JobField::Owner => &job.owner,
            JobField::DisplayName => &job.display_name,
        };
        match self {
            Self::OneOf { field, values, negated } => {
                values.iter().any(|value| value == text(field)) != *negated
            }
            Self::Contains { field, text: part, negated } => {
                text(field).to_lowercase().contains(&part.to_lowercase()) != *negated
            }
            Self::Label { key, value, negated } => {
                let found = job.labels.get(key);
                let holds = match value {
                    None => found.is_some(),
                    Some(value) => found == Some(value),
                };
                holds != *negated
            }
        }
    }
}
