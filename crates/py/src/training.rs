//! Training runs. The run works in a thread of its own; the caller's shows progress and
//! listens for Ctrl-C, without holding the interpreter's lock while it waits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use homeostat_lab::{Error, ExtraWriters, Progress, RunFolder, Training, TrainingSummary, Watcher};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::exceptions::{Class, raise};
use crate::settings::{Keywords, resolve};

/// Time between two looks at signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Trains, in a new folder or on from the newest checkpoint of `resume`. `report` is called
/// with `(step, total, return, steps per second)` while it goes on, and with texts. The folder,
/// and the figures and times of the summary as JSON.
#[pyfunction]
#[pyo3(signature = (settings, report, config=None, run_dir=None, resume=None, steps=None, csv=false, tensorboard=false))]
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
) -> PyResult<(PathBuf, String, String)> {
    let extra = ExtraWriters { csv, tensorboard };
    let (sender, mut receiver) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    let mut messenger = Messenger { sender, stop: Arc::clone(&stop) };
    let made = match resume {
        Some(path) => py.detach(|| Training::resume(&path, steps, extra, &mut messenger)),
        None => {
            let settings = resolve(py, &settings, config, true)?;
            py.detach(|| {
                let config = settings.validate()?;
                let path = run_dir
                    .unwrap_or_else(|| RunFolder::next_free(Path::new("runs"), &config.run_name()));
                Training::start(config, &path, extra)
            })
        }
    };
    let training = made.map_err(|error| raise(py, &error))?;
    let folder = training.folder().path().to_owned();
    // Threads of its own, as a process that was forked has none of its parent's.
    let threads = training.config().threads.unwrap_or(0);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool =
        pool.map_err(|error| Class::Error.with(py, format!("failed to start threads: {error}")))?;
    let worker = std::thread::spawn(move || pool.install(|| training.run(&mut messenger)));
    let interruption = attend(py, &mut receiver, report, &stop, &worker)?;
    let outcome = py.detach(|| worker.join());
    let summary = match outcome {
        Ok(summary) => summary.map_err(|error| raise(py, &error))?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    if let Some(error) = interruption {
        return Err(with_way_on(py, error, &folder));
    }
    if let Some(failure) = summary.failure() {
        return Err(Class::Error.with(py, failure));
    }
    Ok((folder, summary.figures.to_string(), summary.timing.to_string()))
}

/// Shows what comes until the run has ended. Ctrl-C, and whatever `report` raises, asks the run
/// to stop in order, and nothing is reported any more; a second Ctrl-C no longer waits for it.
fn attend(
    py: Python<'_>,
    receiver: &mut Receiver<Message>,
    report: &Bound<'_, PyAny>,
    stop: &AtomicBool,
    worker: &JoinHandle<Result<TrainingSummary, Error>>,
) -> PyResult<Option<PyErr>> {
    let mut interruption: Option<PyErr> = None;
    loop {
        let receiver = &mut *receiver;
        let received = py.detach(move || {
            let first = receiver.recv_timeout(LOOK_EVERY)?;
            let mut messages = vec![first];
            messages.extend(receiver.try_iter());
            Ok::<_, RecvTimeoutError>(messages)
        });
        let messages = match received {
            Ok(messages) => messages,
            Err(RecvTimeoutError::Timeout) if worker.is_finished() => break,
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let is_listening = interruption.is_none();
        let reported = if is_listening { show(report, messages) } else { Ok(()) };
        match (reported.and_then(|()| py.check_signals()), is_listening) {
            (Ok(()), _) => {}
            (Err(first), true) => {
                stop.store(true, Ordering::SeqCst);
                interruption = Some(first);
            }
            (Err(again), false) => return Err(again),
        }
    }
    Ok(interruption)
}

/// Of several rounds only the last is news.
fn show(report: &Bound<'_, PyAny>, messages: Vec<Message>) -> PyResult<()> {
    let last_round = messages.iter().rposition(|message| matches!(message, Message::Round(..)));
    for (place, message) in messages.into_iter().enumerate() {
        match message {
            Message::Round(step, total, reached, speed) if Some(place) == last_round => {
                report.call1((step, total, reached, speed))?;
            }
            Message::Round(..) => {}
            Message::Note(text) => {
                report.call1((text,))?;
            }
        }
    }
    Ok(())
}

/// Ctrl-C with a way to go on; any other exception as it is.
fn with_way_on(py: Python<'_>, error: PyErr, folder: &Path) -> PyErr {
    if !error.is_instance_of::<PyKeyboardInterrupt>(py) {
        return error;
    }
    PyKeyboardInterrupt::new_err(format!(
        "the run is saved; go on with homeostat.train(resume=\"{}\")",
        folder.display()
    ))
}

/// What a run tells the thread that shows it.
enum Message {
    /// Step, steps in all, recent return, steps per second.
    Round(u64, u64, Option<f64>, f64),
    Note(String),
}

struct Messenger {
    sender: Sender<Message>,
    stop: Arc<AtomicBool>,
}

impl Messenger {
    fn tell(&self, message: Message) {
        // Nobody listens any more after a second Ctrl-C: the run ends by itself.
        let _ = self.sender.send(message);
    }
}

impl Watcher for Messenger {
    fn round(&mut self, progress: &Progress<'_>) {
        let (step, total) = (progress.step, progress.total_steps);
        let speed = progress.timing.steps_per_s;
        self.tell(Message::Round(step, total, progress.recent_return(), speed));
    }

    fn note(&mut self, text: &str) {
        self.tell(Message::Note(text.to_owned()));
    }

    fn wants_to_stop(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}
