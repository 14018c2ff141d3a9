//! Training runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use homeostat_lab::{Environments, RunDirectory};
use homeostat_train::{ExtraWriters, Progress, Training, Watcher};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use serde_json::{Value, json};

use crate::attended::Attended;
use crate::exceptions::{Class, raise};
use crate::settings::{Keywords, resolve};

/// Trains, in a new directory or on from the newest checkpoint of `resume`. `report` is called
/// with `(step, total, return, steps per second)` while it goes on, and with texts; `callback` with
/// every round as JSON, and false ends the run in order. The directory,
/// and the figures and times of the summary as JSON.
#[pyfunction]
#[pyo3(signature = (settings, report, config=None, run_dir=None, resume=None, steps=None, csv=false, tensorboard=false, callback=None))]
#[expect(clippy::too_many_arguments, reason = "they are the keywords of one Python call")]
pub(crate) fn train(
    py: Python<'_>,
    settings: Keywords<'_>,
    report: &Bound<'_, PyAny>,
    config: Option<PathBuf>,
    run_dir: Option<PathBuf>,
    resume: Option<PathBuf>,
    steps: Option<u64>,
    csv: bool,
    tensorboard: bool,
    callback: Option<Bound<'_, PyAny>>,
) -> PyResult<(PathBuf, String, String)> {
    let extra = ExtraWriters { csv, tensorboard };
    let attended = Attended::new();
    let stop = Arc::clone(&attended.stop);
    let mut messenger = Messenger {
        sender: attended.sender.clone(),
        stop: Arc::clone(&stop),
        tells_rounds: callback.is_some(),
    };
    let made = match resume {
        Some(path) => py.detach(|| {
            Training::resume(&Environments::builtin(), &path, steps, extra, &mut messenger)
        }),
        None => {
            let settings = resolve(py, &settings, config, true)?;
            py.detach(|| {
                let config = settings.validate()?;
                let path = run_dir.unwrap_or_else(|| {
                    RunDirectory::next_free(Path::new("runs"), &config.run_name())
                });
                Training::start(config, &path, extra)
            })
        }
    };
    let training = made.map_err(|error| raise(py, &error))?;
    let directory = training.directory().path().to_owned();
    let threads = training.config().threads.unwrap_or(0);
    let work = move || training.run(&mut messenger);
    let (outcome, interruption) = attended.run(py, threads, work, |messages| {
        if let Some(callback) = &callback {
            tell(callback, &messages, &stop)?;
        }
        show(report, messages)
    })?;
    let summary = outcome.map_err(|error| raise(py, &error))?;
    if let Some(error) = interruption {
        return Err(with_way_on(py, error, &directory));
    }
    if let Some(failure) = summary.failure() {
        return Err(Class::Error.with(py, failure));
    }
    Ok((directory, summary.figures.to_string(), summary.timing.to_string()))
}

/// Every round, in order; nothing after one that ended the run.
fn tell(callback: &Bound<'_, PyAny>, messages: &[Message], stop: &AtomicBool) -> PyResult<()> {
    for message in messages {
        if let Message::Round { record: Some(record), .. } = message
            && !stop.load(Ordering::SeqCst)
        {
            let answer = callback.call1((record,))?;
            // Only `False` itself: a callback without an answer goes on.
            if answer.cast::<PyBool>().is_ok_and(|answer| !answer.is_true()) {
                stop.store(true, Ordering::SeqCst);
            }
        }
    }
    Ok(())
}

/// Of several rounds only the last is news.
fn show(report: &Bound<'_, PyAny>, messages: Vec<Message>) -> PyResult<()> {
    let last_round = messages.iter().rposition(|message| matches!(message, Message::Round { .. }));
    for (place, message) in messages.into_iter().enumerate() {
        match message {
            Message::Round { step, total, reached, speed, .. } if Some(place) == last_round => {
                report.call1((step, total, reached, speed))?;
            }
            Message::Round { .. } => {}
            Message::Note(text) => {
                report.call1((text,))?;
            }
        }
    }
    Ok(())
}

/// Ctrl-C with a way to go on; any other exception as it is.
fn with_way_on(py: Python<'_>, error: PyErr, directory: &Path) -> PyErr {
    if !error.is_instance_of::<PyKeyboardInterrupt>(py) {
        return error;
    }
    PyKeyboardInterrupt::new_err(format!(
        "the run is saved; go on with homeostat.train(resume=\"{}\")",
        directory.display()
    ))
}

/// A report of the run to the thread that shows it.
enum Message {
    Round {
        step: u64,
        total: u64,
        reached: Option<f64>,
        speed: f64,
        /// All of it, for a callback.
        record: Option<String>,
    },
    Note(String),
}

struct Messenger {
    sender: Sender<Message>,
    stop: Arc<AtomicBool>,
    tells_rounds: bool,
}

impl Messenger {
    fn tell(&self, message: Message) {
        // The receiver is gone after a second Ctrl-C: the run ends by itself.
        let _ = self.sender.send(message);
    }
}

impl Watcher for Messenger {
    fn round(&mut self, progress: &Progress<'_>) {
        let (step, total) = (progress.step, progress.total_steps);
        let speed = progress.timing.steps_per_s;
        let record = self.tells_rounds.then(|| record_of(progress).to_string());
        let reached = progress.recent_return();
        self.tell(Message::Round { step, total, reached, speed, record });
    }

    fn note(&mut self, text: &str) {
        self.tell(Message::Note(text.to_owned()));
    }

    fn wants_to_stop(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

/// A round as a callback sees it.
fn record_of(progress: &Progress<'_>) -> Value {
    let service = progress.service();
    let agents = progress.agents.iter().map(|round| {
        json!({
            "agent": round.agent.number(),
            "episodes": round.episodes,
            "return_mean": round.round_return,
            "return_recent": round.recent_return,
            "slo_violation_ratio": round.service.slo_violation_ratio(),
            "containers": round.service.mean_containers(),
        })
    });
    json!({
        "step": progress.step,
        "steps": progress.total_steps,
        "return": progress.recent_return(),
        "steps_per_s": progress.timing.steps_per_s,
        "slo_violation_ratio": service.and_then(|service| service.slo_violation_ratio),
        "containers": service.map(|service| service.containers),
        "agents": agents.collect::<Vec<_>>(),
    })
}
