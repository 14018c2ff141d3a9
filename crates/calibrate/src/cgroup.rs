//! Control groups with a unique name, removed when dropped. No other group
//! is ever written to.
//!
//! Version 2 is used where it has the CPU controller, version 1 otherwise, where every
//! controller is a tree of its own.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use homeostat_lab::{Error, Result};

/// A control group for CPU weight, CPU accounting and memory.
#[derive(Debug)]
pub struct Group {
    version: Version,
    cpu: PathBuf,
    accounting: PathBuf,
    /// Missing where the kernel or the parent does not hand the controller on.
    memory: Option<PathBuf>,
    /// What we made, and therefore remove.
    directories: Vec<PathBuf>,
    refuge: Option<Refuge>,
}

/// Which interface the kernel offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One tree, `cpu.weight`, `memory.max`.
    V2,
    /// A tree per controller, `cpu.shares`, `memory.limit_in_bytes`.
    V1,
}

impl Version {
    /// As people write it.
    pub fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

/// `cpu.shares` (2 to 262144) as `cpu.weight` (1 to 10000), as Kubernetes converts a
/// container's request: `1 + (shares - 2) * 9999 / 262142`, rounded down.
pub fn weight_of_shares(shares: u64) -> u64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9_999 / 262_142
}

/// A version 2 group that hands controllers on may hold no process itself. So in a slice
/// that was delegated to us we step aside into a leaf, and back when all is over.
#[derive(Debug)]
struct Refuge {
    slice: PathBuf,
    leaf: PathBuf,
}

impl Drop for Refuge {
    fn drop(&mut self) {
        for controller in ["-cpu", "-memory"] {
            let _ = fs::write(self.slice.join("cgroup.subtree_control"), controller);
        }
        let _ = fs::write(self.slice.join("cgroup.procs"), std::process::id().to_string());
        remove(&self.leaf);
    }
}

