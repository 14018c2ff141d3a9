//! Tests that cannot run on a machine say so in a way that a summary can count.
//!
//! Rust's test harness has no skipped state: a test that returns early counts as passed, and its
//! message is captured. [`skip`] therefore also appends a line to the file that
//! `HOMEOSTAT_TEST_SKIPS` names. `./test` sets it, counts the lines, prints them, and with
//! `--strict` fails on each that `tests/permitted-skips` does not list.
#![forbid(unsafe_code)]

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// The environment variable that names the file to which skips are appended.
pub const SKIPS_FILE: &str = "HOMEOSTAT_TEST_SKIPS";

/// Records that the running test is skipped, and why. The caller returns from the test afterwards.
///
/// # Panics
///
/// If the file cannot be written: a skip that is not recorded would count as a passed test.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    // The harness names a test's thread after the test. A reason is one line in the file.
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = format!("{}: {reason}\n", thread.name().unwrap_or("unknown test"));
    eprint!("SKIPPED {line}");
    if let Some(path) = std::env::var_os(SKIPS_FILE) {
        let path = Path::new(&path);
        if let Err(error) = append(path, &line) {
            panic!("cannot record a skipped test in {}: {error}", path.display());
        }
    }
}

/// One write per line: lines of parallel test processes do not mix.
fn append(path: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_skip_is_appended_with_the_name_of_its_test() {
        let path = std::env::temp_dir().join(format!("skips-{}", std::process::id()));
        let run = || {
            let itself = std::env::current_exe().expect("a test runs");
            let inner = "tests::skipped_when_asked_to";
            let arguments = [inner, "--exact"];
            Command::new(itself).args(arguments).env(SKIPS_FILE, &path).output().expect("it starts")
        };
        assert!(run().status.success() && run().status.success());
        let recorded = fs::read_to_string(&path).expect("it was written");
        fs::remove_file(&path).expect("it is there");
        let line = "tests::skipped_when_asked_to: no server; start one\n";
        assert_eq!(recorded, line.repeat(2));
    }

    /// Does nothing in an ordinary run: only the test above asks it to skip.
    #[test]
    fn skipped_when_asked_to() {
        let asked_to = std::env::args().any(|argument| argument == "--exact");
        if asked_to && std::env::var_os(SKIPS_FILE).is_some() {
            skip("no server;\n start one");
        }
    }
}
