//! A small file system that is full when whoever holds it says so.

#![allow(dead_code, unreachable_pub, reason = "each program uses a part of it")]

use std::{
    path::Path,
    process::{Command, Output},
};

/// Tries of making it as small as what is in it, which may grow meanwhile.
const FILL_TRIES: u32 = 50;

/// A tmpfs of its own, unmounted when this is dropped.
pub struct Small {
    dir: tempfile::TempDir,
    mib: u32,
}

impl Small {
    /// Mounts one of so many MiB with further options, such as `mode=1777`.
    ///
    /// # Errors
    /// In words: most often, that this process may not.
    pub fn mount(mib: u32, options: &str) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|fault| fault.to_string())?;
        let options = format!("size={mib}m,{options}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "clawjob-test"]).arg(dir.path());
        run(mount).map(|_| Self { dir, mib })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// From now on nothing more goes into it.
    ///
    /// # Errors
    /// It is not mounted any more.
    pub fn fill(&self) -> Result<(), String> {
        let mut last = Ok(());
        for _ in 0..FILL_TRIES {
            last = self.resize(&self.used()?);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// Gives it the room back that it had.
    ///
    /// # Errors
    /// It is not mounted any more.
    pub fn free(&self) -> Result<(), String> {
        self.resize(&format!("{}m", self.mib))
    }

    /// Bytes in it.
    fn used(&self) -> Result<String, String> {
        let mut df = Command::new("df");
        df.args(["-B1", "--output=used"]).arg(self.path());
        let output = run(df)?;
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(lines.lines().last().unwrap_or_default().trim().to_owned())
    }

    fn resize(&self, size: &str) -> Result<(), String> {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,size={size}")]).arg(self.path());
        run(mount).map(drop)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // At once, even while somebody has a file of it open.
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}

fn run(mut command: Command) -> Result<Output, String> {
    let output = command.output().map_err(|fault| fault.to_string())?;
    match output.status.success() {
        true => Ok(output),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
