//! The session of an object's external learner: a reconcile shows it a transition, and it answers
//! with an action.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_autoscaler::api::LearnerActions;
use homeostat_autoscaler::learn::{Advice, Transition};
use homeostat_core::SimDuration;
use homeostat_decide::{AllocationBounds, Features, ScalingAction};
use homeostat_env::{Action, Space};
use homeostat_wire::{EnvironmentError, Opening, Stepped};
use tokio::sync::{Notify, watch};

/// The learner of one object. It has at most one current session: a learner that opens another one
/// ends the session before.
pub struct LearnerSession {
    actions: LearnerActions,
    /// A call of a learner fails if no transition comes within this time.
    max_wait: Duration,
    pending: Mutex<PendingDecision>,
    /// The number of transitions so far, and the latest.
    transitions: watch::Sender<(u64, Option<Transition>)>,
    answered: Notify,
}

#[derive(Default)]
struct PendingDecision {
    /// The number of the current session; 0 before the first.
    session: u64,
    /// Calls that wait for the next transition.
    waiting: usize,
    /// Whether the latest transition may still be answered.
    is_open: bool,
    answer: Option<Result<Action, String>>,
}

impl LearnerSession {
    /// Without a session yet. Transitions come at least once in `max_wait`.
    pub fn new(actions: LearnerActions, max_wait: Duration) -> Self {
        Self {
            actions,
            max_wait,
            pending: Mutex::default(),
            transitions: watch::channel((0, None)).0,
            answered: Notify::new(),
        }
    }

    /// The kind of actions that the learner answers with.
    pub fn actions(&self) -> LearnerActions {
        self.actions
    }

    /// Shows a transition to the learner and waits for its action; returns at once if no call of a
    /// learner waits for the transition.
    pub async fn ask(&self, transition: Transition, timeout: SimDuration) -> Advice {
        {
            let mut pending = self.pending();
            pending.answer = None;
            pending.is_open = pending.waiting > 0;
            // Sent under the lock, so that an answer is always to this transition.
            self.transitions.send_modify(|(number, latest)| {
                *number += 1;
                *latest = Some(transition);
            });
            if !pending.is_open {
                let has_session = pending.session > 0;
                return if has_session {
                    Advice::Silent { waited: None }
                } else {
                    Advice::NoLearner
                };
            }
        }
        let answered = tokio::time::timeout(Duration::from_nanos(timeout.nanos()), async {
            loop {
                if let Some(answer) = self.pending().answer.take() {
                    return answer;
                }
                self.answered.notified().await;
            }
        });
        let answer = answered.await;
        self.pending().is_open = false;
        match answer {
            Ok(Ok(action)) => Advice::Act(action),
            Ok(Err(why)) => Advice::Invalid { why },
            Err(_) => Advice::Silent { waited: Some(timeout) },
        }
    }

    /// Opens a session, and ends the one before.
    pub fn open(&self, name: &str) -> Result<Opening, EnvironmentError> {
        let (_, transition) = self.transitions.borrow().clone();
        let Some(transition) = transition else {
            let why = format!("{name} has not been reconciled yet: try again in a moment");
            return Err(EnvironmentError::Away(why));
        };
        let mut pending = self.pending();
        pending.session += 1;
        let fields = |fields: &[(&str, &str)]| {
            fields.iter().map(|&(name, what)| (name.to_owned(), what.to_owned())).collect()
        };
        let (low, high) = Features::RANGES.into_iter().unzip();
        Ok(Opening {
            session: format!("{name}#{}", pending.session),
            observation: Space::Box { low, high },
            action: self.space(&transition.bounds),
            observation_fields: fields(&STATE),
            action_fields: match self.actions {
                LearnerActions::Steps => fields(&STEPS),
                LearnerActions::Allocation => fields(&ALLOCATION),
            },
            reward: REWARD.to_owned(),
            time_limit: None,
        })
    }

    /// Waits for the next state, which begins an episode.
    pub async fn reset(&self, session: u64) -> Result<Vec<f32>, EnvironmentError> {
        let next = {
            let pending = self.pending();
            self.require(&pending, session)?;
            self.wait_from(pending)
        };
        Ok(next.transition().await?.state.to_vec())
    }

