//! What the kernel says of processes and of the machine.

use std::{collections::HashMap, fs};

/// Ticks of a second in /proc/PID/stat; fixed by the kernel's interface.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds of CPU that a process has used. With `reaped`, also those of its children that it has
/// waited for. A process that is gone has used none.
#[must_use]
pub fn cpu_seconds(pid: u32, reaped: bool) -> f64 {
    stat(pid).map_or(0.0, |stat| stat.own + if reaped { stat.reaped } else { 0.0 })
}

/// The same of a process with all its living children: a Postgres server.
#[must_use]
pub fn family_cpu_seconds(pid: u32) -> f64 {
    let living = pids().into_iter().filter_map(stat).filter(|stat| stat.parent == pid);
    cpu_seconds(pid, true) + living.map(|stat| stat.own).sum::<f64>()
}

/// Resident memory of a process, bytes, and the most it ever had.
#[must_use]
pub fn resident_bytes(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    };
    (of("VmRSS:"), of("VmHWM:"))
}

/// Seconds of CPU that the whole machine has used, over all cores.
#[must_use]
pub fn machine_cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, irq, softirq; idle and iowait are the fourth and fifth, steal is another
    // machine's.
    let busy = [0, 1, 2, 5, 6].into_iter().filter_map(|index| ticks.get(index));
    busy.sum::<f64>() / TICKS_PER_SECOND
}

/// Microseconds in which some task waited for a CPU, since the boot.
#[must_use]
pub fn cpu_pressure_us() -> u64 {
    let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let total = text.lines().next().and_then(|line| line.rsplit_once("total="));
    total.and_then(|(_, total)| total.trim().parse().ok()).unwrap_or(0)
}

/// The load average of the last minute.
#[must_use]
pub fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

/// The machine in a line: cores, their model, memory, kernel.
#[must_use]
pub fn describe() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let fields: HashMap<&str, &str> =
        cpu.lines().filter_map(|line| line.split_once(':')).map(trimmed).collect();
    let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let model = fields.get("model name").copied().unwrap_or("unknown CPU");
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} x {model}, {:.0} GiB, Linux {}", kib / 1_048_576.0, kernel.trim())
}

fn trimmed<'a>((name, value): (&'a str, &'a str)) -> (&'a str, &'a str) {
    (name.trim(), value.trim())
}

struct Stat {
    parent: u32,
    own: f64,
    reaped: f64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; what follows it is plain.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let seconds = |index: usize| Some(fields.get(index)?.parse::<f64>().ok()? / TICKS_PER_SECOND);
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: seconds(11)? + seconds(12)?,
        reaped: seconds(13)? + seconds(14)?,
    })
}

fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_cpu_and_memory_and_the_machine_more() {
        let me = std::process::id();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while cpu_seconds(me, false) == 0.0 && std::time::Instant::now() < until {
            std::hint::black_box(0);
        }
        // Read before what it is compared with: other tests of this process go on meanwhile.
        let own = cpu_seconds(me, false);
        assert!(own > 0.0);
        assert!(family_cpu_seconds(me) >= own);
        assert!(machine_cpu_seconds() > own);
        let (now, most) = resident_bytes(me);
        assert!(now > 0 && most >= now);
        assert_eq!(cpu_seconds(u32::MAX, true), 0.0);
        assert!(describe().contains("GiB"));
    }
}
