//! What a learner observes at one reconcile.

use homeostat_decide::{AllocationBounds, Features};

/// The window after the learner's last action.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    /// SLO preservation, utilisation, arrival-rate change and allocation, as in
    /// [`Features`].
    pub state: [f32; Features::COUNT],
    /// The reward of the window.
    pub reward: f64,
    /// Whether every metric it is made of is fresh and valid.
    pub is_measured: bool,
    /// The bounds of actions.
    pub bounds: AllocationBounds,
}
