//! What goes on during a load: a sample each so many seconds, as lines over time.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{stage::Stage, tables};
use crate::{host, meter::Meter, row::Series, swarm::Swarm};

/// Samples until `length` is over.
pub(super) async fn take(
    stage: &Stage,
    swarm: &mut Swarm,
    every: Duration,
    length: Duration,
) -> Result<Series> {
    let begun = Instant::now();
    let mut series = Series::new();
    swarm.lap()?;
    while begun.elapsed() + every <= length {
        let meter = Meter::start(stage.watched(swarm), stage.client.as_ref()).await?;
        tokio::time::sleep(every).await;
        let cost = meter.stop(stage.client.as_ref()).await?;
        let lap = swarm.lap()?;
        let [p50, p99, _, most] = lap.late_us.map(|us| us as f64 / 1e3);
        let cpu = cost.per_run(lap.runs);
        let (resident, _) = host::resident_bytes(stage.nodes[0].pid());
        let mut sample = vec![
            ("runs_per_s", lap.runs as f64 / cost.took_s),
            ("late_p50_ms", p50),
            ("late_p99_ms", p99),
            ("late_max_ms", most),
            ("scheduler_us_per_run", cpu.scheduler_us),
            ("postgres_us_per_run", cpu.postgres_us),
            ("wal_bytes_per_run", cost.wal as f64 / lap.runs.max(1) as f64),
            ("resident_mib", resident as f64 / 1_048_576.0),
            ("foreign_cores", cost.machine.foreign_cores),
        ];
        if let Some(client) = &stage.client {
            sample.extend(tables::sizes(client).await?);
        }
        let at = begun.elapsed().as_secs_f64();
        for (name, value) in sample {
            series.entry(name.to_owned()).or_default().push((at, value));
        }
    }
    tokio::time::sleep(length.saturating_sub(begun.elapsed())).await;
    Ok(series)
}
