//! Simulated worlds as environments: every session has a world of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use homeostat_env::{Action, Env, EnvSpec, Field};

use super::{EnvironmentError, Environments, Opening, Stepped};

/// Makes a world of an id.
pub type MakeWorld =
    dyn Fn(&str) -> Result<Box<dyn Env>, homeostat_env::Error> + Send + Sync + 'static;

/// A session that nobody has used for this long gives way when room is needed.
const IDLE: Duration = Duration::from_secs(600);

/// Simulated worlds, one for every session.
pub struct SimulatedWorlds {
    make: Box<MakeWorld>,
    most_sessions: usize,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    opened: u64,
    open: BTreeMap<String, Session>,
}

struct Session {
    world: Arc<Mutex<Box<dyn Env>>>,
    used: Instant,
}

impl SimulatedWorlds {
    /// Worlds that `make` makes, at most so many at once.
    pub fn new(make: Box<MakeWorld>, most_sessions: usize) -> Self {
        Self { make, most_sessions, sessions: Mutex::default() }
    }

    /// Sessions that are open.
    pub fn sessions(&self) -> usize {
        self.locked().open.len()
    }

    fn locked(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn world(&self, session: &str) -> Result<Arc<Mutex<Box<dyn Env>>>, EnvironmentError> {
        let mut sessions = self.locked();
        let found = sessions.open.get_mut(session).ok_or_else(|| {
            EnvironmentError::NotFound("the session is over or never was: call Init".to_owned())
        })?;
        found.used = Instant::now();
        Ok(Arc::clone(&found.world))
    }
}

#[tonic::async_trait]
impl Environments for SimulatedWorlds {
    async fn init(&self, environment: &str) -> Result<Opening, EnvironmentError> {
        let world = (self.make)(environment)
            .map_err(|error| EnvironmentError::NotFound(error.to_string()))?;
        let spec = world.spec().clone();
        let mut sessions = self.locked();
        if sessions.open.len() >= self.most_sessions {
            sessions.open.retain(|_, session| session.used.elapsed() < IDLE);
        }
        if sessions.open.len() >= self.most_sessions {
            let most = self.most_sessions;
            return Err(EnvironmentError::Full(format!("{most} sessions are open already")));
        }
        sessions.opened += 1;
        let session = sessions.opened.to_string();
        let kept = Session { world: Arc::new(Mutex::new(world)), used: Instant::now() };
        sessions.open.insert(session.clone(), kept);
        Ok(opening(session, &spec))
    }

    async fn reset(&self, session: &str, seed: Option<u64>) -> Result<Vec<f32>, EnvironmentError> {
        let world = self.world(session)?;
        played(move || {
            let mut world = world.lock().unwrap_or_else(PoisonError::into_inner);
            world.reset(seed).map(<[f32]>::to_vec).map_err(refused)
        })
        .await
    }

    async fn step(&self, session: &str, action: Action) -> Result<Stepped, EnvironmentError> {
        let world = self.world(session)?;
        played(move || {
            let mut world = world.lock().unwrap_or_else(PoisonError::into_inner);
            let step = world.step(&action).map_err(refused)?;
            Ok(Stepped {
                state: step.obs.to_vec(),
                reward: step.reward,
                terminated: step.terminated,
                truncated: step.truncated,
                info: step.info.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            })
        })
        .await
    }
}

/// Worlds compute: that is not for the threads that listen.
async fn played<T: Send + 'static>(
    play: impl FnOnce() -> Result<T, EnvironmentError> + Send + 'static,
) -> Result<T, EnvironmentError> {
    let failed = |_| EnvironmentError::Away("the world has failed: call Init".to_owned());
    tokio::task::spawn_blocking(play).await.map_err(failed)?
}

fn refused(error: homeostat_env::Error) -> EnvironmentError {
    match error {
        homeostat_env::Error::ActionOutsideSpace { .. } => {
            EnvironmentError::NoAction(error.to_string())
        }
        _ => EnvironmentError::NotNow(error.to_string()),
    }
}

fn opening(session: String, spec: &EnvSpec) -> Opening {
    let fields = |fields: &[Field]| {
        fields.iter().map(|field| (field.name.to_string(), field.meaning.to_string())).collect()
    };
    Opening {
        session,
        observation: spec.observation.clone(),
        action: spec.action.clone(),
        observation_fields: fields(&spec.card.observation),
        action_fields: fields(&spec.card.action),
        reward: spec.card.reward.to_owned(),
        time_limit: spec.time_limit,
    }
}
