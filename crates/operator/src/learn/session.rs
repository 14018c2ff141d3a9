//! Where one object's learner sits: the controller lays a state on it, the learner an action.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_core::SimDuration;
use homeostat_decide::{AllocationBounds, Features, ScalingAction};
use homeostat_env::{Action, Space};
use homeostat_wire::{EnvironmentError, Opening, Stepped};
use tokio::sync::{Notify, watch};

use super::advice::Advice;
use crate::api::LearnerActions;

/// What the learner is shown: the window after its last action.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    /// The features of Table 4.1.
    pub state: [f32; Features::COUNT],
    /// What the window was worth.
    pub reward: f64,
    /// What actions are bound to.
    pub bounds: AllocationBounds,
}

/// One object's desk.
pub struct LearnerSession {
    actions: LearnerActions,
    /// A learner that waits is told that nothing comes after this long.
    patience: Duration,
    paper: Mutex<PendingDecision>,
    moments: watch::Sender<(u64, Option<Transition>)>,
    answered: Notify,
}

/// What lies on a desk.
#[derive(Default)]
struct PendingDecision {
    /// The present session; earlier ones are over.
    session: u64,
    /// Calls that wait for the next moment.
    waiting: usize,
    /// Whether the present moment may still be answered.
    is_open: bool,
    answer: Option<Result<Action, String>>,
}

impl LearnerSession {
    /// A desk at which nobody sits. Transitions come at least once in `patience`.
    pub fn new(actions: LearnerActions, patience: Duration) -> Self {
        Self {
            actions,
            patience,
            paper: Mutex::default(),
            moments: watch::channel((0, None)).0,
            answered: Notify::new(),
        }
    }

    /// What the learner may answer.
    pub fn actions(&self) -> LearnerActions {
        self.actions
    }

    /// Shows a moment to the learner, and waits for what it does; not at all if it is not there
    /// to see it.
    pub async fn ask(&self, moment: Transition, timeout: SimDuration) -> Advice {
        {
            let mut paper = self.paper();
            paper.answer = None;
            paper.is_open = paper.waiting > 0;
            // Sent while the paper is held: whoever answers has seen this moment.
            self.moments.send_modify(|(number, shown)| {
                *number += 1;
                *shown = Some(moment);
            });
            if !paper.is_open {
                let is_known = paper.session > 0;
                return if is_known { Advice::Silent { waited: None } } else { Advice::Nobody };
            }
        }
        let answered = tokio::time::timeout(Duration::from_nanos(timeout.nanos()), async {
            loop {
                if let Some(answer) = self.paper().answer.take() {
                    return answer;
                }
                self.answered.notified().await;
            }
        });
        let answer = answered.await;
        self.paper().is_open = false;
        match answer {
            Ok(Ok(action)) => Advice::Act(action),
            Ok(Err(why)) => Advice::Nonsense { why },
            Err(_) => Advice::Silent { waited: Some(timeout) },
        }
    }

    /// Opens a session; an earlier one is over.
    pub fn open(&self, name: &str) -> Result<Opening, EnvironmentError> {
        let (_, moment) = self.moments.borrow().clone();
        let Some(moment) = moment else {
            let why = format!("{name} has not been looked at yet: try again in a moment");
            return Err(EnvironmentError::Away(why));
        };
        let mut paper = self.paper();
        paper.session += 1;
        let fields = |fields: &[(&str, &str)]| {
            fields.iter().map(|&(name, what)| (name.to_owned(), what.to_owned())).collect()
        };
        let (low, high) = Features::RANGES.into_iter().unzip();
        Ok(Opening {
            session: format!("{name}#{}", paper.session),
            observation: Space::Box { low, high },
            action: self.space(&moment.bounds),
            observation_fields: fields(&STATE),
            action_fields: match self.actions {
                LearnerActions::Steps => fields(&STEPS),
                LearnerActions::Allocation => fields(&ALLOCATION),
            },
            reward: REWARD.to_owned(),
            time_limit: None,
        })
    }

    /// The next state, for an episode that begins.
    pub async fn reset(&self, session: u64) -> Result<Vec<f32>, EnvironmentError> {
        let next = {
            let paper = self.paper();
            self.require(&paper, session)?;
            self.wait_from(paper)
        };
        Ok(next.moment().await?.state.to_vec())
    }

