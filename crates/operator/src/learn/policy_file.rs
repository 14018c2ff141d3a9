//! A policy file of this project as a recommender.

use std::sync::Arc;

use homeostat_core::{SimDuration, SimTime};
use homeostat_rl::Policy;
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
}

/// A policy that was read, with what tells it from another.
#[derive(Debug, Clone)]
pub struct ServedPolicy {
    /// Where it is, and the version of the config map.
    pub version: String,
    /// The policy.
    pub policy: Arc<Policy>,
}

impl PartialEq for ServedPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
    }
}

/// Reads a policy file.
fn read(place: &str, bytes: &[u8]) -> Result<Arc<Policy>, PolicyFileError> {
    let unreadable = |why: String| PolicyFileError::Unreadable { place: place.to_owned(), why };
    Policy::from_bytes(bytes).map(Arc::new).map_err(|error| unreadable(error.to_string()))
}

/// A policy file in a config map, looked at again and again.
pub struct PolicyFile {
    at: PolicyFileRef,
    /// Version of the config map, and what is in it.
    found: Result<ServedPolicy, PolicyFileError>,
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
        let version = format!("{} {version}", place(&self.at));
        if self.found.as_ref().is_ok_and(|known| known.version == version) {
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
        self.found =
            read(&place(&self.at), &bytes.0).map(|policy| ServedPolicy { version, policy });
    }

    fn miss(&mut self, why: String) {
        self.found = Err(PolicyFileError::Missing { place: place(&self.at), why });
    }

    /// The policy, or why there is none.
    pub fn advice(&self) -> Advice {
        match &self.found {
            Ok(policy) => Advice::Serve(policy.clone()),
            Err(error) => Advice::Unavailable { why: error.to_string() },
        }
    }
}

fn place(at: &PolicyFileRef) -> String {
    format!("config map {:?}, key {:?}", at.config_map, at.key)
}
