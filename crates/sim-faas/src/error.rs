//! What this crate refuses.

use homeostat_core::{Bytes, SimDuration};

/// A platform that cannot be built, or a wish that it cannot grant. None of these changes it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// Nothing to run on.
    #[error("the cluster has no nodes: give it at least one")]
    NoNodes,
    /// A number outside its range.
    #[error("{what} is {value}: {expected}")]
    OutOfRange {
        /// Which number.
        what: String,
        /// The refused value.
        value: String,
        /// What it must be.
        expected: String,
    },
    /// A container that no node can hold.
    #[error(
        "a container of {function} takes {needed}, and the largest node has {largest}: \
         lower its memory limit or enlarge a node"
    )]
    LargerThanAnyNode {
        /// Whose container.
        function: String,
        /// Its memory limit.
        needed: Bytes,
        /// Memory of the largest node.
        largest: Bytes,
    },
    /// An objective that nobody could keep.
    #[error(
        "the objective of {function}, {threshold}, is below its mean service time of {service}: \
         raise faas.objective_over_isolated"
    )]
    ObjectiveBelowService {
        /// Whose.
        function: String,
        /// The objective.
        threshold: SimDuration,
        /// CPU and I/O time of a request.
        service: SimDuration,
    },
    /// No room now.
    #[error("{function} asks for {asked} on nodes that have {free} left")]
    NoRoom {
        /// Who asks.
        function: String,
        /// What is asked for.
        asked: String,
        /// What is left.
        free: String,
    },
    /// A function that was never added or has been removed.
    #[error("there is no function number {number}")]
    NoSuchFunction {
        /// The number.
        number: usize,
    },
    /// A node that is not there.
    #[error("there is no node number {number}: the cluster has {nodes}")]
    NoSuchNode {
        /// The number.
        number: usize,
        /// How many there are.
        nodes: usize,
    },
    /// A graph that no request could follow to its end.
    #[error("chain \"{chain}\": {reason}")]
    Chain {
        /// The chain as written.
        chain: String,
        /// What is wrong with it, and the way out.
        reason: String,
    },
    /// A function that cannot be a stage.
    #[error("{function} cannot be a stage of \"{chain}\": {reason}")]
    NoStage {
        /// The function.
        function: String,
        /// The chain.
        chain: String,
        /// Why, and the way out.
        reason: &'static str,
    },
    /// A chain that was never added or has lost a stage.
    #[error("there is no chain number {number}, or one of its stages was removed")]
    NoSuchChain {
        /// The number.
        number: usize,
    },
    /// A load that cannot be played.
    #[error(transparent)]
    Load(#[from] homeostat_load::Error),
    /// A processor that cannot be built.
    #[error(transparent)]
    Mechanics(#[from] homeostat_des::Error),
    /// An objective that cannot be one.
    #[error(transparent)]
    Core(#[from] homeostat_core::Error),
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
