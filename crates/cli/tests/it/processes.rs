//! Programs that run for long: started, listened to, stopped and killed.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Nothing in these tests takes as long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running program that prints events as JSON lines. It is killed with the test.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    /// Every event so far.
    pub(crate) events: Vec<Value>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, events: Vec::new() }
    }

    /// Reads the events since the last call.
    pub(crate) fn listen(&mut self) -> &[Value] {
        while let Ok(line) = self.lines.try_recv() {
            self.take_in(&line);
        }
        &self.events
    }

    /// The first event of this name that fits, waited for if need be.
    pub(crate) fn wait_for(&mut self, event: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.wait_from(0, event, fits)
    }

    /// The same, among events from a place on.
    pub(crate) fn wait_from(
        &mut self,
        first: usize,
        event: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Value {
        let end = Instant::now() + PATIENCE;
        let mut looked_at = first;
        loop {
            let found =
                self.events[looked_at..].iter().find(|told| told["event"] == event && fits(told));
            if let Some(found) = found {
                return found.clone();
            }
            looked_at = self.events.len();
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.take_in(&line),
                Err(_) => panic!("no `{event}` came: {}", self.describe()),
            }
        }
    }

    /// The newest event of this name so far.
    pub(crate) fn newest(&mut self, event: &str) -> Option<&Value> {
        self.listen().iter().rev().find(|told| told["event"] == event)
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends a signal by name, as INT or STOP.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.child.id().to_string())
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Ends it with `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end: the exit code, and everything on standard error.
    pub(crate) fn finish(&mut self) -> (Option<i32>, String) {
        let end = Instant::now() + PATIENCE;
        while self.is_running() {
            assert!(Instant::now() < end, "it does not end: {}", self.describe());
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(5)) {
            self.take_in(&line);
        }
        (self.child.wait().unwrap().code(), errors)
    }

    fn take_in(&mut self, line: &str) {
        let event = serde_json::from_str(line);
        self.events.push(event.unwrap_or_else(|error| panic!("{error}: {line}")));
    }

    fn describe(&mut self) -> String {
        let told: Vec<String> =
            self.events.iter().rev().take(5).rev().map(Value::to_string).collect();
        format!("running {}, last events:\n{}", self.is_running(), told.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
