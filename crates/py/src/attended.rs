//! Work that may take long: it has a thread of its own, and the caller's listens for Ctrl-C, without
//! holding the interpreter's lock while it waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use pyo3::prelude::*;

use crate::exceptions::Class;

/// Time between two looks at signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Channels between the work and the thread that waits for it.
pub(crate) struct Attended<M> {
    /// What the work has to tell.
    pub(crate) sender: Sender<M>,
    /// Set when the work is to end in order.
    pub(crate) stop: Arc<AtomicBool>,
    receiver: Receiver<M>,
}

impl<M: Send + 'static> Attended<M> {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = channel();
        Self { sender, stop: Arc::default(), receiver }
    }

    /// Runs `work` on so many threads, 0 for one on each core, and passes its reports to `show`.
    /// Ctrl-C, and whatever `show` raises, asks the work to stop, and nothing is shown any more;
    /// a second Ctrl-C no longer waits for it. The outcome, and what interrupted it.
    pub(crate) fn run<R: Send + 'static>(
        self,
        py: Python<'_>,
        threads: usize,
        work: impl FnOnce() -> R + Send + 'static,
        show: impl FnMut(Vec<M>) -> PyResult<()>,
    ) -> PyResult<(R, Option<PyErr>)> {
        let Self { sender, stop, mut receiver } = self;
        let failed =
            |error: String| Class::Error.with(py, format!("failed to start threads: {error}"));
        // Threads of its own, as a process that was forked has none of its parent's.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| failed(error.to_string()))?;
        let worker = std::thread::Builder::new().spawn(move || {
            // The channel stays open until the work has ended.
            let _open = sender;
            pool.install(work)
        });
        let worker = worker.map_err(|error| failed(error.to_string()))?;
        let interruption = wait(py, &mut receiver, show, &stop)?;
        match py.detach(|| worker.join()) {
            Ok(outcome) => Ok((outcome, interruption)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Shows reports until the work has ended; returns what interrupted that.
fn wait<M: Send>(
    py: Python<'_>,
    receiver: &mut Receiver<M>,
    mut show: impl FnMut(Vec<M>) -> PyResult<()>,
    stop: &AtomicBool,
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
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let is_listening = interruption.is_none();
        let shown = if is_listening { show(messages) } else { Ok(()) };
        match (shown.and_then(|()| py.check_signals()), is_listening) {
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
