//! A Prometheus that remembers days which never were.

use std::fmt::Write;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::server::{Server, free_port};

/// Series to be remembered, as text of OpenMetrics.
#[derive(Default)]
pub struct Recorded {
    text: String,
}

impl Recorded {
    /// Adds a family of series; each has its labels, as they stand between braces, and its
    /// samples by second of the clock.
    pub fn family(&mut self, name: &str, kind: &str, series: &[(String, Vec<(u64, f64)>)]) {
        // A counter's name ends in _total, its family's does not.
        let family = name.strip_suffix("_total").unwrap_or(name);
        writeln!(self.text, "# TYPE {family} {kind}").expect("memory");
        for (labels, samples) in series {
            for (at, value) in samples {
                writeln!(self.text, "{name}{{{labels}}} {value} {at}").expect("memory");
            }
        }
    }

    /// Starts a Prometheus that remembers it, in an empty directory.
    pub fn start(mut self, directory: &Path) -> RecordedPrometheus {
        self.text.push_str("# EOF\n");
        let (data, text) = (directory.join("data"), directory.join("series.txt"));
        fs::write(&text, &self.text).expect("written");
        let made = Command::new("promtool")
            .args(["tsdb", "create-blocks-from", "openmetrics"])
            .args([&text, &data])
            .output()
            .expect("promtool starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let config = directory.join("prometheus.yml");
        fs::write(&config, "{}\n").expect("written");
        let port = free_port();
        let arguments = [
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", data.display()),
            "--storage.tsdb.retention.time=60d".to_owned(),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ];
        let log = directory.join("prometheus.log");
        let server = Server::start(Path::new("prometheus"), arguments, &log);
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "Prometheus is not ready after a minute: see {}",
                log.display()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        RecordedPrometheus { server, port }
    }
}

/// A running Prometheus.
pub struct RecordedPrometheus {
    /// The process.
    pub server: Server,
    port: u16,
}

impl RecordedPrometheus {
    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}
