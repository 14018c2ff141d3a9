//! A thread that talks to the coordinator, so that deciding never waits for a network.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use homeostat_simppo::{
    Change, Coordination, CoordinationError, DeliveryCounts, Guidance, Participant, RefusalKind,
};

/// Changes that wait to be looked at; beyond, the oldest go.
const MAX_CHANGES: usize = 64;

/// An agent's line to its coordinator. One step at a time is on its way; a step that finds the
/// line busy is counted and gone.
pub struct Link {
    commands: SyncSender<Command>,
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
    patience: Duration,
    ticket: u64,
    /// The last step that the line took.
    sent: u64,
    /// Steps that found the line busy, told with the next one that does not.
    skipped: u64,
}

enum Command {
    Step { ticket: u64, skipped: u64, state: Vec<f32>, action: u32, reward: f64 },
    Leave,
}

/// Where both sides leave word for each other.
#[derive(Default)]
struct Desk {
    state: Mutex<DeskState>,
    changed: Condvar,
}

#[derive(Default)]
struct DeskState {
    /// The last step that was dealt with, and what came back for it.
    answered: u64,
    guidance: Option<Guidance>,
    is_away: bool,
    counts: DeliveryCounts,
    changes: Vec<Change>,
    failure: Option<CoordinationError>,
}

impl Desk {
    fn look(&self) -> MutexGuard<'_, DeskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// Joins in the background. `patience` is how long a step may wait for its guidance while
    /// the coordinator is there. While it is away, or late with the answer before, no step waits.
    pub fn start(
        coordination: Box<dyn Coordination + Send>,
        participant: Participant,
        patience: Duration,
    ) -> std::io::Result<Self> {
        let desk = Arc::new(Desk::default());
        let (commands, inbox) = sync_channel(1);
        let line =
            Line { coordination, participant, desk: Arc::clone(&desk), start: Instant::now() };
        let thread =
            std::thread::Builder::new().name("link".to_owned()).spawn(move || line.run(&inbox))?;
        Ok(Self { commands, desk, thread: Some(thread), patience, ticket: 0, sent: 0, skipped: 0 })
    }

    /// Hands over a step, and brings back what to learn from it, if the coordinator is there.
    ///
    /// An error means that this agent has no place in the team.
    pub fn exchange(
        &mut self,
        state: &[f32],
        action: u32,
        reward: f64,
    ) -> Result<Option<Guidance>, CoordinationError> {
        self.ticket += 1;
        let (ticket, skipped) = (self.ticket, self.skipped);
        let step = Command::Step { ticket, skipped, state: state.to_vec(), action, reward };
        let is_late = self.desk.look().answered < self.sent;
        match self.commands.try_send(step) {
            Ok(()) => (self.skipped, self.sent) = (0, ticket),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.skipped += 1,
        }
        let is_worth_waiting = self.skipped == 0 && !is_late;
        let is_open = |state: &mut DeskState| {
            is_worth_waiting && state.answered < ticket && !state.is_away && state.failure.is_none()
        };
        let (mut state, _) = self
            .desk
            .changed
            .wait_timeout_while(self.desk.look(), self.patience, is_open)
            .unwrap_or_else(PoisonError::into_inner);
        match state.failure.take() {
            Some(error) => Err(error),
            None => Ok(state.guidance.filter(|_| state.answered == ticket)),
        }
    }

    /// Whether the coordinator did not answer last time.
    pub fn is_away(&self) -> bool {
        self.desk.look().is_away
    }

    /// What became of the steps so far.
    pub fn counts(&self) -> DeliveryCounts {
        let mut counts = self.desk.look().counts;
        counts.undelivered += self.skipped;
        counts
    }

    /// What has changed since the last call.
    pub fn take_changes(&self) -> Vec<Change> {
        std::mem::take(&mut self.desk.look().changes)
    }

    /// Leaves the team, if the coordinator can be told.
    pub fn leave(mut self) -> DeliveryCounts {
        self.end();
        self.counts()
    }

    fn end(&mut self) {
        // The line takes one command at a time; whichever it has, it ends after this one.
        let _ = self.commands.send(Command::Leave);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end();
    }
}

/// The thread's side.
struct Line {
    coordination: Box<dyn Coordination + Send>,
    participant: Participant,
    desk: Arc<Desk>,
    start: Instant,
}

impl Line {
    fn run(mut self, inbox: &Receiver<Command>) {
        loop {
            let wait = self.participant.next_due().saturating_sub(self.start.elapsed());
            let goes_on = match inbox.recv_timeout(wait) {
                Ok(Command::Step { ticket, skipped, state, action, reward }) => {
                    self.participant.skip(skipped);
                    let (now, step) = (self.start.elapsed(), (&state[..], action, reward));
                    let coordination = self.coordination.as_mut();
                    let outcome = self.participant.deliver(coordination, now, step);
                    self.report(Some(ticket), outcome)
                }
                Err(RecvTimeoutError::Timeout) => {
                    let now = self.start.elapsed();
                    let outcome = self.participant.keep_alive(self.coordination.as_mut(), now);
                    self.report(None, outcome.map(|change| (None, change)))
                }
                Ok(Command::Leave) | Err(RecvTimeoutError::Disconnected) => {
                    // The coordinator may be away: then its timeout says the same.
                    let _ = self.participant.leave(self.coordination.as_mut());
                    return;
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Leaves word at the desk; whether the line goes on.
    fn report(
        &self,
        ticket: Option<u64>,
        outcome: Result<(Option<Guidance>, Option<Change>), CoordinationError>,
    ) -> bool {
        let mut state = self.desk.look();
        let failure = match outcome {
            Ok((guidance, change)) => {
                if let Some(ticket) = ticket {
                    state.answered = ticket;
                    state.guidance = guidance;
                }
                if state.changes.len() >= MAX_CHANGES {
                    state.changes.remove(0);
                }
                state.changes.extend(change);
                None
            }
            Err(error) => Some(error),
        };
        state.is_away = !self.participant.is_connected();
        state.counts = *self.participant.counts();
        // Whoever was let in once keeps its post even if it is turned away later: somebody may
        // be changing tokens. Only its name in other hands ends it.
        let ends = failure.filter(|error| match error {
            CoordinationError::Refused(refusal) => refusal.kind == RefusalKind::EarlierSession,
            _ => state.counts.registrations == 0,
        });
        let goes_on = ends.is_none();
        state.failure = ends;
        drop(state);
        self.desk.changed.notify_all();
        goes_on
    }
}
