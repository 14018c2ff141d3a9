//! What a cold start burns: a fresh process in a new group that loads something real.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use homeostat_lab::{Error, Result};
use serde::Serialize;

use super::contention::estimate;
use super::crew::{Crew, Workplace};
use super::fit::Estimate;
use super::system;
use super::worker::{Kind, Window};

/// What a Python function loads before it does anything of its own.
const IMPORTS: &str = "import json, ssl, asyncio";

/// Longest time that the workers in the background go on.
const BACKGROUND: Duration = Duration::from_secs(300);

/// What cold starts cost.
#[derive(Debug, Clone, Serialize)]
pub struct StartReport {
    /// What is started.
    pub command: String,
    /// On an otherwise idle workplace.
    pub alone: StartTimes,
    /// Beside busy workers.
    pub contended: StartTimes,
    /// How many busy workers.
    pub busy: usize,
}

/// Means over several starts.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct StartTimes {
    /// CPU time of a start.
    pub cpu_s: Estimate,
    /// Time that a start takes.
    pub wall_s: Estimate,
    /// How many starts.
    pub count: usize,
}

/// Measures `count` starts alone and as many beside two busy workers per core.
pub(crate) fn measure_starts(workplace: &Workplace, count: usize) -> Result<StartReport> {
    let command = start_command(&workplace.program);
    // The first start reads its files from disk; later ones find them in memory, as on a
    // node that has seen the image before.
    start_once(workplace, &command)?;
    let starts = |count: usize| -> Result<StartTimes> {
        let all: Vec<_> =
            (0..count).map(|_| start_once(workplace, &command)).collect::<Result<_>>()?;
        let of =
            |value: fn(&(f64, f64)) -> f64| estimate(&all.iter().map(value).collect::<Vec<_>>());
        Ok(StartTimes { cpu_s: of(|start| start.0), wall_s: of(|start| start.1), count })
    };
    let alone = starts(count)?;
    let busy = 2 * workplace.cores();
    let mut crew = Crew::apart(workplace, &vec![Kind::Cpu; busy])?;
    crew.begin(Window::after(Duration::ZERO, BACKGROUND))?;
    let contended = starts(count)?;
    Ok(StartReport { command: command.join(" "), alone, contended, busy })
}

/// Python where there is one, else this program.
fn start_command(program: &Path) -> Vec<String> {
    // The interpreter itself: what `python3` names may be a script that looks for it.
    let asked = Command::new("python3")
        .args(["-c", &format!("{IMPORTS}; import sys; print(sys.executable)")])
        .stderr(Stdio::null())
        .output();
    match asked {
        Ok(answer) if answer.status.success() => {
            let python = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
            vec![python, "-c".to_owned(), IMPORTS.to_owned()]
        }
        _ => vec![program.display().to_string(), "--version".to_owned()],
    }
}

/// CPU time and wall time of one start.
fn start_once(workplace: &Workplace, command: &[String]) -> Result<(f64, f64)> {
    let failed = |error: std::io::Error| Error::Calibration {
        reason: format!("failed to start `{}`: {error}", command.join(" ")),
    };
    let group = workplace.group.child("start")?;
    // A shell waits inside the group and then becomes the command, so that all of its time
    // and memory is charged there.
    let mut process = Command::new("/bin/sh")
        .args(["-c", "read _line; exec \"$@\"", "start"])
        .args(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let begun = group
        .add(process.id())
        .and_then(|()| system::pin(process.id(), &workplace.cpus))
        .and_then(|()| {
            let mut input = process.stdin.take().expect("its input is a pipe");
            let begun = Instant::now();
            input.write_all(b"go\n").map_err(failed)?;
            Ok(begun)
        });
    if begun.is_err() {
        // Whatever went wrong, the shell must not outlive its group.
        let _ = process.kill();
    }
    let status = process.wait().map_err(failed)?;
    let wall = begun?.elapsed().as_secs_f64();
    if !status.success() {
        return Err(failed(std::io::Error::other(format!("it ended with {status}"))));
    }
    Ok((group.cpu_time()?.as_secs_f64(), wall))
}
