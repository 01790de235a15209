//! `jobs next`: the coming fire times of a saved job.

use clap::Args;
use clawjob_proto::v1::{PreviewScheduleRequest, PreviewScheduleResponse, schedule::Trigger};

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

/// Asks for each schedule of the job and merges the answers: a fire time that two share is one.
pub(super) async fn run(ctx: &mut Context<'_>, args: JobNextArgs) -> Result<(), CliError> {
    let after = args.after.as_deref().map(|text| values::instant(text, &ctx.term.zone));
    let after = after.transpose().map_err(|fault| CliError::usage(format!("--after: {fault}")))?;
    let name = ctx.name(Kind::Job, &args.name)?;
    let job = get(&mut ctx.client, name).await?;
    let parent = names::split(&job.name).map(|(app, _)| format!("apps/{app}"));
    let mut merged = PreviewScheduleResponse::default();
    let mut descriptions = Vec::new();
    for schedule in &job.schedules {
        let mut schedule = schedule.clone();
        if matches!(schedule.trigger, Some(Trigger::Interval(_))) && schedule.start_time.is_none() {
            // The contract counts an interval from the job's creation, which the preview of a
            // bare schedule cannot know.
            schedule.start_time = job.create_time;
        }
        let rq = PreviewScheduleRequest {
            parent: parent.clone().unwrap_or_default(),
            schedule: Some(schedule),
            count: args.count.into(),
            after,
        };
        let rpc = async |ch, rq| jobs(ch).preview_schedule(rq).await;
        let preview = ctx.client.call(Call::SAFE, rq, rpc).await?;
        merged.fire_times.extend(preview.fire_times);
        merged.warnings.extend(preview.warnings);
        merged.cron_dialect = preview.cron_dialect;
        descriptions.push(preview.description);
    }
    merged.fire_times.sort_by_key(|at| (at.seconds, at.nanos));
    merged.fire_times.dedup();
    merged.fire_times.truncate(args.count.into());
    merged.description = descriptions.join("; ");
    let zone = job.schedules.first().map_or("", |schedule| schedule.time_zone.as_str());
    cron::print(ctx, &merged, if zone.is_empty() { "UTC" } else { zone })
}
