//! The metrics of the ingress, for Prometheus.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Upper ends of the latency histogram, in seconds.
const BUCKETS: [f64; 20] = [
    0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0,
    3.0, 4.0, 5.0,
];

/// The histograms of latencies, one for each run, served to Prometheus.
#[derive(Default)]
pub struct IngressMetrics {
    /// By the name of the run, the label of all of its series.
    runs: Mutex<BTreeMap<String, RunMetrics>>,
}

#[derive(Default)]
struct RunMetrics {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
    failed: u64,
}

impl IngressMetrics {
    /// Serves `/metrics` on loopback until the program ends.
    pub fn serve(port: u16) -> Arc<Self> {
        let metrics = Arc::new(Self::default());
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
        let served = metrics.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let metrics = served.clone();
                // A malformed request gets no answer.
                std::thread::spawn(move || metrics.answer(&stream));
            }
        });
        metrics
    }

    /// Forgets all runs but this one, which begins.
    pub fn begin(&self, run: &str) {
        let mut runs = self.runs.lock().expect("no thread panics while it holds the lock");
        *runs = BTreeMap::from([(run.to_owned(), RunMetrics::default())]);
    }

    /// A request of a run was answered, or was not.
    pub(super) fn observe(&self, run: &str, seconds: f64, is_ok: bool) {
        let mut runs = self.runs.lock().expect("no thread panics while it holds the lock");
        let run = runs.entry(run.to_owned()).or_default();
        for (bucket, end) in run.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= end);
        }
        run.count += 1;
        run.sum += seconds;
        run.failed += u64::from(!is_ok);
    }

    /// Keeps the connection open as Prometheus does.
    fn answer(&self, stream: &TcpStream) -> Option<()> {
        let mut lines = BufReader::new(stream).lines();
        loop {
            lines.next()?.ok()?;
            while !lines.next()?.ok()?.is_empty() {}
            let body = self.text();
            let length = body.len();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4";
            let answer = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
            (&mut &*stream).write_all(answer.as_bytes()).ok()?;
        }
    }

    fn text(&self) -> String {
        let runs = self.runs.lock().expect("no thread panics while it holds the lock");
        let metric = "ingress_request_duration_seconds";
        let mut text = format!("# TYPE {metric} histogram\n");
        for (name, RunMetrics { buckets, count, sum, .. }) in &*runs {
            for (bucket, end) in buckets.iter().zip(BUCKETS) {
                text += &format!("{metric}_bucket{{run=\"{name}\",le=\"{end}\"}} {bucket}\n");
            }
            text += &format!(
                "{metric}_bucket{{run=\"{name}\",le=\"+Inf\"}} {count}\n\
                 {metric}_sum{{run=\"{name}\"}} {sum}\n{metric}_count{{run=\"{name}\"}} {count}\n"
            );
        }
        text += "# TYPE ingress_requests_failed_total counter\n";
        for (name, RunMetrics { failed, .. }) in &*runs {
            text += &format!("ingress_requests_failed_total{{run=\"{name}\"}} {failed}\n");
        }
        text
    }
}
