//! How far a long question has come, on standard error.

use std::io::{IsTerminal, Write};

/// Counts parts. A terminal sees one line that changes; anything else a line for each quarter,
/// and nothing if it is only one part.
pub(crate) struct Progress {
    what: &'static str,
    done: u64,
    parts: u64,
}

impl Progress {
    pub(crate) fn new(what: &'static str, parts: u64) -> Self {
        Self { what, done: 0, parts }
    }

    /// One more part is done.
    pub(crate) fn step(&mut self) {
        self.set(self.done + 1, self.parts);
    }

    /// So many of so many parts are done.
    pub(crate) fn set(&mut self, done: u64, parts: u64) {
        let quarter = |done: u64| done * 4 / parts.max(1);
        let is_news = quarter(done) > quarter(self.done);
        (self.done, self.parts) = (done, parts);
        if parts < 2 {
            return;
        }
        let mut stderr = std::io::stderr();
        let line = format!("{}: {done} of {parts}", self.what);
        // Who cannot be told is not told.
        let _ = if stderr.is_terminal() {
            let end = if done == parts { "\r\u{1b}[K" } else { "" };
            write!(stderr, "\r{line}{end}")
        } else if is_news {
            writeln!(stderr, "{line}")
        } else {
            Ok(())
        };
    }
}
