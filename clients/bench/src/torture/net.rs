//! How a scheduler is joined to the rest, so that it can be cut off: by a wire of its own where this
//! process may make network namespaces, else by a relay in front of Postgres.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

use crate::relay::{Cut, Relay};

/// A network for benchmarks (RFC 2544) that no other host has: each wire takes four addresses.
const NETWORK: u32 = (198 << 24) | (18 << 16);
/// So many wires fit into it.
const WIRES_MAX: u32 = 1 << 15;
/// Wires of one process.
const WIRES_OF_PROCESS_MAX: u32 = 16;
/// Where `ip` keeps the names of namespaces.
const NAMESPACES: &str = "/var/run/netns";

/// The way of one scheduler.
pub enum Link {
    /// Carries its connections to Postgres.
    Relay(Relay),
    /// Carries everything.
    Wire(Wire),
}

/// A pair of joined interfaces, one of them in a namespace of its own.
pub struct Wire {
    name: String,
    near: String,
    far: String,
    /// Address on this side.
    pub here: String,
    /// Address in the namespace.
    pub there: String,
}

impl Link {
    /// Cuts, or heals. `to_target` is the direction from the scheduler to Postgres.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set(&self, cut: Cut) -> Result<()> {
        match self {
            Self::Relay(relay) => {
                relay.set(cut);
                Ok(())
            }
            Self::Wire(wire) => wire.set(cut),
        }
    }
}

impl Wire {
    /// The wire number `number` of this process.
    ///
    /// # Errors
    /// This process may not, or there are too many.
    pub fn new(number: u32) -> Result<Self> {
        if number >= WIRES_OF_PROCESS_MAX {
            bail!("at most {WIRES_OF_PROCESS_MAX} schedulers can have wires");
        }
        remove_left();
        let process = std::process::id();
        let place = process.wrapping_mul(WIRES_OF_PROCESS_MAX).wrapping_add(number) % WIRES_MAX;
        let network = NETWORK + place * 4;
        let address = |host: u32| std::net::Ipv4Addr::from(network + host).to_string();
        let name = name(process, number);
        let (near, far) = (format!("{name}h"), format!("{name}s"));
        ip(&["netns", "add", &name])?;
        // From here on it is removed again, whatever fails.
        let wire = Self { near, far, here: address(1), there: address(2), name };
        let Self { name, near, far, here, there } = &wire;
        ip(&["link", "add", near, "type", "veth", "peer", "name", far])?;
        ip(&["link", "set", far, "netns", name])?;
        ip(&["addr", "add", &format!("{here}/30"), "dev", near])?;
        ip(&["link", "set", near, "up"])?;
        ip(&["-n", name, "addr", "add", &format!("{there}/30"), "dev", far])?;
        ip(&["-n", name, "link", "set", far, "up"])?;
        ip(&["-n", name, "link", "set", "lo", "up"])?;
        Ok(wire)
    }

    /// The words that start a program behind it.
    #[must_use]
    pub fn prefix(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.name].map(str::to_owned).to_vec()
    }

    fn set(&self, cut: Cut) -> Result<()> {
        let inside = ["ip", "netns", "exec", &self.name, "tc"];
        self.close(&inside, &self.far, cut.to_target)?;
        self.close(&["tc"], &self.near, cut.from_target)
    }

    /// An interface with a queue of no length drops all it is to send, and says nothing.
    fn close(&self, tc: &[&str], interface: &str, closed: bool) -> Result<()> {
        let replace = ["qdisc", "replace", "dev", interface, "root", "pfifo", "limit"];
        let limit = if closed { "0" } else { "1000" };
        run(tc.iter().chain(&replace).copied().chain([limit]))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Its interfaces go with it.
        let _ = ip(&["netns", "del", &self.name]);
    }
}

/// Of a wire's namespace.
fn name(process: u32, number: u32) -> String {
    format!("cj{process}n{number}")
}

/// The process whose wire has this name.
fn process_of(name: &str) -> Option<u32> {
    let (process, number) = name.strip_prefix("cj")?.split_once('n')?;
    number.parse::<u32>().ok()?;
    process.parse().ok()
}

/// Removes the wires of processes that were killed before they could. They would take addresses that
/// later processes want, and whoever watches the interfaces of the machine sees them for ever.
fn remove_left() {
    let Ok(entries) = std::fs::read_dir(NAMESPACES) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_left = |process| !Path::new("/proc").join(format!("{process}")).exists();
        if process_of(name).is_some_and(is_left) {
            // Another process may have done so meanwhile.
            let _ = ip(&["netns", "del", name]);
        }
    }
}

fn ip(args: &[&str]) -> Result<()> {
    run(std::iter::once("ip").chain(args.iter().copied()))
}

fn run<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<()> {
    let program = words.next().context("a program")?;
    let words: Vec<&str> = words.collect();
    let output = Command::new(program).args(&words).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("{program} {}: {}", words.join(" "), said.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_whose_a_wire_is_and_others_are_let_be() {
        assert_eq!(process_of(&name(4_711, 15)), Some(4_711));
        for other in ["cj", "cjn", "cj12", "cjxn1", "cj12nx", "cj12n", "docker0", "n1", ""] {
            assert_eq!(process_of(other), None, "{other}");
        }
    }

    #[test]
    fn wires_of_a_killed_process_are_gone_with_the_next_one() {
        let mut gone = Command::new("true").spawn().expect("starts");
        gone.wait().expect("ends");
        let (left, alive) = (name(gone.id(), 3), name(std::process::id(), 9));
        if ip(&["netns", "add", &left]).is_err() {
            eprintln!("left out: this process may not make network namespaces");
            return;
        }
        ip(&["netns", "add", &alive]).expect("one more");
        let wire = Wire::new(7).expect("a wire");
        let there = |name: &str| Path::new(NAMESPACES).join(name).exists();
        let seen = [there(&left), there(&alive), there(&wire.name)];
        ip(&["netns", "del", &alive]).expect("removed");
        assert_eq!(seen, [false, true, true]);
    }
}