    /// Answers the latest transition with an action, and waits for the next one.
    pub async fn step(&self, session: u64, action: Action) -> Result<Stepped, EnvironmentError> {
        let next = {
            let mut pending = self.pending();
            self.require(&pending, session)?;
            if !pending.is_open {
                let why = "the action comes too late, or before the first state: call Reset; \
                           spec.recommenders[0].external.timeout says how long an answer may take";
                return Err(EnvironmentError::TooLate(why.to_owned()));
            }
            pending.is_open = false;
            let checked = self.check(&action);
            pending.answer = Some(checked.clone().map(|()| action));
            self.answered.notify_one();
            checked.map_err(EnvironmentError::NoAction)?;
            self.wait_from(pending)
        };
        let transition = next.transition().await?;
        Ok(Stepped {
            state: transition.state.to_vec(),
            reward: transition.reward,
            terminated: false,
            truncated: false,
            info: Vec::new(),
        })
    }

    fn pending(&self) -> MutexGuard<'_, PendingDecision> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn require(&self, pending: &PendingDecision, session: u64) -> Result<(), EnvironmentError> {
        match session == pending.session {
            true => Ok(()),
            false => Err(EnvironmentError::TooLate(
                "another learner has opened a session since, and acts now".to_owned(),
            )),
        }
    }

    /// Waits for the transition after the latest one.
    fn wait_from<'a>(&'a self, mut pending: MutexGuard<'a, PendingDecision>) -> Next<'a> {
        pending.waiting += 1;
        let mut transitions = self.transitions.subscribe();
        transitions.mark_unchanged();
        Next { session: self, transitions }
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

    /// Refuses what is no action of this kind. An action beyond the bounds is valid: the guards
    /// limit it.
    fn check(&self, action: &Action) -> Result<(), String> {
        match (self.actions, action) {
            (LearnerActions::Steps, Action::Discrete(step)) => {
                let known = ScalingAction::from_index(*step).map(|_| ());
                known.ok_or_else(|| format!("{step} is no step: use 0 to 6"))
            }
            (LearnerActions::Allocation, Action::Continuous(values)) => {
                let is_amount = |value: &f32| value.is_finite() && *value >= 0.0;
                if values.len() == 3 && values.iter().all(is_amount) {
                    return Ok(());
                }
                Err(format!("{action} is not replicas, cores and GiB: use three numbers from 0 on"))
            }
            (LearnerActions::Steps, _) => Err(format!("{action} is no step: use 0 to 6")),
            (LearnerActions::Allocation, _) => {
                Err(format!("{action} is not replicas, cores and GiB: use three numbers from 0 on"))
            }
        }
    }
}

/// A call of a learner that waits for a transition, until it is dropped.
struct Next<'a> {
    session: &'a LearnerSession,
    transitions: watch::Receiver<(u64, Option<Transition>)>,
}

impl Next<'_> {
    async fn transition(mut self) -> Result<Transition, EnvironmentError> {
        let max_wait = self.session.max_wait;
        let changed = tokio::time::timeout(max_wait, self.transitions.changed()).await;
        let is_there = matches!(changed, Ok(Ok(())));
        let latest = is_there.then(|| self.transitions.borrow().1.clone()).flatten();
        latest.ok_or_else(|| {
            let why = format!("no state was observed within {max_wait:?}: call Init again");
            EnvironmentError::Away(why)
        })
    }
}

impl Drop for Next<'_> {
    fn drop(&mut self) {
        self.session.pending().waiting -= 1;
    }
}

