//! The gateway as a process of its own, so that its time and memory are its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use rustix::process::{Resource, getrlimit, setrlimit};

use super::backend::Backend;

/// A running gateway, which ends with the benchmark.
pub(super) struct GatewayProcess {
    child: Child,
    pub(super) address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl GatewayProcess {
    /// In front of a backend; `more` are further lines of its `[[upstreams]]` and sections after it.
    pub(super) fn start(backend: &Backend, more: &str) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("cannot make a directory for settings")?;
        let file = directory.path().join("gateway.toml");
        let settings = format!(
            "[listen]\naddress = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nmax_connections = 100000\n\
             [timeouts]\nbetween_tokens_s = 600.0\nqueue_s = 600.0\n\
             [[upstreams]]\nname = \"bench\"\nurl = \"http://{}/v1\"\n{more}",
            backend.address
        );
        std::fs::write(&file, settings).context("cannot write settings")?;
        let mut child = Command::new(std::env::current_exe().context("cannot find this program")?)
            .args(["run", "--settings"])
            .arg(&file)
            .env("LOG", "error")
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a gateway")?;
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next());
        let address = address.and_then(|address| address.parse().ok());
        let address = address.with_context(|| format!("the gateway said {line:?}"))?;
        Ok(Self { child, address, _directory: directory })
    }

    /// CPU time that it has used.
    pub(super) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let text = self.proc("stat")?;
        // The name in parentheses may hold spaces; user and system time are fields 14 and 15.
        let fields: Vec<&str> =
            text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok());
        let (user, system) = ticks(11).zip(ticks(12)).context("/proc/PID/stat has no times")?;
        Ok((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// The most memory that it had.
    pub(super) fn peak_bytes(&self) -> anyhow::Result<u64> {
        let text = self.proc("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kilobytes.context("/proc/PID/status has no VmHWM")? * 1024)
    }

    /// Files that it may have open.
    pub(super) fn files(&self) -> anyhow::Result<u64> {
        let text = self.proc("limits")?;
        let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
        let soft =
            line.and_then(|line| line.split_whitespace().next()).context("/proc/PID/limits")?;
        Ok(soft.parse().unwrap_or(u64::MAX))
    }

    fn proc(&self, file: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/{file}", self.child.id());
        std::fs::read_to_string(&path)
            .with_context(|| format!("read {path}: this benchmark needs Linux"))
    }
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// As many as wanted, or as the system allows; root may go beyond the limit that it was given.
pub(super) fn allow_files(wanted: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit;
    limit.current = Some(wanted);
    limit.maximum = limit.maximum.map(|maximum| maximum.max(wanted));
    if setrlimit(Resource::Nofile, limit).is_err() {
        let _ = setrlimit(
            Resource::Nofile,
            rustix::process::Rlimit { current: before.maximum, ..before },
        );
    }
}
