//! Simulated environments: every session has one of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use homeostat_env::{Action, Env, EnvSpec, Field};

use super::{EnvironmentError, Environments, Opening, Stepped};

/// Makes the environment with an id.
pub type MakeEnvironment =
    dyn Fn(&str) -> Result<Box<dyn Env>, homeostat_env::Error> + Send + Sync + 'static;

/// A session that was not used for this long gives way when room is needed.
const IDLE: Duration = Duration::from_secs(600);

/// Simulated environments, one for every session.
pub struct SimulatedEnvironments {
    make: Box<MakeEnvironment>,
    most_sessions: usize,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    opened: u64,
    open: BTreeMap<String, Session>,
}

struct Session {
    env: Arc<Mutex<Box<dyn Env>>>,
    used: Instant,
}

impl SimulatedEnvironments {
    /// Environments that `make` makes, at most `most_sessions` at once.
    pub fn new(make: Box<MakeEnvironment>, most_sessions: usize) -> Self {
        Self { make, most_sessions, sessions: Mutex::default() }
    }

    /// Sessions that are open.
    pub fn sessions(&self) -> usize {
        self.locked().open.len()
    }

    fn locked(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn env(&self, session: &str) -> Result<Arc<Mutex<Box<dyn Env>>>, EnvironmentError> {
        let mut sessions = self.locked();
        let found = sessions.open.get_mut(session).ok_or_else(|| {
            EnvironmentError::NotFound("the session is over or never was: call Init".to_owned())
        })?;
        found.used = Instant::now();
        Ok(Arc::clone(&found.env))
    }
}

#[tonic::async_trait]
impl Environments for SimulatedEnvironments {
    async fn init(&self, environment: &str) -> Result<Opening, EnvironmentError> {
        let env = (self.make)(environment)
            .map_err(|error| EnvironmentError::NotFound(error.to_string()))?;
        let spec = env.spec().clone();
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
        let kept = Session { env: Arc::new(Mutex::new(env)), used: Instant::now() };
        sessions.open.insert(session.clone(), kept);
        Ok(opening(session, &spec))
    }

    async fn reset(&self, session: &str, seed: Option<u64>) -> Result<Vec<f32>, EnvironmentError> {
        let env = self.env(session)?;
        played(move || {
            let mut env = env.lock().unwrap_or_else(PoisonError::into_inner);
            env.reset(seed).map(<[f32]>::to_vec).map_err(refused)
        })
        .await
    }

    async fn step(&self, session: &str, action: Action) -> Result<Stepped, EnvironmentError> {
        let env = self.env(session)?;
        played(move || {
            let mut env = env.lock().unwrap_or_else(PoisonError::into_inner);
            let step = env.step(&action).map_err(refused)?;
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

/// Environments compute: that is not for the threads that listen.
async fn played<T: Send + 'static>(
    play: impl FnOnce() -> Result<T, EnvironmentError> + Send + 'static,
) -> Result<T, EnvironmentError> {
    let failed = |_| EnvironmentError::Away("the environment has failed: call Init".to_owned());
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
