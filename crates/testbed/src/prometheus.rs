//! A real Prometheus, and an exporter whose samples a test sets.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::server::{Server, free_port};

/// What Prometheus scrapes. It answers for as long as the program runs.
pub struct Exporter {
    port: u16,
    said: Arc<Mutex<Said>>,
}

#[derive(Default)]
struct Said {
    samples: BTreeMap<String, String>,
    is_broken: bool,
}

impl Exporter {
    /// One that says nothing yet.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let said = Arc::new(Mutex::new(Said::default()));
        let saying = said.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that hung up needs no answer.
                let _ = answer(
                    stream,
                    &saying.lock().expect("no thread panics while it holds the lock"),
                );
            }
        });
        Self { port, said }
    }

    /// Where it answers.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on it says this of a series, such as `latency{route="/"}`.
    pub fn say(&self, series: &str, value: &str) {
        let mut said = self.said.lock().expect("no thread panics while it holds the lock");
        said.samples.insert(series.to_owned(), value.to_owned());
    }

    /// From now on it says nothing of a series.
    pub fn say_no_more_of(&self, series: &str) {
        self.said.lock().expect("no thread panics while it holds the lock").samples.remove(series);
    }

    /// From now on it fails, or no longer does.
    pub fn break_down(&self, is_broken: bool) {
        self.said.lock().expect("no thread panics while it holds the lock").is_broken = is_broken;
    }
}

fn answer(mut stream: TcpStream, said: &Said) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut request = [0; 4096];
    let _ = stream.read(&mut request)?;
    if said.is_broken {
        return stream
            .write_all(b"HTTP/1.1 503 Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let line = |(series, value): (&String, &String)| format!("{series} {value}\n");
    let body: String = said.samples.iter().map(line).collect();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// A running Prometheus.
pub struct PrometheusServer {
    port: u16,
    /// Its process.
    pub server: Server,
}

impl PrometheusServer {
    /// Starts Debian's Prometheus, which asks an exporter every second, and waits until it is
    /// ready.
    pub fn start(directory: &Path, exporter: &Exporter) -> Self {
        let config = directory.join("prometheus.yaml");
        let text = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\n\
             scrape_configs: [{{ job_name: test, static_configs: [{{ targets: [\"127.0.0.1:{}\"] }}] }}]\n",
            exporter.port()
        );
        fs::write(&config, text).expect("written");
        let port = free_port();
        let arguments = [
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", directory.join("prometheus").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ];
        let log = directory.join("prometheus.log");
        let this = Self { port, server: Server::start(Path::new("prometheus"), arguments, &log) };
        this.wait_until_ready();
        this
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Waits until it answers that it is ready.
    pub fn wait_until_ready(&self) {
        let started = Instant::now();
        while !self.is_ready() {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "Prometheus is not ready after a minute: see {}",
                self.server.log().display()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_ready(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let asked = write!(stream, "GET /-/ready HTTP/1.0\r\n\r\n");
        let mut answer = String::new();
        asked.is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.lines().next().is_some_and(|line| line.contains(" 200 "))
    }
}
