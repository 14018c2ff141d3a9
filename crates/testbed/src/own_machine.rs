//! A machine within the machine: this program again, in namespaces of its own.
//!
//! A kubelet mounts, connects and starts things all over the place. Inside namespaces of network,
//! processes and mounts all of that ends with the first process, however it ends. What the kernel
//! keeps outside of namespaces are control groups: those carry the number of the process that
//! they were made for, and the next start takes away those of processes that are gone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// The address of the only node.
pub(crate) const NODE_ADDRESS: &str = "10.97.0.1";

const MARK: &str = "HOMEOSTAT_TEST_OWN_MACHINE";
const PREFIX: &str = "homeostat-node-";
/// Processor time of the machine within, where others want some as well: that of ten groups.
/// Measurements in it should not depend on other processes.
const SHARES: &str = "10240";

/// What the first process does: places that a kubelet and a container runtime write into are
/// made private, kernel settings that a kubelet insists on look as if they were set, the network
/// gets its loopback and two addresses, the node's and that of the API server's service. Servers are held beside the pods, with the same right to
/// processors. It stays, since orphans must be reaped.
const FIRST_PROCESS: &str = r#"
set -e
echo $$ > "/sys/fs/cgroup/cpu/$HOMEOSTAT_TEST_OWN_MACHINE/servers/cgroup.procs"
for place in /run/containerd /run/netns /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers; do
  mkdir -p "$place"
  mount -t tmpfs none "$place"
done
pretend() {
  [ -e "/proc/sys/$1" ] || return 0
  file=/run/containerd/$(echo "$1" | tr / -)
  echo "$2" > "$file"
  mount --bind "$file" "/proc/sys/$1"
}
pretend vm/overcommit_memory 1
pretend vm/panic_on_oom 0
pretend kernel/panic 10
pretend kernel/panic_on_oops 1
pretend kernel/keys/root_maxkeys 1000000
pretend kernel/keys/root_maxbytes 25000000
ip link set lo up
ip link add node0 type bridge
ip address add 10.97.0.1/24 dev node0
ip address add 10.0.0.1/32 dev node0
ip link set node0 up
"$@" &
wait $!
"#;

/// The control group that pods of this process's node live in; none outside.
pub fn own_control_group() -> Option<String> {
    std::env::var(MARK).ok()
}

/// Runs this program again in a machine of its own; the exact reason if that cannot be.
///
/// # Errors
///
/// What is missing here.
pub fn run_inside(arguments: &[String]) -> Result<ExitStatus, String> {
    possible()?;
    let hierarchies = hierarchies();
    let group = format!("{PREFIX}{}", std::process::id());
    remove_groups_of_the_gone(&hierarchies);
    for hierarchy in &hierarchies {
        fs::create_dir_all(hierarchy.join(&group)).expect("root may make a control group");
    }
    let processors = Path::new("/sys/fs/cgroup/cpu").join(&group);
    fs::create_dir_all(processors.join("servers")).expect("root may make a control group");
    fs::write(processors.join("cpu.shares"), SHARES).expect("written");
    fs::write(processors.join("servers/cpu.shares"), "2048").expect("written");
    let program = std::env::current_exe().expect("it runs");
    let status = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "unshare"])
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["sh", "-c", FIRST_PROCESS, "sh"])
        .arg(program)
        .args(arguments)
        .env(MARK, &group)
        .status()
        .expect("setpriv starts");
    for hierarchy in &hierarchies {
        remove_group(&hierarchy.join(&group));
    }
    Ok(status)
}

fn possible() -> Result<(), String> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root {
        return Err("a real node needs root".to_owned());
    }
    let programs =
        ["unshare", "setpriv", "ip", "socat", "containerd", "ctr", "runc", "etcd", "prometheus"];
    for program in programs {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        if !found.is_ok_and(|output| output.status.success()) {
            return Err(format!("{program} is missing: tests/cluster/kubernetes installs it"));
        }
    }
    if !Path::new("/usr/lib/cni/bridge").exists() {
        return Err("/usr/lib/cni/bridge is missing: tests/cluster/kubernetes installs it".into());
    }
    if !Path::new("/sys/fs/cgroup/cpu/cgroup.procs").exists() {
        return Err("no control groups of version 1, which this kubelet needs".to_owned());
    }
    let try_out = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--mount-proc"])
        .args(["sh", "-ec", "mount -t tmpfs none /mnt; ip link add test0 type bridge"])
        .output()
        .map_err(|error| format!("unshare does not start: {error}"))?;
    if !try_out.status.success() {
        let why = String::from_utf8_lossy(&try_out.stderr);
        return Err(format!("no namespaces here: {}", why.trim()));
    }
    Ok(())
}

/// The hierarchies of control groups, each once.
fn hierarchies() -> Vec<PathBuf> {
    let all = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let is_real = |path: &PathBuf| !path.is_symlink() && path.join("cgroup.procs").exists();
    let mut found: Vec<_> = all.map(|entry| entry.path()).filter(is_real).collect();
    found.sort();
    found
}

fn remove_groups_of_the_gone(hierarchies: &[PathBuf]) {
    for hierarchy in hierarchies {
        for entry in fs::read_dir(hierarchy).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(process) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
                continue;
            };
            if !Path::new("/proc").join(process).exists() {
                remove_group(&entry.path());
            }
        }
    }
}

/// Children first; one that still ends is left for the next start.
fn remove_group(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_group(&entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}