impl Group {
    /// A new group at the top, empty and under a name of its own.
    pub fn create() -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("homeostat-calibrate-{}-{number}", std::process::id());
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|_| Error::Groups {
            path: PathBuf::from("/sys/fs/cgroup"),
            reason: "this is not Linux, or /proc is not mounted".to_owned(),
        })?;
        let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
        let unified = mounts.iter().find(|mount| {
            mount.version == Version::V2
                && words(&mount.point, "cgroup.controllers").contains("cpu")
        });
        match unified {
            Some(mount) => Self::create_v2(&mount.point, &name),
            None => Self::create_v1(&mounts, &name),
        }
    }

    /// A new group inside this one.
    pub fn child(&self, name: &str) -> Result<Self> {
        if self.version == Version::V2 {
            let control = self.cpu.join("cgroup.subtree_control");
            let controllers = if self.memory.is_some() { "+cpu +memory" } else { "+cpu" };
            write(&control, controllers)?;
        }
        Self::make(
            self.version,
            self.cpu.join(name),
            self.accounting.join(name),
            self.memory.as_ref().map(|memory| memory.join(name)),
        )
    }

    /// Which interface it uses.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Sets the weight in units of `cpu.shares`.
    pub fn set_shares(&self, shares: u64) -> Result<()> {
        match self.version {
            Version::V1 => write(&self.cpu.join("cpu.shares"), &shares.to_string()),
            Version::V2 => {
                write(&self.cpu.join("cpu.weight"), &weight_of_shares(shares).to_string())
            }
        }
    }

    /// The weight as the kernel has it, in the unit of this version: comparable between
    /// siblings only.
    pub fn weight(&self) -> Result<u64> {
        let file = match self.version {
            Version::V1 => "cpu.shares",
            Version::V2 => "cpu.weight",
        };
        number(&self.cpu.join(file))
    }

    /// Limits memory, the cached pages of files included, or lifts the limit.
    pub fn limit_memory(&self, bytes: Option<u64>) -> Result<()> {
        let (file, unlimited) = match self.version {
            Version::V1 => ("memory.limit_in_bytes", "-1"),
            Version::V2 => ("memory.max", "max"),
        };
        let text = bytes.map_or(unlimited.to_owned(), |bytes| bytes.to_string());
        write(&self.memory()?.join(file), &text)
    }

    /// Bytes of memory in use, the cached pages of files included.
    pub fn memory_used(&self) -> Result<u64> {
        let file = match self.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        };
        number(&self.memory()?.join(file))
    }

    /// Moves a process in.
    pub fn add(&self, process: u32) -> Result<()> {
        for directory in &self.directories {
            write(&directory.join("cgroup.procs"), &process.to_string())?;
        }
        Ok(())
    }

    /// CPU time of everything that ever ran inside.
    pub fn cpu_time(&self) -> Result<Duration> {
        match self.version {
            Version::V1 => {
                Ok(Duration::from_nanos(number(&self.accounting.join("cpuacct.usage"))?))
            }
            Version::V2 => {
                let path = self.accounting.join("cpu.stat");
                let text = fs::read_to_string(&path).map_err(|error| refused(&path, &error))?;
                let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
                let usage = usage.and_then(|usage| usage.trim().parse().ok());
                usage.map(Duration::from_micros).ok_or_else(|| Error::Groups {
                    path,
                    reason: "it has no line usage_usec".to_owned(),
                })
            }
        }
    }

    fn create_v2(mount: &Path, name: &str) -> Result<Self> {
        // The root of the tree is best: only the kernel stands above our weights.
        let hands_on = |directory: &Path| words(directory, "cgroup.subtree_control");
        let make = |parent: &Path| {
            let directory = parent.join(name);
            let memory = hands_on(parent).contains("memory").then(|| directory.clone());
            Self::make(Version::V2, directory.clone(), directory, memory)
        };
        let at_root = if hands_on(mount).contains("cpu") {
            make(mount)
        } else {
            Err(Error::Groups {
                path: mount.join("cgroup.subtree_control"),
                reason: format!(
                    "it does not hand on the CPU controller; `echo +cpu +memory > {}` would",
                    mount.join("cgroup.subtree_control").display()
                ),
            })
        };
        let at_root = match at_root {
            Ok(group) => return Ok(group),
            Err(error) => error,
        };
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        if own.is_empty() {
            return Err(at_root);
        }
        let slice = mount.join(own);
        let leaf = slice.join(format!("{name}-refuge"));
        // From here on dropping the refuge undoes whatever was done.
        fs::create_dir(&leaf).map_err(|_| at_root)?;
        let refuge = Refuge { slice, leaf };
        write(&refuge.leaf.join("cgroup.procs"), &std::process::id().to_string())?;
        let control = refuge.slice.join("cgroup.subtree_control");
        write(&control, "+cpu")?;
        // Without memory only the part about paging is lost.
        let _ = fs::write(&control, "+memory");
        let mut group = make(&refuge.slice)?;
        group.refuge = Some(refuge);
        Ok(group)
    }

    fn create_v1(mounts: &[Mount], name: &str) -> Result<Self> {
        let directory = |controller: &str| {
            let has = |mount: &&Mount| mount.controllers.iter().any(|has| has == controller);
            mounts.iter().find(has).map(|mount| mount.point.join(name))
        };
        let (Some(cpu), Some(accounting)) = (directory("cpu"), directory("cpuacct")) else {
            return Err(Error::Groups {
                path: PathBuf::from("/sys/fs/cgroup"),
                reason: "no tree with the CPU controller is mounted".to_owned(),
            });
        };
        Self::make(Version::V1, cpu, accounting, directory("memory"))
    }

    fn make(
        version: Version,
        cpu: PathBuf,
        accounting: PathBuf,
        memory: Option<PathBuf>,
    ) -> Result<Self> {
        // Every directory once: version 1 may mount several controllers together.
        let wanted: BTreeSet<_> = [Some(&cpu), Some(&accounting), memory.as_ref()]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        let mut group =
            Self { version, cpu, accounting, memory, directories: Vec::new(), refuge: None };
        for directory in wanted {
            fs::create_dir(&directory).map_err(|error| refused(&directory, &error))?;
            group.directories.push(directory);
        }
        Ok(group)
    }

    fn memory(&self) -> Result<&Path> {
        self.memory.as_deref().ok_or_else(|| Error::Groups {
            path: self.cpu.clone(),
            reason: "the memory controller is not handed on to it".to_owned(),
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.directories.iter().for_each(|directory| remove(directory));
    }
}

/// A mounted tree of control groups.
struct Mount {
    point: PathBuf,
    version: Version,
    controllers: Vec<String>,
}

impl Mount {
    /// From a line of `/proc/self/mountinfo`: `... point options - type source controllers`.
    fn parse(line: &str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let version = match right.next()? {
            "cgroup2" => Version::V2,
            "cgroup" => Version::V1,
            _ => return None,
        };
        let controllers = right.nth(1)?.split(',').map(str::to_owned).collect();
        Some(Self { point: PathBuf::from(left.split(' ').nth(4)?), version, controllers })
    }
}

fn words(directory: &Path, file: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(directory.join(file)).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn number(path: &Path) -> Result<u64> {
    let text = fs::read_to_string(path).map_err(|error| refused(path, &error))?;
    text.trim().parse().map_err(|_| Error::Groups {
        path: path.to_owned(),
        reason: format!("`{}` is not a number", text.trim()),
    })
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &io::Error) -> Error {
    let hint = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            ": this needs write access to /sys/fs/cgroup; run as root, or in a delegated slice \
             (systemd-run --user --scope -p Delegate=yes homeostat calibrate node)"
        }
        ErrorKind::ResourceBusy => ": another process lives in this slice; start one of our own",
        _ => "",
    };
    Error::Groups { path: path.to_owned(), reason: format!("{error}{hint}") }
}

/// Removes a group. The kernel takes a moment to forget processes that have ended.
fn remove(directory: &Path) {
    for _ in 0..50 {
        match fs::remove_dir(directory) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                sleep(Duration::from_millis(10));
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_weights_as_kubernetes_does_it() {
        for (shares, weight) in [(2, 1), (128, 5), (1024, 39), (2048, 79), (262_144, 10_000)] {
            assert_eq!(weight_of_shares(shares), weight, "{shares}");
        }
        assert_eq!((weight_of_shares(0), weight_of_shares(u64::MAX)), (1, 10_000));
    }

    #[test]
    fn mounts_of_both_versions_are_read() {
        let v1 =
            "31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct";
        let v2 = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        let mount = Mount::parse(v1).unwrap();
        assert_eq!(
            (mount.version, mount.point),
            (Version::V1, "/sys/fs/cgroup/cpu,cpuacct".into())
        );
        assert_eq!(mount.controllers, ["rw", "cpu", "cpuacct"]);
        assert_eq!(Mount::parse(v2).unwrap().version, Version::V2);
        assert!(Mount::parse("22 1 8:1 / / rw - ext4 /dev/sda1 rw").is_none());
    }
}
