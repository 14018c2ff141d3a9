//! Every object with an external recommender is an environment that learners can act in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_autoscaler::api::LearnerActions;
use homeostat_env::Action;
use homeostat_wire::{EnvironmentError, Environments, Opening, Stepped};

use super::session::LearnerSession;
use crate::controllers::Key;
use crate::lease::Leadership;

/// The operator does not serve learners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("learners are not served: start the operator with --listen-learners ADDRESS")]
pub struct NotServed;

/// The sessions of all objects that have an external recommender.
pub struct Learners {
    /// Time between two resyncs; none if learners are not served.
    interval: Option<Duration>,
    leads: Leadership,
    sessions: Mutex<BTreeMap<Key, Arc<LearnerSession>>>,
}

impl Learners {
    /// Without sessions yet.
    pub fn new(interval: Option<Duration>, leads: Leadership) -> Self {
        Self { interval, leads, sessions: Mutex::default() }
    }

    /// The session of an object; a new one if it takes other actions than before.
    pub fn session(
        &self,
        key: &Key,
        actions: LearnerActions,
        timeout: Duration,
    ) -> Result<Arc<LearnerSession>, NotServed> {
        // A resync may start late, and a reconcile waits for its learner.
        let max_wait = self.interval.ok_or(NotServed)? * 3 + timeout * 2 + Duration::from_secs(10);
        let mut sessions = self.locked();
        let session = sessions.get(key).filter(|known| known.actions() == actions).cloned();
        Ok(session.unwrap_or_else(|| {
            let session = Arc::new(LearnerSession::new(actions, max_wait));
            sessions.insert(key.clone(), session.clone());
            session
        }))
    }

    /// Ends the sessions of which this is not true.
    pub fn retain(&self, mut is_kept: impl FnMut(&Key) -> bool) {
        self.locked().retain(|key, _| is_kept(key));
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<LearnerSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn by_id(&self, id: &str) -> Result<(Arc<LearnerSession>, u64), EnvironmentError> {
        let parts = id.rsplit_once('#').and_then(|(name, number)| {
            let (namespace, name) = name.split_once('/')?;
            Some(((namespace.to_owned(), name.to_owned()), number.parse().ok()?))
        });
        let unknown = || EnvironmentError::NotFound(format!("no session {id:?}: call Init"));
        let (key, number): (Key, u64) = parts.ok_or_else(unknown)?;
        let session = self.locked().get(&key).cloned().ok_or_else(unknown)?;
        Ok((session, number))
    }

    fn require_lead(&self) -> Result<(), EnvironmentError> {
        if self.leads.is_held() {
            return Ok(());
        }
        let why = "this replica of the operator does not lead: connect again to reach the leader";
        Err(EnvironmentError::Away(why.to_owned()))
    }
}

#[homeostat_wire::async_trait]
impl Environments for Learners {
    async fn init(&self, environment: &str) -> Result<Opening, EnvironmentError> {
        self.require_lead()?;
        let unknown = || {
            let why = format!(
                "no autoscaler {environment:?} with `recommenders: [{{name: external}}]`: \
                 write namespace/name"
            );
            EnvironmentError::NotFound(why)
        };
        let (namespace, name) = environment.split_once('/').ok_or_else(unknown)?;
        let key = (namespace.to_owned(), name.to_owned());
        let session = self.locked().get(&key).cloned().ok_or_else(unknown)?;
        session.open(environment)
    }

    async fn reset(&self, session: &str, _seed: Option<u64>) -> Result<Vec<f32>, EnvironmentError> {
        self.require_lead()?;
        let (session, number) = self.by_id(session)?;
        session.reset(number).await
    }

    async fn step(&self, session: &str, action: Action) -> Result<Stepped, EnvironmentError> {
        self.require_lead()?;
        let (session, number) = self.by_id(session)?;
        session.step(number, action).await
    }
}
