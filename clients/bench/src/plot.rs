//! Pictures of what a row's JSON says: lines over time, or over the number of schedules.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use plotters::prelude::*;
use serde::Deserialize;

use crate::row::{Cpu, Late, Series};

/// Pixels.
const WIDTH: u32 = 900;
const PANEL_HEIGHT: u32 = 220;
const FONT: &str = "sans-serif";

/// One panel each, with the series that it shows.
const PANELS: [(&str, &[&str]); 7] = [
    ("runs per second", &["runs_per_s"]),
    ("late, ms", &["late_p50_ms", "late_p99_ms"]),
    ("CPU of a run, us", &["scheduler_us_per_run", "postgres_us_per_run"]),
    ("log of a run, bytes", &["wal_bytes_per_run"]),
    ("memory of the scheduler, MiB", &["resident_mib"]),
    ("tables with their indexes, MiB", &["job_mib", "open_run_mib", "ended_run_mib"]),
    ("dead rows", &["dead_rows_of_open_run", "dead_rows_of_all"]),
];

/// What may be said about it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What a row has written, such as target/clawjob-bench/b6.json.
    pub json: PathBuf,
    /// The picture.
    pub svg: PathBuf,
}

/// As `row::write` writes it.
#[derive(Deserialize)]
struct Document {
    machine: String,
    rows: Vec<Seen>,
}

#[derive(Deserialize)]
struct Seen {
    what: String,
    late: Late,
    cpu: Cpu,
    wal_bytes: f64,
    resident_mib: f64,
    more: std::collections::BTreeMap<String, f64>,
    series: Series,
}

/// What is drawn.
struct Picture {
    title: String,
    /// Whether x is the logarithm of a number of schedules, else minutes.
    over_schedules: bool,
    series: Series,
}

/// Draws it.
///
/// # Errors
/// The file is none of a row's, or has nothing to draw.
pub fn run(args: &Args) -> Result<()> {
    let text = std::fs::read_to_string(&args.json)
        .with_context(|| format!("reading {}", args.json.display()))?;
    draw(&picture(&text)?, &args.svg)?;
    println!("drawn: {}", args.svg.display());
    Ok(())
}

/// The series of the last row that has some; else a series over the schedules of all rows.
fn picture(json: &str) -> Result<Picture> {
    let document: Document = serde_json::from_str(json).context("the JSON of a row")?;
    let machine = document.machine;
    if let Some(row) = document.rows.iter().rfind(|row| !row.series.is_empty()) {
        let mut series = row.series.clone();
        series.values_mut().flatten().for_each(|point| point.0 /= 60.0);
        let title = format!("{}; {machine}", row.what);
        return Ok(Picture { title, over_schedules: false, series });
    }
    let mut series = Series::new();
    for row in &document.rows {
        let Some(schedules) = row.more.get("schedules") else { continue };
        let own = [
            ("late_p50_ms", row.late.p50_ms),
            ("late_p99_ms", row.late.p99_ms),
            ("scheduler_us_per_run", row.cpu.scheduler_us),
            ("postgres_us_per_run", row.cpu.postgres_us),
            ("wal_bytes_per_run", row.wal_bytes),
            ("resident_mib", row.resident_mib),
        ];
        let more = row.more.iter().map(|(name, value)| (name.as_str(), *value));
        for (name, value) in own.into_iter().chain(more) {
            series.entry(name.to_owned()).or_default().push((schedules.log10(), value));
        }
    }
    if series.is_empty() {
        bail!("nothing to draw: it has no series, and its rows no number of schedules");
    }
    series.values_mut().for_each(|points| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    Ok(Picture { title: format!("growth; {machine}"), over_schedules: true, series })
}

fn draw(picture: &Picture, svg: &Path) -> Result<()> {
    let has = |names: &&[&str]| names.iter().any(|name| picture.series.contains_key(*name));
    let panels: Vec<_> = PANELS.iter().filter(|(_, names)| has(names)).collect();
    let height = PANEL_HEIGHT * u32::try_from(panels.len())? + 30;
    let root = SVGBackend::new(svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let root = root.titled(&picture.title, (FONT, 14))?;
    for (area, (title, names)) in root.split_evenly((panels.len(), 1)).iter().zip(panels) {
        let lines: Vec<_> =
            names.iter().filter_map(|name| Some((*name, picture.series.get(*name)?))).collect();
        panel(area, title, &lines, picture.over_schedules)?;
    }
    root.present()?;
    Ok(())
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    title: &str,
    lines: &[(&str, &Vec<(f64, f64)>)],
    over_schedules: bool,
) -> Result<()> {
    let points = || lines.iter().flat_map(|(_, points)| points.iter());
    let left = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let right = points().map(|point| point.0).fold(left + 1e-9, f64::max);
    let left = if over_schedules { left } else { 0.0 };
    let top = points().map(|point| point.1).fold(1e-9, f64::max) * 1.1;
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 14))
        .margin(8)
        .margin_right(40)
        .x_label_area_size(32)
        .y_label_area_size(64)
        .build_cartesian_2d(left..right, 0.0..top)?;
    let x_words = |x: &f64| match over_schedules {
        true => format!("{:.0}", 10_f64.powf(*x)),
        false => format!("{x:.0}"),
    };
    chart
        .configure_mesh()
        .x_desc(if over_schedules { "schedules" } else { "minutes" })
        .x_labels(if over_schedules { 4 } else { 10 })
        .y_labels(5)
        .x_label_formatter(&x_words)
        .max_light_lines(0)
        .draw()?;
    for (number, (name, points)) in lines.iter().enumerate() {
        let colour = Palette99::pick(number).to_rgba();
        let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
        let legend = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2));
        chart.draw_series(line)?.label(*name).legend(legend);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{self, Row};

    fn drawn(rows: &[Row]) -> Result<String> {
        let dir = tempfile::tempdir()?;
        let (json, svg) = (dir.path().join("rows.json"), dir.path().join("rows.svg"));
        row::write(&json, rows)?;
        run(&Args { json, svg: svg.clone() })?;
        Ok(std::fs::read_to_string(svg)?)
    }

    #[test]
    fn rows_of_growing_size_become_lines_over_schedules() {
        let row = |schedules: f64| Row {
            late: Late { p99_ms: 9.0, ..Late::default() },
            more: [("schedules".to_owned(), schedules), ("job_mib".to_owned(), 3.0)].into(),
            ..Row::default()
        };
        let svg = drawn(&[row(1_000.0), row(1_000_000.0)]).unwrap();
        for part in ["schedules", "late_p99_ms", "job_mib", "<polyline"] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(!svg.contains("dead rows"));
    }

    #[test]
    fn series_become_lines_over_time_and_rows_without_either_are_refused() {
        let points = vec![(10.0, 1.0), (20.0, 4.0)];
        let series = [("dead_rows_of_all".to_owned(), points)].into();
        let svg = drawn(&[Row { what: "3 jobs".to_owned(), series, ..Row::default() }]).unwrap();
        assert!(svg.contains("minutes") && svg.contains("3 jobs") && svg.contains("dead rows"));
        let refused = drawn(&[Row::default()]).unwrap_err().to_string();
        assert!(refused.contains("nothing to draw"), "{refused}");
    }
}
