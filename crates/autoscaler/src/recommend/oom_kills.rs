//! Out-of-memory kills of containers, each counted once.
//!
//! A pod's status shows a kill a second or two after it, with a time in whole seconds by the clock
//! of its node. That time does not tell whether the kill happened since the last reconcile, so the
//! counted kills are remembered.

use std::collections::BTreeMap;

use homeostat_core::{SimDuration, SimTime};

use crate::workload::PodRecord;

/// At the first reconcile, the previous leader has counted kills that are older than this.
const RECENT: SimDuration = SimDuration::from_secs(60);

/// The last kill of each container that was counted, by pod and container.
#[derive(Debug, Default)]
pub struct OomKills {
    /// None before the first reconcile.
    counted: Option<BTreeMap<(String, String), SimTime>>,
}

impl OomKills {
    /// The number of kills that were not counted before, by container name.
    pub fn count(&mut self, pods: &[PodRecord], now: SimTime) -> BTreeMap<String, u32> {
        let mut kills = BTreeMap::new();
        for pod in pods {
            for container in &pod.containers {
                if let Some(at) = container.oom_killed_at {
                    kills.insert((pod.name.clone(), container.name.clone()), at);
                }
            }
        }
        let is_new = |(place, at): &(&(String, String), &SimTime)| match &self.counted {
            Some(counted) => counted.get(*place).is_none_or(|last| last < at),
            None => now.saturating_since(**at) < RECENT,
        };
        let mut new = BTreeMap::new();
        for ((_, container), _) in kills.iter().filter(is_new) {
            *new.entry(container.clone()).or_default() += 1;
        }
        self.counted = Some(kills);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::record;
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    fn at(seconds: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(seconds)
    }

    /// A pod whose container was killed at a time.
    fn killed(pod: &str, seconds: i64) -> PodRecord {
        let finished = Timestamp::from_second(seconds).expect("a time").to_string();
        let last = json!({ "terminated": {
            "exitCode": 137, "reason": "OOMKilled", "finishedAt": finished,
        }});
        let status = json!({
            "name": "app", "ready": true, "restartCount": 1, "image": "i", "imageID": "i",
            "lastState": last,
        });
        let pod = serde_json::from_value(json!({
            "metadata": { "name": pod, "namespace": "shop" },
            "spec": { "containers": [{ "name": "app" }] },
            "status": { "phase": "Running", "containerStatuses": [status] },
        }));
        record(&pod.expect("valid")).expect("it runs")
    }

    #[test]
    fn every_kill_counts_once_however_late_it_is_reported() {
        let mut kills = OomKills::default();
        let mut count = |pods: [PodRecord; 2], seconds| {
            kills.count(&pods, at(seconds)).into_iter().collect::<Vec<_>>()
        };
        let one = || vec![("app".to_owned(), 1)];
        // At the first reconcile, only recent kills count.
        assert_eq!(count([killed("a", 1000), killed("b", 4990)], 5000), one());
        assert_eq!(count([killed("a", 1000), killed("b", 4990)], 5015), []);
        // A node whose clock is behind reports it two reconciles later.
        assert_eq!(count([killed("a", 4999), killed("b", 4990)], 5030), one());
        assert_eq!(count([killed("a", 4999), killed("c", 5000)], 5045), one());
        assert_eq!(count([killed("a", 4999), killed("c", 5000)], 5060), []);
    }
}
