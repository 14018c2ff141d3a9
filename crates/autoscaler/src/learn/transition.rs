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
    /// The bounds of actions.
    pub bounds: AllocationBounds,
}
