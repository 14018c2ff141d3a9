//! A controlled system, as a control loop sees it.

use crate::{Decision, Domain, PodScaling};

/// A system whose targets are controlled: a simulator, a recording, or a real cluster.
///
/// [`Plant::apply`] is the only way to set anything, and it takes a [`Decision`], which only
/// [`decide`](crate::decide()) makes: training, simulation and serving cannot differ in how a
/// setting comes about.
pub trait Plant<D: Domain = PodScaling> {
    /// What can go wrong.
    type Error;

    /// Number of targets, numbered from zero.
    fn targets(&self) -> usize;

    /// Lets one window pass.
    fn advance(&mut self) -> Result<(), Self::Error>;

    /// What monitoring saw of a target in the last window; before the first, a target with nothing
    /// to do.
    fn observe(&self, target: usize) -> &D::Observation;

    /// Carries a decision out. Returns what the target has of it: a system without room gives
    /// less than was decided.
    fn apply(&mut self, target: usize, decision: &Decision<D>) -> Result<D::Setting, Self::Error>;
}
