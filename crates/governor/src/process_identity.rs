//! Who a process is, beyond its number: numbers are used again.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A process of one boot of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessIdentity {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the boot.
    pub started_ticks: u64,
    /// The boot.
    pub boot_id: String,
}

impl ProcessIdentity {
    /// This process.
    pub fn own() -> std::io::Result<Self> {
        let pid = std::process::id();
        let started_ticks = started_ticks(pid).ok_or_else(|| {
            std::io::Error::other(format!("/proc/{pid}/stat cannot be read: mount /proc"))
        })?;
        Ok(Self { pid, started_ticks, boot_id: boot_id()? })
    }

    /// Whether it still runs: a process of the same number that started at another time is another one.
    pub fn is_alive(&self) -> bool {
        self.is_of_this_boot() && started_ticks(self.pid) == Some(self.started_ticks)
    }

    /// Whether the machine has not been started again since.
    pub fn is_of_this_boot(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot_id)
    }
}

impl fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)
    }
}

fn boot_id() -> std::io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// None if there is no such process, or nothing but its exit status is left of it.
fn started_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets, with anything in it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    // State is the third field, the start the twenty-second.
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_the_same_number_is_another_one_if_it_started_at_another_time() {
        let own = ProcessIdentity::own().unwrap();
        assert!(own.is_alive());
        let reused = ProcessIdentity { started_ticks: own.started_ticks - 1, ..own.clone() };
        assert!(!reused.is_alive() && reused.is_of_this_boot());
        let earlier_boot = ProcessIdentity { boot_id: "another".to_owned(), ..own };
        assert!(!earlier_boot.is_alive() && !earlier_boot.is_of_this_boot());
    }

    #[test]
    fn a_process_that_ended_is_not_alive_even_before_its_parent_knows() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let own = ProcessIdentity::own().unwrap();
        let started_ticks = started_ticks(child.id()).unwrap();
        let identity = ProcessIdentity { pid: child.id(), started_ticks, ..own };
        assert!(identity.is_alive());
        child.kill().unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while identity.is_alive() {
            assert!(std::time::Instant::now() < end, "still alive");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.wait().unwrap();
        assert!(!identity.is_alive());
    }
}
