//! The operator as a process of its own, for one namespace.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use homeostat_testbed::{Cluster, free_port};

/// A running operator; it is killed when this is dropped.
pub(crate) struct Operator {
    process: Child,
    log: PathBuf,
    plain_port: u16,
}

/// How an operator is started.
#[derive(Default)]
pub(crate) struct OperatorConfig<'a> {
    /// Further arguments.
    pub(crate) arguments: &'a [&'a str],
    /// Suffix of the name of its log.
    pub(crate) copy: &'a str,
}

impl Operator {
    /// Starts one for a namespace, with a resync every second.
    pub(crate) fn start(cluster: &Cluster, namespace: &str, config: &OperatorConfig<'_>) -> Self {
        Self::start_with(cluster, namespace, config, |_| {})
    }

    /// Starts one with changes to its command.
    pub(crate) fn start_with(
        cluster: &Cluster,
        namespace: &str,
        config: &OperatorConfig<'_>,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_homeostat-operator"));
        command
            .args(["run", "--interval", "1s", "--checkpoint-interval", "2s"])
            .args(["--only-namespace", namespace, "--namespace", namespace])
            .args(["--log", "info,homeostat_operator=debug"])
            .args(config.arguments)
            .env("KUBECONFIG", cluster.admin_kubeconfig());
        change(&mut command);
        Self::spawn(cluster, &format!("{namespace}{}", config.copy), &mut command)
    }

    /// Starts a command; its plain HTTP server is at a free port.
    pub(crate) fn spawn(cluster: &Cluster, name: &str, command: &mut Command) -> Self {
        let log = cluster.file(&format!("operator-{name}.log"));
        let file = fs::File::create(&log).expect("a log");
        let plain_port = free_port();
        let process = command
            .args(["--listen-plain", &format!("127.0.0.1:{plain_port}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("it starts");
        Self { process, log, plain_port }
    }

    /// Kills it, as in a crash.
    pub(crate) fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// Terminates it, as a kubelet does, and waits until it has ended.
    pub(crate) fn terminate(mut self) {
        self.signal("TERM");
        assert!(self.process.wait().expect("it ends").success());
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Stops the process, as an overloaded machine might.
    pub(crate) fn pause(&self) {
        self.signal("STOP");
    }

    /// Continues the process.
    pub(crate) fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, signal: &str) {
        let id = self.id().to_string();
        let done = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(done.is_ok_and(|status| status.success()), "{signal}");
    }

    /// Whether it is still running.
    pub(crate) fn is_running(&mut self) -> bool {
        self.process.try_wait().expect("it can be asked").is_none()
    }

    /// The sum of a metric over its series whose labels contain a text; 0 if there is none.
    pub(crate) fn metric(&self, name: &str, label: &str) -> f64 {
        let text = self.get("/metrics").unwrap_or_default();
        let value = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let (found, labels) = series.split_once('{').unwrap_or((series, ""));
            (found == name && labels.contains(label)).then(|| value.parse().unwrap_or(0.0))
        };
        text.lines().filter_map(value).sum::<f64>()
    }

    /// Its log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its exit code once it has ended.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.process.try_wait().expect("it can be asked")?.code()
    }

    /// The body of an answer of its plain HTTP server.
    pub(crate) fn get(&self, path: &str) -> Option<String> {
        self.get_status(path).map(|(_, body)| body)
    }

    /// The status and the body of an answer of its plain HTTP server.
    pub(crate) fn get_status(&self, path: &str) -> Option<(u16, String)> {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.plain_port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, body.to_owned()))
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.log.display(), self.log());
        }
    }
}

/// How long a test waits for an expected event.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Polls until there is a value.
pub(crate) async fn eventually<T>(what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
    eventually_within(PATIENCE, what, ask).await
}

/// Polls with another time limit.
pub(crate) async fn eventually_within<T>(
    patience: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(started.elapsed() < patience, "waited {patience:?} for: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
