//! The operator as a process, and its metrics.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use homeostat_testbed::{Cluster, Server, free_port};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A running operator.
pub(crate) struct RunningOperator {
    server: Server,
    log: PathBuf,
    port: u16,
}

/// What it has counted so far.
pub(crate) struct Counts {
    pub(crate) requests: f64,
}

impl RunningOperator {
    /// Starts one for all namespaces. Use is written once and changes in part, so it never
    /// counts as stale.
    pub(crate) fn start(cluster: &Cluster, program: &Path) -> Self {
        let log = cluster.file("operator.log");
        let port = free_port();
        // The kubeconfig travels in the environment.
        let kubeconfig = format!("KUBECONFIG={}", cluster.admin_kubeconfig().display());
        let program = program.display().to_string();
        let plain = format!("127.0.0.1:{port}");
        let arguments = [
            kubeconfig.as_str(),
            program.as_str(),
            "run",
            "--no-webhook",
            "--no-leader-election",
            "--stale-after",
            "2h",
            "--listen-plain",
            plain.as_str(),
            "--log",
            "info,homeostat_operator=debug",
            "--log-json",
        ];
        let server = Server::start(Path::new("env"), arguments, &log);
        Self { server, log, port }
    }

    /// Waits for the first resync.
    pub(crate) async fn wait_for_first_resync(&self) {
        let started = Instant::now();
        while self.resync_seconds().is_empty() {
            assert!(
                started.elapsed() < Duration::from_secs(180),
                "no resync in three minutes: {}",
                fs::read_to_string(&self.log).unwrap_or_default()
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The duration of every resync that found objects.
    pub(crate) fn resync_seconds(&self) -> Vec<f64> {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines = log.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines
            .filter(|line: &serde_json::Value| line["fields"]["message"] == "resync")
            .filter(|line| line["fields"]["objects"].as_u64() != Some(0))
            .filter_map(|line| line["fields"]["seconds"].as_f64())
            .collect()
    }

    /// Memory that it holds, in MB.
    pub(crate) fn rss_mb(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: f64 = line
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .expect("the system tells");
        (kib * 1024.0 / 1e6 * 10.0).round() / 10.0
    }

    /// What it has counted so far.
    pub(crate) async fn counts(&self) -> Counts {
        let text = self.metrics().await;
        let requests = text
            .lines()
            .filter(|line| line.starts_with("homeostat_operator_api_requests_total"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        Counts { requests }
    }

    async fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.expect("it listens");
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("read");
        answer
    }
}
