//! Replicas that are added at once when a latency SLO becomes violated.
//!
//! Use is the slower of the two figures: it is a mean over a window that was measured a moment
//! ago, and where limits equal requests it ends at 100 %, however many requests wait. Latency
//! shows a burst at once. So while an SLO that was met becomes violated, and for as long as it gets
//! worse, latency asks for more replicas; use, which sees the burst later, may ask for more.
//! Counted from the replicas that made that latency, and only while it gets worse: latency over
//! some minutes stays bad long after enough was done.

use homeostat_core::{Fraction, Persist, Result as CoreResult, Snapshot};

use crate::{Error, Observation, Reason, Result};

/// Settings of the burst response.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BurstResponseConfig {
    /// Replicas are multiplied by as much as latency exceeds its threshold, and at most by this.
    pub most: f64,
    /// Replicas that use less than this part of what they may are not what requests wait for:
    /// more of them would not help.
    pub least_use: Fraction,
}

impl Default for BurstResponseConfig {
    fn default() -> Self {
        Self { most: 2.0, least_use: Fraction::from_percent(50) }
    }
}

impl BurstResponseConfig {
    pub(super) fn validate(&self) -> Result<()> {
        if !(self.most >= 1.0 && self.most.is_finite()) {
            return Err(Error::setting("burst_response.most", "a number from 1 up", self.most));
        }
        Ok(())
    }
}

/// Whether the SLO is met, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum BurstResponse {
    /// The SLO was violated from the beginning: since when, and with how many replicas, is unknown.
    #[default]
    Unknown,
    /// It is met.
    Met {
        /// Replicas that serve.
        serving: u32,
    },
    /// It is violated.
    Violated {
        /// Replicas that served when it did.
        serving: u32,
        /// Latency at its worst that was answered, as a part of the threshold.
        worst: f64,
        /// Replicas that were asked for and have not been given yet; zero if there are none.
        owed: u32,
    },
}

impl BurstResponse {
    /// Replicas that a violation asks for, and why. Latency is given as a part of the threshold,
    /// use as a part of how full replicas may be.
    pub(super) fn observe(
        &mut self,
        config: &BurstResponseConfig,
        obs: &Observation,
        part: f64,
        used: f64,
    ) -> Option<(u32, Reason)> {
        let current = obs.allocation.replicas;
        let (serving, worst, owed) = match *self {
            _ if part <= 1.0 => {
                *self = Self::Met { serving: obs.serving() };
                return None;
            }
            Self::Unknown => return None,
            // Replicas that came since the last observation have not been too slow.
            Self::Met { serving } => (serving.min(obs.serving()), 0.0, 0),
            Self::Violated { serving, worst, owed } => (serving, worst, owed),
        };
        let mut asked = if owed > current { owed } else { 0 };
        let mut worst = worst;
        // Use may be of the time before the burst: what it does not bear out now counts later.
        if part > worst && used >= config.least_use.ratio() {
            asked = asked.max((f64::from(serving) * part.min(config.most)).ceil() as u32);
            worst = part;
        }
        *self = Self::Violated { serving, worst, owed: asked };
        (asked > current).then_some((asked, Reason::BurstResponse { replicas: asked }))
    }
}

impl Persist for BurstResponse {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let state = match *self {
            Self::Unknown => vec![],
            Self::Met { serving } => vec![f64::from(serving)],
            Self::Violated { serving, worst, owed } => {
                vec![f64::from(serving), worst, f64::from(owed)]
            }
        };
        out.put_f64(&format!("{name}/state"), state);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        *self = match *from.any_f64s(&format!("{name}/state"))? {
            [serving, worst, owed] => {
                Self::Violated { serving: serving as u32, worst, owed: owed as u32 }
            }
            [serving] => Self::Met { serving: serving as u32 },
            _ => Self::Unknown,
        };
        Ok(())
    }
}
