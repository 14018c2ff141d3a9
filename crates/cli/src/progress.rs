//! A run as it goes: a live line on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use homeostat_train::{Progress, Watcher};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(2);

/// Shows progress and listens for Ctrl-C.
pub(crate) struct LiveView {
    interrupted: Arc<AtomicBool>,
    shape: Shape,
    quiet: bool,
}

enum Shape {
    Bar(ProgressBar),
    Plain { last: Option<Instant> },
}

impl LiveView {
    /// A view for this terminal. The first Ctrl-C asks the run to stop in order,
    /// the second ends the program at once.
    pub(crate) fn new(quiet: bool) -> anyhow::Result<Self> {
        let interrupted = interruption()?;
        let shape = if std::io::stderr().is_terminal() && !quiet {
            let bar =
                ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(10));
            let style =
                ProgressStyle::with_template("{bar:24.cyan/blue} {percent:>3}%  {msg}  eta {eta}")
                    .context("failed to lay out the progress bar")?;
            bar.set_style(style);
            Shape::Bar(bar)
        } else {
            Shape::Plain { last: None }
        };
        Ok(Self { interrupted, shape, quiet })
    }
}

impl Watcher for LiveView {
    fn round(&mut self, progress: &Progress<'_>) {
        if self.quiet {
            return;
        }
        match &mut self.shape {
            Shape::Bar(bar) => {
                bar.set_length(progress.total_steps);
                bar.set_position(progress.step);
                bar.set_message(describe(progress));
                if progress.step >= progress.total_steps {
                    bar.finish();
                }
            }
            Shape::Plain { last } => {
                let is_due = last.is_none_or(|last| last.elapsed() >= PLAIN_EVERY);
                if is_due || progress.step >= progress.total_steps {
                    *last = Some(Instant::now());
                    say!("step {}/{}  {}", progress.step, progress.total_steps, describe(progress));
                }
            }
        }
    }

    fn note(&mut self, text: &str) {
        match &self.shape {
            Shape::Bar(bar) => bar.suspend(|| say!("{text}")),
            Shape::Plain { .. } => say!("{text}"),
        }
    }

    fn wants_to_stop(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }
}

/// Set by the first Ctrl-C; the second ends the program at once.
pub(crate) fn interruption() -> anyhow::Result<Arc<AtomicBool>> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        return Ok(Arc::clone(flag));
    }
    let flag = Arc::clone(FLAG.get_or_init(Arc::default));
    let own = Arc::clone(&flag);
    ctrlc::set_handler(move || {
        if own.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    })
    .context("failed to listen for Ctrl-C")?;
    Ok(flag)
}

/// Shows how much of a known number is done, from any thread.
pub(crate) struct CountView {
    interrupted: Arc<AtomicBool>,
    what: &'static str,
    bar: Option<ProgressBar>,
    quiet: bool,
    last: Mutex<Instant>,
}

impl CountView {
    /// A view of so many of `what`.
    pub(crate) fn new(what: &'static str, quiet: bool) -> anyhow::Result<Self> {
        let bar = (std::io::stderr().is_terminal() && !quiet).then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(10));
            let template = "{bar:24.cyan/blue} {percent:>3}%  {pos} of {len} {msg}  eta {eta}";
            let style = ProgressStyle::with_template(template);
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
                .with_message(what)
        });
        let (interrupted, last) = (interruption()?, Mutex::new(Instant::now()));
        Ok(Self { interrupted, what, bar, quiet, last })
    }

    /// So many are done.
    pub(crate) fn show(&self, done: u64, total: u64) {
        match &self.bar {
            Some(bar) => {
                bar.set_length(total);
                bar.set_position(done);
            }
            None if self.quiet => {}
            None => {
                let Ok(mut last) = self.last.try_lock() else { return };
                if last.elapsed() >= PLAIN_EVERY {
                    *last = Instant::now();
                    say!("{done} of {total} {}", self.what);
                }
            }
        }
    }

    /// Nothing more is to come.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Set once the user asks to stop.
    pub(crate) fn interruption(&self) -> &AtomicBool {
        &self.interrupted
    }
}

/// Shows how far something is and what it looks like now.
pub(crate) struct StoryView {
    interrupted: Arc<AtomicBool>,
    what: &'static str,
    bar: Option<ProgressBar>,
    last: Mutex<Option<Instant>>,
}

impl StoryView {
    /// A view that counts in `what`.
    pub(crate) fn new(what: &'static str) -> anyhow::Result<Self> {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(20));
            let style = ProgressStyle::with_template("{bar:24.cyan/blue} {percent:>3}%  {msg}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Ok(Self { interrupted: interruption()?, what, bar, last: Mutex::new(None) })
    }

    /// Whether it is shown on a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.bar.is_some()
    }

    /// So many of all are done, and this is how it looks.
    pub(crate) fn show(&self, done: u64, total: u64, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
            bar.set_message(text.to_owned());
            return;
        }
        let Ok(mut last) = self.last.try_lock() else { return };
        if done >= total || last.is_none_or(|last| last.elapsed() >= PLAIN_EVERY) {
            *last = Some(Instant::now());
            say!("{} {done}/{total}  {text}", self.what);
        }
    }

    /// Nothing more is to come; the last line stays.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }

    /// Ends the work once the user has asked to stop.
    pub(crate) fn stop_if_asked(&self) -> homeostat_lab::Result<()> {
        if self.interrupted.load(Ordering::SeqCst) {
            return Err(homeostat_lab::Error::Interrupted);
        }
        Ok(())
    }
}

/// Return, SLO violations and cost of the service, speed, and where the time goes.
fn describe(progress: &Progress<'_>) -> String {
    let split = progress.timing.split;
    let total = (split.env + split.inference + split.update).as_secs_f64().max(1e-9);
    let percent = |part: Duration| 100.0 * part.as_secs_f64() / total;
    let reached =
        progress.recent_return().map_or("-".to_owned(), |reached| format!("{reached:.1}"));
    let service = progress.service().map_or(String::new(), |service| {
        let violations = service
            .slo_violation_ratio
            .map_or("-".to_owned(), |ratio| format!("{:.1}", 100.0 * ratio));
        format!("  SLO violations {violations:>4} %  containers {:>5.1}", service.containers)
    });
    format!(
        "return {reached:>7}{service}  {:>9} steps/s  environments {:.0}% inference {:.0}% update {:.0}%",
        thousands(progress.timing.steps_per_s),
        percent(split.env),
        percent(split.inference),
        percent(split.update),
    )
}

/// 1234567 as 1,234,567.
pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let grouped =
        digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    grouped.collect::<Vec<_>>().join(",")
}
