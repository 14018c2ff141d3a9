//! A policy file of this project as a recommender: it reads the features of Table 4.1 and
//! answers with a step.

use homeostat_core::{SimDuration, SimTime, Stream};
use homeostat_decide::{Features, ScalingAction};
use homeostat_env::{Action, Space};
use homeostat_nn::Kernel;
use homeostat_rl::{Policy, Sampling, Workspace};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use super::advice::Advice;
use crate::api::PolicyFileRef;

/// How often a config map is looked at: a new file is taken up after this long.
const LOOK_EVERY: SimDuration = SimDuration::from_secs(60);

/// Why a policy file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFileError {
    /// There is none.
    #[error("{place} is not there: {why}")]
    Missing {
        /// Where it should be.
        place: String,
        /// What is missing, and the fix.
        why: String,
    },
    /// It is no policy file.
    #[error("{place} is no policy file of this version: {why}")]
    Unreadable {
        /// Where it is.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// It was trained for something else.
    #[error(
        "{place} was trained on {env}, whose states or actions are others; use one of \
         faas/function-v1, faas/shared-v1 or faas/fleet-v1"
    )]
    OtherWorld {
        /// Where it is.
        place: String,
        /// What it was trained on.
        env: String,
    },
}

/// A policy that acts in a workload.
pub struct LearnedPolicy {
    policy: Policy,
    workspace: Workspace,
    /// The most probable action is taken: nothing is drawn.
    rng: Stream,
}

impl LearnedPolicy {
    /// The policy of a file's bytes.
    pub fn read(place: &str, bytes: &[u8]) -> Result<Self, PolicyFileError> {
        let place = place.to_owned();
        let policy = match Policy::from_bytes(bytes) {
            Ok(policy) => policy,
            Err(error) => {
                return Err(PolicyFileError::Unreadable { place, why: error.to_string() });
            }
        };
        let (low, high) = Features::RANGES.into_iter().unzip();
        let steps = Space::Discrete(ScalingAction::ALL.len());
        if policy.observation() != (Space::Box { low, high }) || policy.action() != steps {
            return Err(PolicyFileError::OtherWorld { place, env: policy.env().to_owned() });
        }
        let workspace = Workspace::new(Kernel::best());
        Ok(Self { policy, workspace, rng: Stream::from_seed(0) })
    }

    /// What it does in a state.
    pub fn choose(&mut self, state: &[f32; Features::COUNT]) -> Action {
        let mut action = Action::Discrete(0);
        let Self { policy, workspace, rng } = self;
        policy.act(state, Sampling::Greedy, rng, &mut action, workspace);
        action
    }
}

/// A policy file in a config map, looked at again and again.
pub struct PolicyFile {
    at: PolicyFileRef,
    /// Version of the config map, and what is in it.
    found: Result<(String, LearnedPolicy), PolicyFileError>,
    looked: Option<SimTime>,
}

impl PolicyFile {
    /// One that was not looked at yet.
    pub fn new(at: PolicyFileRef) -> Self {
        let place = place(&at);
        let why = "it has not been read yet".to_owned();
        Self { at, found: Err(PolicyFileError::Missing { place, why }), looked: None }
    }

    /// Where it is.
    pub fn at(&self) -> &PolicyFileRef {
        &self.at
    }

    /// Looks whether there is another one, if it is time to.
    pub async fn refresh(&mut self, client: &Client, namespace: &str, now: SimTime) {
        if self.looked.is_some_and(|at| now.saturating_since(at) < LOOK_EVERY) {
            return;
        }
        self.looked = Some(now);
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        match maps.get_opt(&self.at.config_map).await {
            Ok(found) => self.take(found),
            // What is known goes on while the server does not answer.
            Err(error) if self.found.is_err() => self.miss(error.to_string()),
            Err(_) => {}
        }
    }

    fn take(&mut self, found: Option<ConfigMap>) {
        let Some(found) = found else {
            let why = format!(
                "make it with kubectl create configmap {} --from-file={}=agent-0.policy",
                self.at.config_map, self.at.key
            );
            return self.miss(why);
        };
        let version = found.metadata.resource_version.unwrap_or_default();
        if self.found.as_ref().is_ok_and(|(known, _)| *known == version) {
            return;
        }
        let binary = found.binary_data.as_ref().and_then(|data| data.get(&self.at.key));
        let Some(bytes) = binary else {
            let keys = found.binary_data.iter().flatten().map(|(key, _)| &key[..]);
            let why = format!(
                "the config map's binary data has the keys [{}]",
                keys.collect::<Vec<_>>().join(", ")
            );
            return self.miss(why);
        };
        self.found = LearnedPolicy::read(&place(&self.at), &bytes.0).map(|read| (version, read));
    }

    fn miss(&mut self, why: String) {
        self.found = Err(PolicyFileError::Missing { place: place(&self.at), why });
    }

    /// What it does in a state.
    pub fn advise(&mut self, state: &[f32; Features::COUNT]) -> Advice {
        match &mut self.found {
            Ok((_, policy)) => Advice::Act(policy.choose(state)),
            Err(error) => Advice::Unavailable { why: error.to_string() },
        }
    }
}

fn place(at: &PolicyFileRef) -> String {
    format!("config map {:?}, key {:?}", at.config_map, at.key)
}