    /// Acts upon the state that was seen last, and waits for the one that follows.
    pub async fn step(&self, session: u64, action: Action) -> Result<Stepped, EnvironmentError> {
        let next = {
            let mut paper = self.paper();
            self.require(&paper, session)?;
            if !paper.is_open {
                let why = "the action comes too late, or before the first state: call Reset; \
                           spec.recommenders[0].external.timeout says how long an answer may take";
                return Err(EnvironmentError::TooLate(why.to_owned()));
            }
            paper.is_open = false;
            let judged = self.judge(&action);
            paper.answer = Some(judged.clone().map(|()| action));
            self.answered.notify_one();
            judged.map_err(EnvironmentError::NoAction)?;
            self.wait_from(paper)
        };
        let moment = next.moment().await?;
        Ok(Stepped {
            state: moment.state.to_vec(),
            reward: moment.reward,
            terminated: false,
            truncated: false,
            info: Vec::new(),
        })
    }

    fn paper(&self) -> MutexGuard<'_, PendingDecision> {
        self.paper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn require(&self, paper: &PendingDecision, session: u64) -> Result<(), EnvironmentError> {
        match session == paper.session {
            true => Ok(()),
            false => Err(EnvironmentError::TooLate(
                "another learner has opened a session since: it acts now".to_owned(),
            )),
        }
    }

    /// Waits for the moment after the one that is shown now.
    fn wait_from<'a>(&'a self, mut paper: MutexGuard<'a, PendingDecision>) -> Next<'a> {
        paper.waiting += 1;
        let mut moments = self.moments.subscribe();
        moments.mark_unchanged();
        Next { desk: self, moments }
    }

    fn space(&self, bounds: &AllocationBounds) -> Space {
        match self.actions {
            LearnerActions::Steps => Space::Discrete(ScalingAction::ALL.len()),
            LearnerActions::Allocation => {
                let gib = |bytes: u64| (bytes as f64 / (1u64 << 30) as f64) as f32;
                let ends = |replicas: u32, cores: f64, bytes: u64| {
                    vec![replicas as f32, cores as f32, gib(bytes)]
                };
                let (replicas, cpu, memory) = (bounds.replicas, bounds.cpu, bounds.memory);
                Space::Box {
                    low: ends(replicas.low(), cpu.low().cores(), memory.low().bytes()),
                    high: ends(replicas.high(), cpu.high().cores(), memory.high().bytes()),
                }
            }
        }
    }

    /// Beyond the bounds is not nonsense: the guardrails know what to do with it.
    fn judge(&self, action: &Action) -> Result<(), String> {
        match (self.actions, action) {
            (LearnerActions::Steps, Action::Discrete(step)) => {
                let known = ScalingAction::from_index(*step).map(|_| ());
                known.ok_or_else(|| format!("{step} is no step: they are 0 to 6"))
            }
            (LearnerActions::Allocation, Action::Continuous(values)) => {
                let is_amount = |value: &f32| value.is_finite() && *value >= 0.0;
                if values.len() == 3 && values.iter().all(is_amount) {
                    return Ok(());
                }
                Err(format!("{action} is not replicas, cores and GiB, three numbers from 0 on"))
            }
            (LearnerActions::Steps, _) => Err(format!("{action} is no step, a number 0 to 6")),
            (LearnerActions::Allocation, _) => {
                Err(format!("{action} is not replicas, cores and GiB"))
            }
        }
    }
}

/// A call that waits. One that breaks off waits no longer.
struct Next<'a> {
    desk: &'a LearnerSession,
    moments: watch::Receiver<(u64, Option<Transition>)>,
}

impl Next<'_> {
    async fn moment(mut self) -> Result<Transition, EnvironmentError> {
        let patience = self.desk.patience;
        let changed = tokio::time::timeout(patience, self.moments.changed()).await;
        let is_there = matches!(changed, Ok(Ok(())));
        let shown = is_there.then(|| self.moments.borrow().1.clone()).flatten();
        shown.ok_or_else(|| {
            let why = format!("nothing was seen within {patience:?}: call Init again");
            EnvironmentError::Away(why)
        })
    }
}

impl Drop for Next<'_> {
    fn drop(&mut self) {
        self.desk.paper().waiting -= 1;
    }
}

const STATE: [(&str, &str); Features::COUNT] = [
    ("SP", "0 to 1: objective over measured latency, 1 while it is kept"),
    ("RU_cpu", "0 to 1: CPU used over CPU requested, mean of the pods"),
    ("RU_mem", "0 to 1: memory used over memory requested, mean of the pods"),
    ("AC", "-1 to 1: change of the arrival rate over the larger of both"),
    ("RLT_cpu", "0 to 1: CPU requested between its bounds"),
    ("RLT_mem", "0 to 1: memory requested between its bounds"),
    ("NC", "0 to 1: pods between fewest and most"),
];

const STEPS: [(&str, &str); 4] = [
    ("0 hold", "change nothing"),
    ("1, 2 CPU", "125m more, less, for each pod"),
    ("3, 4 memory", "64Mi more, less, for each pod"),
    ("5, 6 pods", "one more, one fewer"),
];

