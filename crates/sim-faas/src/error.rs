//! What this crate refuses.

use homeostat_core::{Bytes, SimDuration};

/// A platform that cannot be built, or a request that it refuses. A refusal changes nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A cluster without nodes.
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
        /// The function of the container.
        function: String,
        /// Its memory limit.
        needed: Bytes,
        /// Memory of the largest node.
        largest: Bytes,
    },
    /// An SLO that is shorter than the mean service time.
    #[error(
        "the SLO threshold of {function}, {threshold}, is below its mean service time of {service}: \
         raise faas.objective_over_isolated"
    )]
    ObjectiveBelowService {
        /// The function.
        function: String,
        /// The SLO.
        threshold: SimDuration,
        /// CPU and I/O time of a request.
        service: SimDuration,
    },
    /// The nodes have too little free memory now.
    #[error(
        "{function} requests {asked}, but the nodes have {free} left: request less, or add nodes"
    )]
    NoRoom {
        /// The function that asks.
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
    /// A node number that the cluster does not have.
    #[error("there is no node number {number}: the cluster has {nodes}")]
    NoSuchNode {
        /// The number.
        number: usize,
        /// How many there are.
        nodes: usize,
    },
    /// A graph through which a request cannot reach the end.
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
    /// An SLO that cannot be one.
    #[error(transparent)]
    Core(#[from] homeostat_core::Error),
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
