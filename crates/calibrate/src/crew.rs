//! Workers that are started together, each in its control group, on the same CPUs.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use homeostat_lab::{Error, Result};

use super::cgroup::Group;
use super::system;
use super::worker::{Count, Kind, Window};

/// Where workers run.
#[derive(Debug)]
pub struct Workplace {
    /// The program whose `calibrate worker` is a worker: this one.
    pub program: PathBuf,
    /// The group that all groups of workers stand in.
    pub group: Group,
    /// The CPUs they may use.
    pub cpus: Vec<usize>,
}

impl Workplace {
    /// A workplace on the last `cores` CPUs that this process may use, on all without a
    /// number. The last, since the first often serves the interrupts.
    pub fn new(program: &Path, cores: Option<usize>) -> Result<Self> {
        let mut cpus = system::allowed_cpus()?;
        let cores = cores.unwrap_or(cpus.len());
        if cores == 0 || cores > cpus.len() {
            return Err(Error::OutOfRange {
                key: "cores".to_owned(),
                value: cores.to_string(),
                source_text: "flag --cores".to_owned(),
                expected: format!("this process may use 1 to {} CPUs", cpus.len()),
            });
        }
        let cpus = cpus.split_off(cpus.len() - cores);
        Ok(Self { program: program.to_owned(), group: Group::create()?, cpus })
    }

    /// How many cores it has.
    pub fn cores(&self) -> usize {
        self.cpus.len()
    }
}

/// Workers; those that still run when it is dropped are ended.
#[derive(Debug)]
pub(crate) struct Crew {
    // Dropped in this order: a group can go when its processes have.
    members: Vec<Member>,
    _groups: Vec<Group>,
}

impl Crew {
    /// One worker of each kind, each in a group of its own with the same weight.
    pub(crate) fn apart(workplace: &Workplace, kinds: &[Kind]) -> Result<Self> {
        let groups = (0..kinds.len())
            .map(|index| workplace.group.child(&format!("worker-{index}")))
            .collect::<Result<Vec<_>>>()?;
        let places: Vec<_> =
            kinds.iter().zip(&groups).map(|(kind, group)| Place::new(*kind, group)).collect();
        let members = Member::start_all(workplace, &places)?;
        Ok(Self { members, _groups: groups })
    }

    /// Workers in groups that the caller keeps, and keeps longer.
    pub(crate) fn placed(workplace: &Workplace, places: &[Place<'_>]) -> Result<Self> {
        Ok(Self { members: Member::start_all(workplace, places)?, _groups: Vec::new() })
    }

    /// Opens the window for all.
    pub(crate) fn begin(&mut self, window: Window) -> Result<()> {
        self.members.iter_mut().try_for_each(|member| member.tell(&window.line()))
    }

    /// Waits for the window to close: what each did, in the order they were named.
    pub(crate) fn finish(mut self) -> Result<Vec<Count>> {
        self.members.iter_mut().map(Member::answer).collect()
    }

    /// Works for this long after `warm_up`.
    pub(crate) fn measure(mut self, warm_up: Duration, length: Duration) -> Result<Vec<Count>> {
        self.begin(Window::after(warm_up, length))?;
        self.finish()
    }
}

/// A worker to be started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    kind: Kind,
    group: &'a Group,
    file: Option<&'a Path>,
}

impl<'a> Place<'a> {
    pub(crate) fn new(kind: Kind, group: &'a Group) -> Self {
        Self { kind, group, file: None }
    }

    pub(crate) fn with_file(self, file: &'a Path) -> Self {
        Self { file: Some(file), ..self }
    }
}

#[derive(Debug)]
struct Member {
    kind: Kind,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Member {
    fn start_all(workplace: &Workplace, places: &[Place<'_>]) -> Result<Vec<Self>> {
        let mut members =
            places.iter().map(|place| Self::start(workplace, place)).collect::<Result<Vec<_>>>()?;
        for member in &mut members {
            member.tell("prepare\n")?;
        }
        for member in &mut members {
            let line = member.line()?;
            if line.trim() != "ready" {
                return Err(member.gone(&format!("it said `{}`", line.trim())));
            }
        }
        Ok(members)
    }

    fn start(workplace: &Workplace, place: &Place<'_>) -> Result<Self> {
        let mut command = Command::new(&workplace.program);
        command.args(["calibrate", "worker", "--kind", place.kind.name()]);
        if let Some(file) = place.file {
            command.arg("--file").arg(file);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut process = command.spawn().map_err(|error| Error::Calibration {
            reason: format!("failed to start {}: {error}", workplace.program.display()),
        })?;
        let input = process.stdin.take().expect("its input is a pipe");
        let output = BufReader::new(process.stdout.take().expect("its output is a pipe"));
        let member = Self { kind: place.kind, process, input, output };
        place.group.add(member.process.id())?;
        system::pin(member.process.id(), &workplace.cpus)?;
        Ok(member)
    }

    fn tell(&mut self, line: &str) -> Result<()> {
        self.input
            .write_all(line.as_bytes())
            .and_then(|()| self.input.flush())
            .map_err(|error| self.gone(&error.to_string()))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(self.gone("it was ended, by its memory limit or by hand")),
            Ok(_) => Ok(line),
            Err(error) => Err(self.gone(&error.to_string())),
        }
    }

    fn answer(&mut self) -> Result<Count> {
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|error| self.gone(&error.to_string()))
    }

    fn gone(&self, reason: &str) -> Error {
        let number = self.process.id();
        Error::Calibration {
            reason: format!("lost the {} worker, process {number}: {reason}", self.kind),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing of it is left after this.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
