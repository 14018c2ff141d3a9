//! A policy file in a config map.

use std::sync::Arc;

use homeostat_autoscaler::api::PolicyFileRef;
use homeostat_autoscaler::learn::{Advice, ServedPolicy};
use homeostat_core::{SimDuration, SimTime};
use homeostat_rl::Policy;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

/// Time between two reads of a policy file: a new one is served after at most this time.
pub(super) const READ_INTERVAL: SimDuration = SimDuration::from_secs(60);

/// Why a policy file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFileError {
    /// It does not exist.
    #[error("{place} does not exist: {why}")]
    Missing {
        /// Where it should be.
        place: String,
        /// What is missing, and the fix.
        why: String,
    },
    /// It is not a policy file.
    #[error("{place} is not a policy file of this version: {why}")]
    Unreadable {
        /// Where it is.
        place: String,
        /// What is wrong with it.
        why: String,
    },
}

pub(super) fn read(place: &str, bytes: &[u8]) -> Result<Arc<Policy>, PolicyFileError> {
    let unreadable = |why: String| PolicyFileError::Unreadable { place: place.to_owned(), why };
    Policy::from_bytes(bytes).map(Arc::new).map_err(|error| unreadable(error.to_string()))
}

/// A policy file in a config map, read at an interval.
pub struct PolicyFile {
    at: PolicyFileRef,
    found: Result<ServedPolicy, PolicyFileError>,
    read_at: Option<SimTime>,
}

impl PolicyFile {
    /// One that was not read yet.
    pub fn new(at: PolicyFileRef) -> Self {
        let place = place(&at);
        let why = "it has not been read yet".to_owned();
        Self { at, found: Err(PolicyFileError::Missing { place, why }), read_at: None }
    }

    /// Where it is.
    pub fn at(&self) -> &PolicyFileRef {
        &self.at
    }

    /// Reads the config map, if the interval has passed.
    pub async fn refresh(&mut self, client: &Client, namespace: &str, now: SimTime) {
        if self.read_at.is_some_and(|at| now.saturating_since(at) < READ_INTERVAL) {
            return;
        }
        self.read_at = Some(now);
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        match maps.get_opt(&self.at.config_map).await {
            Ok(found) => self.take(found),
            // The last policy stays in use while the server does not answer.
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

    /// What was found.
    pub fn found(&self) -> &Result<ServedPolicy, PolicyFileError> {
        &self.found
    }

    /// The policy, or why it cannot be used.
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
