//! The progress of a long command, on standard error.

use std::io::{IsTerminal, Write};

/// Counts parts. A terminal shows one line that changes; other outputs get a line for each quarter,
/// and nothing if there is only one part.
pub(crate) struct Progress {
    what: &'static str,
    done: u64,
    parts: u64,
}

impl Progress {
    pub(crate) fn new(what: &'static str, parts: u64) -> Self {
        Self { what, done: 0, parts }
    }

    /// Counts one more part.
    pub(crate) fn step(&mut self) {
        self.set(self.done + 1, self.parts);
    }

    pub(crate) fn set(&mut self, done: u64, parts: u64) {
        let quarter = |done: u64| done * 4 / parts.max(1);
        let is_new_quarter = quarter(done) > quarter(self.done);
        (self.done, self.parts) = (done, parts);
        if parts < 2 {
            return;
        }
        let mut stderr = std::io::stderr();
        let line = format!("{}: {done} of {parts}", self.what);
        // A closed standard error must not stop the command.
        let _ = if stderr.is_terminal() {
            let end = if done == parts { "\r\u{1b}[K" } else { "" };
            write!(stderr, "\r{line}{end}")
        } else if is_new_quarter {
            writeln!(stderr, "{line}")
        } else {
            Ok(())
        };
    }
}
