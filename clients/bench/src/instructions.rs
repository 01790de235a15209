//! B10 without a clock: the instructions of the hot parts, counted by callgrind, against a baseline
//! that is committed. Counts of one compiler and profile hardly vary, however busy the machine is.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

/// A count may be off by so much, as a share of the baseline's.
const TOLERANCE: f64 = 0.03;
/// The function whose calls are counted, as callgrind names it.
const COUNTED: &str = "*hot::counted*";
/// The same in other letters, since callgrind keeps one option for each text.
const COUNTED_TOO: &str = "*::hot::counted*";

/// What may be said about it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Write the baseline instead of comparing with it.
    #[arg(long)]
    pub update: bool,
    /// The baseline.
    #[arg(long, default_value = "clients/bench/instructions.json")]
    pub baseline: PathBuf,
}

/// What was counted, and of which program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Counts {
    /// As it names itself.
    compiler: String,
    /// `debug` or `release`.
    profile: String,
    /// Instructions of one call, by the name of the part.
    instructions: BTreeMap<String, u64>,
}

/// Counts, and compares or writes. Returns whether all is within the tolerance.
///
/// # Errors
/// There is no valgrind or no baseline, or they can't be read.
pub fn run(args: &Args) -> Result<bool> {
    let now = count()?;
    if args.update {
        fs::write(&args.baseline, serde_json::to_string_pretty(&now)? + "\n")
            .with_context(|| format!("writing {}", args.baseline.display()))?;
        println!("{} counts written to {}", now.instructions.len(), args.baseline.display());
        return Ok(true);
    }
    let text = fs::read_to_string(&args.baseline).with_context(|| {
        format!("no baseline at {}: write it with --update", args.baseline.display())
    })?;
    let before: Counts = serde_json::from_str(&text).context("the baseline")?;
    let (lines, alike) = compare(&before, &now);
    println!("b10: instructions of one call, {}, profile {}", now.compiler, now.profile);
    lines.iter().for_each(|line| println!("  {line}"));
    if (&before.compiler, &before.profile) != (&now.compiler, &now.profile) {
        let Counts { compiler, profile, .. } = &before;
        println!("not compared: the baseline is of {compiler}, profile {profile}");
        return Ok(true);
    }
    if !alike {
        println!("if that is as it should be: clawjob-bench b10 --update");
    }
    Ok(alike)
}

/// A line for each part, and whether all are within the tolerance.
fn compare(before: &Counts, now: &Counts) -> (Vec<String>, bool) {
    let mut alike = true;
    let mut lines = Vec::new();
    for (name, count) in &now.instructions {
        let Some(base) = before.instructions.get(name) else {
            lines.push(format!("{name:28} {count:>10}  not in the baseline"));
            alike = false;
            continue;
        };
        let change = (*count as f64 - *base as f64) / (*base).max(1) as f64;
        let is_off = change.abs() > TOLERANCE;
        let word = if is_off { "  OFF" } else { "" };
        alike &= !is_off;
        let percent = change * 100.0;
        lines.push(format!("{name:28} {count:>10}  before {base:>10}  {percent:+.2} %{word}"));
    }
    for name in before.instructions.keys().filter(|name| !now.instructions.contains_key(*name)) {
        lines.push(format!("{name:28} only in the baseline"));
        alike = false;
    }
    (lines, alike)
}

/// Runs the parts of this very program under callgrind, which writes a file after each.
fn count() -> Result<Counts> {
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("part");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", &format!("--toggle-collect={COUNTED}")])
        .arg(format!("--dump-after={COUNTED_TOO}"))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .arg("hot")
        .stderr(Stdio::inherit())
        .output()
        .context("no valgrind here: install it (Debian: apt-get install valgrind)")?;
    if !output.status.success() {
        bail!("valgrind: {}", output.status);
    }
    let mut instructions = BTreeMap::new();
    for (line, part) in String::from_utf8_lossy(&output.stdout).lines().zip(1_u32..) {
        let (name, calls) = line.split_once(' ').context("a name and a number of calls")?;
        let all = total(&out.with_extension(part.to_string()))?;
        instructions.insert(name.to_owned(), all / calls.parse::<u64>()?.max(1));
    }
    let (compiler, profile) = (env!("BENCH_COMPILER").into(), env!("BENCH_PROFILE").into());
    Ok(Counts { compiler, profile, instructions })
}

/// The sum of one of callgrind's files.
fn total(path: &Path) -> Result<u64> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("callgrind counted no part: no {}", path.display()))?;
    let sum = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let sum = sum.context("callgrind wrote no totals")?.trim().parse()?;
    if sum == 0 { bail!("callgrind met no {COUNTED}") } else { Ok(sum) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(instructions: &[(&str, u64)]) -> Counts {
        let instructions = instructions.iter().map(|(name, count)| ((*name).to_owned(), *count));
        Counts {
            compiler: "rustc".to_owned(),
            profile: "debug".to_owned(),
            instructions: instructions.collect(),
        }
    }

    #[test]
    fn three_percent_either_way_are_let_pass_and_more_is_told() {
        let before = counts(&[("tick", 1_000)]);
        for (count, expected) in [(970, true), (1_030, true), (969, false), (1_031, false)] {
            let (lines, alike) = compare(&before, &counts(&[("tick", count)]));
            assert_eq!(alike, expected, "{lines:?}");
            assert_eq!(lines[0].ends_with("OFF"), !expected, "{lines:?}");
        }
    }

    #[test]
    fn a_part_that_is_only_on_one_side_is_told() {
        let (one, two) = (counts(&[("tick", 9)]), counts(&[("tick", 9), ("encode", 9)]));
        for (before, now) in [(&one, &two), (&two, &one)] {
            let (lines, alike) = compare(before, now);
            assert!(!alike && lines.iter().any(|line| line.starts_with("encode")), "{lines:?}");
        }
    }
}
