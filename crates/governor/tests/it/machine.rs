//! A machine with two fake GPUs, and governors as processes on it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// UUIDs of the fake GPUs.
pub(crate) const GPU: [&str; 2] =
    ["GPU-00000000-0000-0000-0000-000000000000", "GPU-00000000-0000-0000-0000-000000000001"];

/// The state of the fake NVML, settings and leases.
pub(crate) struct Machine {
    place: tempfile::TempDir,
    library: PathBuf,
}

impl Machine {
    /// None, with a recorded skip, where no C compiler is at hand.
    pub(crate) fn new() -> Option<Self> {
        static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
        let Some(library) = LIBRARY.get_or_init(compile) else {
            homeostat_test_skip::skip("no gcc for the fake NVML: install it");
            return None;
        };
        Some(Self { place: tempfile::tempdir().unwrap(), library: library.clone() })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A figure of the fake NVML.
    pub(crate) fn state(&self, name: &str) -> u64 {
        std::fs::read_to_string(self.path(name)).map_or(0, |text| text.trim().parse().unwrap())
    }

    pub(crate) fn set_state(&self, name: &str, value: u64) {
        let draft = self.path("draft");
        std::fs::write(&draft, value.to_string()).unwrap();
        std::fs::rename(draft, self.path(name)).unwrap();
    }

    /// The calls that change something, without the device.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn lease(&self, gpu: usize) -> PathBuf {
        self.path("leases").join(format!("{}.json", GPU[gpu]))
    }

    /// Writes settings with short times; `more` may have [[devices]] and further settings.
    pub(crate) fn write_settings(&self, source: &str, more: &str) -> PathBuf {
        let leases = self.path("leases");
        let pause = self.path("pause");
        let text = format!(
            "period_s = 0.05\nlease_directory = {leases:?}\npause_file = {pause:?}\ngive_up_s = 0.5\n\
             [listen]\naddress = \"127.0.0.1:0\"\n[source]\n{source}\ntimeout_s = 0.5\n\
             [signal]\nwindow_s = 0.3\nstale_after_s = 0.6\nhold_s = 0.2\n\
             [guards]\ncool_down_s = 0.1\nrate_limit_changes = 1000\nrate_limit_s = 1.0\n\
             [[objectives]]\nmodel = \"m\"\nslo_ms = 150.0\nmetric = \"ttft_seconds\"\n{more}"
        );
        let file = self.path("governor.toml");
        std::fs::write(&file, text).unwrap();
        file
    }

    pub(crate) fn program(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_homeostat-governor"));
        command.env("LD_LIBRARY_PATH", &self.library).env("FAKE_NVML_DIRECTORY", self.place.path());
        command
    }

    /// Exit code, standard output, standard error.
    pub(crate) fn output(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.program().args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    pub(crate) fn start(&self, settings: &Path, arguments: &[&str]) -> Governor {
        let mut command = self.program();
        command.args(["run", "--every-decision", "--settings"]).arg(settings).args(arguments);
        Governor::start(command)
    }
}

fn compile() -> Option<PathBuf> {
    let name = format!("fake-nvml-{}", std::process::id());
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&place).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake-nvml/nvml.c");
    let compiled = Command::new("gcc")
        .args(["-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o"])
        .arg(place.join("libnvidia-ml.so.1"))
        .arg(source)
        .status();
    match compiled {
        Ok(status) => {
            assert!(status.success(), "the fake NVML does not compile");
            Some(place)
        }
        Err(_) => None,
    }
}

/// A governor in a process of its own, which ends with the test.
pub(crate) struct Governor {
    child: Child,
    decisions: Arc<Mutex<Vec<Value>>>,
    log: Arc<Mutex<String>>,
}

impl Governor {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (decisions, log) =
            (Arc::<Mutex<Vec<Value>>>::default(), Arc::<Mutex<String>>::default());
        let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let seen = decisions.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                seen.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        let seen = log.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = err.read(&mut bytes) {
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { child, decisions, log }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn decisions(&self) -> Vec<Value> {
        self.decisions.lock().unwrap().clone()
    }

    /// Waits until the last decision is such.
    pub(crate) fn until_decision(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        let last = || self.decisions.lock().unwrap().last().cloned();
        until(
            || last().is_some_and(|last| is_so(&last)),
            || format!("no decision {what}: {:?} {}", last(), self.log()),
        );
    }

    /// Where metrics and status are.
    pub(crate) fn address(&self) -> String {
        let log = || self.log();
        until(|| log().contains("metrics and status on "), log);
        let text = log();
        let rest = text.split("metrics and status on ").nth(1).unwrap();
        // A log line may end in colours.
        rest.chars()
            .take_while(|letter| letter.is_ascii_digit() || ".:".contains(*letter))
            .collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its exit status, within some time.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let mut status = None;
        let child = &mut self.child;
        let log = self.log.clone();
        until(
            || {
                status = child.try_wait().unwrap();
                status.is_some()
            },
            || format!("it does not end: {}", log.lock().unwrap()),
        );
        status.unwrap()
    }
}

impl Drop for Governor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn until(mut is_so: impl FnMut() -> bool, otherwise: impl Fn() -> String) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "{}", otherwise());
        std::thread::sleep(Duration::from_millis(10));
    }
}