const STATE: [(&str, &str); Features::COUNT] = [
    ("SP", "SLO preservation, 0 to 1: threshold over measured latency, 1 while the SLO is met"),
    ("RU_cpu", "0 to 1: CPU used over CPU requested, mean of the pods"),
    ("RU_mem", "0 to 1: memory used over memory requested, mean of the pods"),
    ("AC", "-1 to 1: change of the arrival rate over the larger of both"),
    ("RLT_cpu", "0 to 1: CPU requested between its bounds"),
    ("RLT_mem", "0 to 1: memory requested between its bounds"),
    ("NC", "0 to 1: pods between their minimum and maximum"),
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

    fn transition(reward: f64) -> Transition {
        Transition {
            state: [0.5; Features::COUNT],
            reward,
            is_measured: true,
            bounds: AllocationBounds {
                replicas: Bounds::try_new(1, 4).unwrap(),
                cpu: Bounds::try_new(Millicores::new(100), Millicores::new(1000)).unwrap(),
                memory: Bounds::try_new(Bytes::from_mib(64), Bytes::from_mib(1024)).unwrap(),
            },
        }
    }

    fn session(actions: LearnerActions) -> Arc<LearnerSession> {
        Arc::new(LearnerSession::new(actions, Duration::from_secs(60)))
    }

    const TIMEOUT: SimDuration = SimDuration::from_millis(100);

    /// Waits until a call of the learner waits for the next transition.
    async fn learner_waits(session: &LearnerSession) {
        while session.pending().waiting == 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_learner_answers_a_transition_and_sees_the_next_with_its_reward() {
        let session = session(LearnerActions::Steps);
        assert_eq!(session.ask(transition(0.0), TIMEOUT).await, Advice::NoLearner);
        assert_eq!(session.open("shop/web").unwrap().session, "shop/web#1");
        let learner = session.clone();
        let learner = tokio::spawn(async move {
            assert_eq!(learner.reset(1).await.unwrap(), [0.5; Features::COUNT]);
            learner.step(1, Action::Discrete(5)).await.unwrap().reward
        });
        learner_waits(&session).await;
        assert_eq!(session.ask(transition(0.1), TIMEOUT).await, Advice::Act(Action::Discrete(5)));
        learner_waits(&session).await;
        // It sees the next transition and does not answer.
        let waited = Some(TIMEOUT);
        assert_eq!(session.ask(transition(0.2), TIMEOUT).await, Advice::Silent { waited });
        assert_eq!(learner.await.unwrap(), 0.2);
        // The reconcile after does not wait for it.
        assert_eq!(session.ask(transition(0.3), TIMEOUT).await, Advice::Silent { waited: None });
        let late = session.step(1, Action::Discrete(0)).await;
        assert!(matches!(late, Err(EnvironmentError::TooLate(_))), "{late:?}");
    }

    #[tokio::test]
    async fn an_invalid_action_is_reported_to_both_sides() {
        let check = async |actions, action: Action| {
            let session = session(actions);
            session.ask(transition(0.0), TIMEOUT).await;
            session.open("shop/web").unwrap();
            let learner = session.clone();
            let learner = tokio::spawn(async move {
                learner.reset(1).await.unwrap();
                learner.step(1, action).await
            });
            learner_waits(&session).await;
            let advice = session.ask(transition(0.0), TIMEOUT).await;
            assert!(matches!(advice, Advice::Invalid { .. }), "{advice:?}");
            let answer = learner.await.unwrap();
            assert!(matches!(answer, Err(EnvironmentError::NoAction(_))), "{answer:?}");
        };
        check(LearnerActions::Steps, Action::Discrete(7)).await;
        check(LearnerActions::Steps, Action::Continuous(vec![1.0])).await;
        check(LearnerActions::Allocation, Action::Continuous(vec![1.0, f32::NAN, 1.0])).await;
        check(LearnerActions::Allocation, Action::Continuous(vec![-1.0, 1.0, 1.0])).await;
        check(LearnerActions::Allocation, Action::Continuous(vec![1.0])).await;
        check(LearnerActions::Allocation, Action::Discrete(1)).await;
    }

    #[tokio::test]
    async fn a_new_session_ends_the_one_before_and_a_cancelled_call_stops_waiting() {
        let session = session(LearnerActions::Allocation);
        session.ask(transition(0.0), TIMEOUT).await;
        let opening = session.open("shop/web").unwrap();
        assert_eq!(opening.action.len(), 3);
        let learner = session.clone();
        let learner = tokio::spawn(async move { learner.reset(1).await });
        learner_waits(&session).await;
        learner.abort();
        assert!(learner.await.unwrap_err().is_cancelled());
        assert_eq!(session.pending().waiting, 0);
        session.open("shop/web").unwrap();
        let ended = session.reset(1).await;
        assert!(matches!(ended, Err(EnvironmentError::TooLate(_))), "{ended:?}");
    }
}
