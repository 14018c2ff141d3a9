//! A canary: a step down is tried on a part of the pods, and goes on when the objective held.

use homeostat_core::{Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};
use homeostat_decide::Allocation;

use crate::api::Share;

/// What a canary says of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CanaryStep {
    /// Only this many pods go for now.
    First {
        /// Pods.
        pods: u32,
    },
    /// The pods that went are watched for so long still.
    Watched {
        /// For how long.
        remaining: SimDuration,
    },
    /// The objective broke while it was watched.
    Failed,
}

impl std::fmt::Display for CanaryStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::First { pods } => write!(f, "canary: {pods} first"),
            Self::Watched { remaining } => {
                write!(f, "canary: watched for another {:.0}s", remaining.seconds())
            }
            Self::Failed => write!(f, "canary: the objective broke, so it goes no further"),
        }
    }
}

/// When the last part of a step was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Canary {
    stepped_at: Option<SimTime>,
}

impl Canary {
    /// What is left of a change in the number of pods. More pods are never in doubt; fewer go
    /// part by part. Sizes go their own way, pod by pod, with the updater.
    pub fn limit(
        &mut self,
        (share, watch): (Share, SimDuration),
        now: SimTime,
        is_kept: Option<bool>,
        from: &Allocation,
        to: &Allocation,
    ) -> (Allocation, Option<CanaryStep>) {
        if to.replicas >= from.replicas {
            return (*to, None);
        }
        let stay = Allocation { replicas: from.replicas, ..*to };
        if is_kept == Some(false) {
            return (stay, Some(CanaryStep::Failed));
        }
        if let Some(until) = self.stepped_at.map(|at| at + watch).filter(|until| now < *until) {
            let remaining = until.saturating_since(now);
            return (stay, Some(CanaryStep::Watched { remaining }));
        }
        let pods = share.of(from.replicas).min(from.replicas - to.replicas);
        self.stepped_at = Some(now);
        let step = Allocation { replicas: from.replicas - pods, ..*to };
        (step, (step != *to).then_some(CanaryStep::First { pods }))
    }
}

impl Persist for Canary {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let at = self.stepped_at.map(SimTime::nanos);
        out.put_u64(name, at.into_iter().collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.stepped_at = from.any_u64s(name)?.first().copied().map(SimTime::from_nanos);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::{Bytes, Millicores};

    #[test]
    fn fewer_pods_go_part_by_part_and_more_at_once() {
        let replicas = |replicas| Allocation {
            replicas,
            cpu: Millicores::new(500),
            memory: Bytes::from_mib(512),
        };
        let policy = (Share::Pods(1), SimDuration::from_secs(300));
        let mut canary = Canary::default();
        let mut limit = |seconds, is_kept, from, to| {
            let now = SimTime::ZERO + SimDuration::from_secs(seconds);
            let left = canary.limit(policy, now, Some(is_kept), &replicas(from), &replicas(to));
            (left.0.replicas, left.1)
        };
        assert_eq!(limit(0, true, 8, 12), (12, None));
        assert_eq!(limit(10, true, 8, 4), (7, Some(CanaryStep::First { pods: 1 })));
        let remaining = SimDuration::from_secs(100);
        assert_eq!(limit(210, true, 7, 4), (7, Some(CanaryStep::Watched { remaining })));
        assert_eq!(limit(320, false, 7, 4), (7, Some(CanaryStep::Failed)));
        assert_eq!(limit(330, true, 7, 6), (6, None));
    }
}
