//! `jobs next`: the coming fire times of a saved job.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use clawjob_proto::v1::{
    PreviewScheduleRequest, PreviewScheduleResponse, Schedule, schedule::Trigger,
};
use prost_types::Timestamp;

use super::get;
use crate::{
    client::{Call, jobs},
    context::Context,
    cron,
    error::CliError,
    names::{self, Kind},
    values,
};

/// What `jobs next` takes.
#[derive(Args, Debug, Clone)]
pub struct JobNextArgs {
    /// APP/JOB
    name: String,
    /// How many fire times
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 5)]
    count: u16,
    /// The first after this instant [default: now]
    #[arg(long, value_name = "TIME")]
    after: Option<String>,
}

/// What schedules say of one fire time.
#[derive(Default)]
struct Fire {
    zones: BTreeSet<String>,
    /// When its run is due: the earliest counts.
    dues: BTreeSet<(i64, i32)>,
}

/// Asks for each schedule of the job and merges the answers: a fire time that several share is one,
/// shown in the zones of all of them.
pub(super) async fn run(ctx: &mut Context<'_>, args: JobNextArgs) -> Result<(), CliError> {
    let after = args.after.as_deref().map(|text| values::instant(text, &ctx.term.zone));
    let after = after.transpose().map_err(|fault| CliError::usage(format!("--after: {fault}")))?;
    let name = ctx.name(Kind::Job, &args.name)?;
    let job = get(&mut ctx.client, name).await?;
    let parent = names::split(&job.name).map(|(app, _)| format!("apps/{app}"));
    let mut merged = PreviewScheduleResponse::default();
    let mut descriptions = Vec::new();
    let mut fires: BTreeMap<(i64, i32), Fire> = BTreeMap::new();
    for schedule in &job.schedules {
        let mut schedule = schedule.clone();
        if counts_from_creation(&schedule) && schedule.start_time.is_none() {
            // The contract counts an interval from the job's creation, which the preview of a
            // bare schedule cannot know.
            schedule.start_time = job.create_time;
        }
        let zone = match schedule.time_zone.as_str() {
            "" => "UTC".to_owned(),
            name => name.to_owned(),
        };
        let rq = PreviewScheduleRequest {
            parent: parent.clone().unwrap_or_default(),
            schedule: Some(schedule),
            count: args.count.into(),
            after,
            job: job.name.clone(),
        };
        let rpc = async |ch, rq| jobs(ch).preview_schedule(rq).await;
        let preview = ctx.client.call(Call::SAFE, rq, rpc).await?;
        for (index, at) in preview.fire_times.into_iter().enumerate() {
            let fire = fires.entry((at.seconds, at.nanos)).or_default();
            fire.zones.insert(zone.clone());
            let due = *preview.due_times.get(index).unwrap_or(&at);
            fire.dues.insert((due.seconds, due.nanos));
        }
        merged.warnings.extend(preview.warnings);
        merged.cron_dialect = preview.cron_dialect;
        descriptions.push(preview.description);
    }
    let fires = fires.into_iter().take(args.count.into());
    let mut of_fires = Vec::new();
    for ((seconds, nanos), fire) in fires {
        merged.fire_times.push(Timestamp { seconds, nanos });
        let due = fire.dues.first().map(|(seconds, nanos)| (*seconds, *nanos));
        let (seconds, nanos) = due.unwrap_or((seconds, nanos));
        merged.due_times.push(Timestamp { seconds, nanos });
        of_fires.push(fire.zones.into_iter().collect());
    }
    if merged.due_times == merged.fire_times {
        // As the server has it for a schedule without a spread.
        merged.due_times.clear();
    }
    merged.description = descriptions.join("; ");
    cron::print(ctx, &merged, &of_fires)
}

/// Whether a schedule without a start is counted from the job's creation.
fn counts_from_creation(schedule: &Schedule) -> bool {
    match &schedule.trigger {
        Some(Trigger::Interval(_)) => true,
        Some(Trigger::Cron(text)) => text.trim_start().starts_with("@every"),
        _ => false,
    }
}
