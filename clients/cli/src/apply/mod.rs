//! `clawjob apply` and `clawjob export`: jobs as a file.

mod calendars;
mod depth;
mod diff;
mod export;
mod file;
mod friendly;
mod hint;
mod normalize;
mod order;
mod plan;
mod rules;
mod walk;
mod write;

pub(crate) use diff::changes;
pub(crate) use export::run as run_export;
pub(crate) use file::read;

pub(crate) use export::ExportArgs;
pub(crate) use write::ApplyArgs;
pub(crate) use write::run;
