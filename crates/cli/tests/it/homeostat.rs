//! Running the program in a directory of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use homeostat_test_skip::skip;
use tempfile::TempDir;

/// The project's directory. Cargo runs tests in the directory of their package; where that was when
/// they were compiled says nothing, as clones may share what is compiled.
pub(crate) fn root() -> PathBuf {
    Path::new("../..").canonicalize().unwrap()
}

/// Published data that is not part of the project; without it, a test says so and passes.
pub(crate) fn published(name: &str) -> Option<PathBuf> {
    let beside = Path::new("../../../shared/data");
    let data = std::env::var_os("HOMEOSTAT_TEST_DATA").map_or(beside.to_owned(), PathBuf::from);
    let path = data.join(name);
    if path.exists() {
        return Some(path.canonicalize().unwrap());
    }
    skip(&format!("{} is absent; set HOMEOSTAT_TEST_DATA", path.display()));
    None
}

/// A directory that is gone after the test.
pub(crate) struct Workplace {
    directory: TempDir,
}

/// What a call of the program left.
pub(crate) struct Called {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Workplace {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// The program with these arguments, split at white space.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_homeostat"));
        command.args(arguments.split_whitespace()).current_dir(self.directory.path());
        // The caller's settings must not reach the tests.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOMEOSTAT_")) {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn call(&self, arguments: &str) -> Called {
        Called::new(self.command(arguments).output().unwrap())
    }

    /// Calls and expects success.
    pub(crate) fn done(&self, arguments: &str) -> String {
        let called = self.call(arguments);
        assert_eq!(called.code, Some(0), "{arguments}: {}", called.stderr);
        called.stdout
    }
}

impl Called {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

/// Calls, and expects this exit code and this part of the message.
pub(crate) fn refused(place: &Workplace, arguments: &str, code: i32, expect: &str) {
    let called = place.call(arguments);
    assert_eq!(called.code, Some(code), "{arguments}: {}{}", called.stdout, called.stderr);
    assert!(called.stderr.contains(expect), "{arguments}: {}", called.stderr);
    assert!(!called.stderr.contains("panicked"), "{arguments}: {}", called.stderr);
}

/// Every file below a directory, by name relative to it, ordered.
pub(crate) fn files_below(directory: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                files.push(path.strip_prefix(directory).unwrap().display().to_string());
            }
        }
    }
    files.sort();
    files
}