const ALLOCATION: [(&str, &str); 3] = [
    ("replicas", "pods"),
    ("cpu", "cores that a pod requests"),
    ("memory", "GiB that a pod requests"),
];

const REWARD: &str = "0.7 * SP + 0.15 * (RU_cpu + RU_mem); -1 for an illegal step and for one \
                      that undoes the one before";

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::{Bounds, Bytes, Millicores};
    use std::sync::Arc;

    fn moment(reward: f64) -> Transition {
        Transition {
            state: [0.5; Features::COUNT],
            reward,
            bounds: AllocationBounds {
                replicas: Bounds::try_new(1, 4).unwrap(),
                cpu: Bounds::try_new(Millicores::new(100), Millicores::new(1000)).unwrap(),
                memory: Bounds::try_new(Bytes::from_mib(64), Bytes::from_mib(1024)).unwrap(),
            },
        }
    }

    fn desk(actions: LearnerActions) -> Arc<LearnerSession> {
        Arc::new(LearnerSession::new(actions, Duration::from_secs(60)))
    }

    const TIMEOUT: SimDuration = SimDuration::from_millis(100);

    /// Waits until the learner's call waits for the next moment.
    async fn attended(desk: &LearnerSession) {
        while desk.paper().waiting == 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_learner_acts_upon_what_it_was_shown_and_is_shown_what_came_of_it() {
        let desk = desk(LearnerActions::Steps);
        assert_eq!(desk.ask(moment(0.0), TIMEOUT).await, Advice::Nobody);
        let session = desk.open("shop/web").unwrap().session;
        assert_eq!(session, "shop/web#1");
        let learner = desk.clone();
        let learner = tokio::spawn(async move {
            assert_eq!(learner.reset(1).await.unwrap(), [0.5; Features::COUNT]);
            learner.step(1, Action::Discrete(5)).await.unwrap().reward
        });
        attended(&desk).await;
        assert_eq!(desk.ask(moment(0.1), TIMEOUT).await, Advice::Act(Action::Discrete(5)));
        attended(&desk).await;
        // It is shown the next moment and does not answer any more.
        let waited = Some(TIMEOUT);
        assert_eq!(desk.ask(moment(0.2), TIMEOUT).await, Advice::Silent { waited });
        assert_eq!(learner.await.unwrap(), 0.2);
        // Nobody waits for it a second time.
        assert_eq!(desk.ask(moment(0.3), TIMEOUT).await, Advice::Silent { waited: None });
        let late = desk.step(1, Action::Discrete(0)).await;
        assert!(matches!(late, Err(EnvironmentError::TooLate(_))), "{late:?}");
    }

    #[tokio::test]
    async fn nonsense_is_told_to_both_sides() {
        let check = async |actions, action: Action| {
            let desk = desk(actions);
            desk.ask(moment(0.0), TIMEOUT).await;
            desk.open("shop/web").unwrap();
            let learner = desk.clone();
            let learner = tokio::spawn(async move {
                learner.reset(1).await.unwrap();
                learner.step(1, action).await
            });
            attended(&desk).await;
            let advice = desk.ask(moment(0.0), TIMEOUT).await;
            assert!(matches!(advice, Advice::Nonsense { .. }), "{advice:?}");
            let told = learner.await.unwrap();
            assert!(matches!(told, Err(EnvironmentError::NoAction(_))), "{told:?}");
        };
        check(LearnerActions::Steps, Action::Discrete(7)).await;
        check(LearnerActions::Steps, Action::Continuous(vec![1.0])).await;
        check(LearnerActions::Allocation, Action::Continuous(vec![1.0, f32::NAN, 1.0])).await;
        check(LearnerActions::Allocation, Action::Continuous(vec![-1.0, 1.0, 1.0])).await;
        check(LearnerActions::Allocation, Action::Continuous(vec![1.0])).await;
        check(LearnerActions::Allocation, Action::Discrete(1)).await;
    }

    #[tokio::test]
    async fn a_later_session_ends_the_earlier_and_a_call_that_breaks_off_waits_no_longer() {
        let desk = desk(LearnerActions::Allocation);
        desk.ask(moment(0.0), TIMEOUT).await;
        let opening = desk.open("shop/web").unwrap();
        assert_eq!(opening.action.len(), 3);
        let learner = desk.clone();
        let learner = tokio::spawn(async move { learner.reset(1).await });
        attended(&desk).await;
        learner.abort();
        assert!(learner.await.unwrap_err().is_cancelled());
        assert_eq!(desk.paper().waiting, 0);
        desk.open("shop/web").unwrap();
        let ended = desk.reset(1).await;
        assert!(matches!(ended, Err(EnvironmentError::TooLate(_))), "{ended:?}");
    }
}
