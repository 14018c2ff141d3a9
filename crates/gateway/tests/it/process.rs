//! The program in a process of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ports that the system chooses.
pub(crate) const LISTEN: &str = "[listen]\naddress = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n";

pub(crate) fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_homeostat-gateway"))
}

/// A gateway in a process of its own, which ends with the test.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Process {
    pub(crate) fn start(settings: &Path) -> Self {
        let mut child = program()
            .args(["run", "--settings"])
            .arg(settings)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next());
        Self { address: address.unwrap_or_else(|| panic!("{line:?}")).to_owned(), child }
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    pub(crate) fn until(&self, path: &str, expected: &str) {
        let end = Instant::now() + Duration::from_secs(15);
        while !self.get(path).contains(expected) {
            assert!(Instant::now() < end, "{path} has no {expected}: {}", self.get(path));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
