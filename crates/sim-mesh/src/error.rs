//! What this crate refuses.

/// A mesh that cannot be made, or a change that it cannot carry out. A refusal changes nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A setting outside its range.
    #[error("{key} = {value} is out of range: {expected}")]
    OutOfRange {
        /// The setting, with its section.
        key: String,
        /// The refused value.
        value: String,
        /// What it must be.
        expected: String,
    },
    /// A service graph that cannot be played.
    #[error("topology, {place}: {problem}")]
    Topology {
        /// Service, operation or line.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A load that cannot be played.
    #[error(transparent)]
    Load(#[from] homeostat_load::Error),
    /// A quantity that cannot be one.
    #[error(transparent)]
    Core(#[from] homeostat_core::Error),
    /// A campaign that cannot be carried out.
    #[error(transparent)]
    Campaign(#[from] homeostat_anomalies::Error),
    /// Bounds that cannot be some.
    #[error(transparent)]
    Decide(#[from] homeostat_decide::Error),
}

impl Error {
    pub(crate) fn topology(place: &str, problem: &str) -> Self {
        Self::Topology { place: place.to_owned(), problem: problem.to_owned() }
    }
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
