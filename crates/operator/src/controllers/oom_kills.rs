//! Containers that were killed for want of memory, each kill counted once.
//!
//! A pod tells of a kill a second or two after it, with a time of whole seconds by the clock of its
//! node: whether it lies between two looks says little. So what was counted is remembered.

use std::collections::BTreeMap;

use homeostat_core::{SimDuration, SimTime};

use crate::cluster::PodRecord;

/// A kill that is older than this at the first look was another leader's to count.
const RECENT: SimDuration = SimDuration::from_secs(60);

/// The last kill of each container that was counted, by pod and container.
#[derive(Debug, Default)]
pub(super) struct OomKills {
    /// None before the first look.
    counted: Option<BTreeMap<(String, String), SimTime>>,
}

impl OomKills {
    /// Kills that were not counted before.
    pub(super) fn count(&mut self, pods: &[PodRecord], now: SimTime) -> u32 {
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
        let new = kills.iter().filter(is_new).count();
        self.counted = Some(kills);
        u32::try_from(new).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::record;
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
    fn every_kill_counts_once_however_late_it_is_told_of() {
        let mut kills = OomKills::default();
        // Of the first look only what has just happened counts.
        assert_eq!(kills.count(&[killed("a", 1000), killed("b", 4990)], at(5000)), 1);
        assert_eq!(kills.count(&[killed("a", 1000), killed("b", 4990)], at(5015)), 0);
        // A node whose clock is behind tells of it two looks later.
        assert_eq!(kills.count(&[killed("a", 4999), killed("b", 4990)], at(5030)), 1);
        assert_eq!(kills.count(&[killed("a", 4999), killed("c", 5000)], at(5045)), 1);
        assert_eq!(kills.count(&[killed("a", 4999), killed("c", 5000)], at(5060)), 0);
    }
}
