//! Every object with an external recommender is an environment that learners can act in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_env::Action;
use homeostat_wire::{EnvironmentError, Environments, Opening, Stepped};

use super::session::LearnerSession;
use crate::api::LearnerActions;
use crate::controllers::Key;
use crate::lease::Leadership;

/// Nobody listens to learners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody listens to learners: start the operator with --listen-learners ADDRESS")]
pub struct NoSession;

/// The desks of all objects that have an external recommender.
pub struct Learners {
    /// Time between two looks; none if nobody listens.
    interval: Option<Duration>,
    leads: Leadership,
    desks: Mutex<BTreeMap<Key, Arc<LearnerSession>>>,
}

impl Learners {
    /// Without desks yet.
    pub fn new(interval: Option<Duration>, leads: Leadership) -> Self {
        Self { interval, leads, desks: Mutex::default() }
    }

    /// The desk of an object; a new one if it takes other actions than before.
    pub fn desk(
        &self,
        key: &Key,
        actions: LearnerActions,
        timeout: Duration,
    ) -> Result<Arc<LearnerSession>, NoSession> {
        // A look may come late, and waits for the learners of others.
        let patience = self.interval.ok_or(NoSession)? * 3 + timeout * 2 + Duration::from_secs(10);
        let mut desks = self.locked();
        let desk = desks.get(key).filter(|desk| desk.actions() == actions).cloned();
        Ok(desk.unwrap_or_else(|| {
            let desk = Arc::new(LearnerSession::new(actions, patience));
            desks.insert(key.clone(), desk.clone());
            desk
        }))
    }

    /// Takes away the desks of which this is not true.
    pub fn retain(&self, mut is_kept: impl FnMut(&Key) -> bool) {
        self.locked().retain(|key, _| is_kept(key));
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<LearnerSession>>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_session(&self, session: &str) -> Result<(Arc<LearnerSession>, u64), EnvironmentError> {
        let parts = session.rsplit_once('#').and_then(|(name, session)| {
            let (namespace, name) = name.split_once('/')?;
            Some(((namespace.to_owned(), name.to_owned()), session.parse().ok()?))
        });
        let over = || EnvironmentError::NotFound(format!("no session {session:?}: call Init"));
        let (key, session): (Key, u64) = parts.ok_or_else(over)?;
        let desk = self.locked().get(&key).cloned().ok_or_else(over)?;
        Ok((desk, session))
    }

    fn require_lead(&self) -> Result<(), EnvironmentError> {
        if self.leads.is_held() {
            return Ok(());
        }
        let why = "this copy of the operator does not lead: connect again to reach the other";
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
        let desk = self.locked().get(&key).cloned().ok_or_else(unknown)?;
        desk.open(environment)
    }

    async fn reset(&self, session: &str, _seed: Option<u64>) -> Result<Vec<f32>, EnvironmentError> {
        self.require_lead()?;
        let (desk, session) = self.of_session(session)?;
        desk.reset(session).await
    }

    async fn step(&self, session: &str, action: Action) -> Result<Stepped, EnvironmentError> {
        self.require_lead()?;
        let (desk, session) = self.of_session(session)?;
        desk.step(session, action).await
    }
}
