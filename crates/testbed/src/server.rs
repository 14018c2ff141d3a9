//! Processes that a test starts, stops, pauses and starts again.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A server that dies with the thread that started it, and when it is dropped.
pub struct Server {
    program: PathBuf,
    arguments: Vec<OsString>,
    log: PathBuf,
    process: Mutex<Child>,
}

impl Server {
    /// Starts a program that writes what it says into a file.
    pub fn start<A: Into<OsString>>(
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
        log: &Path,
    ) -> Self {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        let process = Mutex::new(spawn(program, &arguments, log));
        Self { program: program.to_owned(), arguments, log: log.to_owned(), process }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.locked().id()
    }

    /// Where it writes what it says.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Ends it as a crash would.
    pub fn kill(&self) {
        let mut process = self.locked();
        // One that has ended already needs no ending.
        let _ = process.kill();
        let _ = process.wait();
    }

    /// Starts it again with the same arguments, after ending it if it still runs.
    pub fn restart(&self) {
        self.kill();
        *self.locked() = spawn(&self.program, &self.arguments, &self.log);
    }

    /// Stops it where it is: its sockets stay open without an answer.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    fn locked(&self) -> MutexGuard<'_, Child> {
        // A thread that panicked while holding it was about to end the process anyway.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signal: &str) {
        let done = Command::new("kill").args(["-s", signal, &self.id().to_string()]).status();
        assert!(done.is_ok_and(|status| status.success()), "{signal} for {:?}", self.program);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The log is appended to, so that a restart keeps what was said before.
fn spawn(program: &Path, arguments: &[OsString], log: &Path) -> Child {
    let log = fs::File::options().create(true).append(true).open(log).expect("a log");
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a handle"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()))
}

/// A free port of loopback.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}
