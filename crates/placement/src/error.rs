//! What this crate refuses.

/// Data or a setting that no plan can be made of. A refusal changes nothing.
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
    /// A name used twice.
    #[error("{what} `{name}` appears twice: give each a name of its own")]
    Duplicate {
        /// What has the name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name that is not in a list.
    #[error("{user} names the {what} `{name}`, which does not exist: choose of {known}")]
    Unknown {
        /// Who uses the name.
        user: String,
        /// What was looked for.
        what: &'static str,
        /// The name as written.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// Text that cannot be read.
    #[error("{what} cannot be read: {reason}")]
    Unreadable {
        /// What was read.
        what: &'static str,
        /// Where, and why not.
        reason: String,
    },
    /// A model that is too large for the whole cluster.
    #[error(
        "model `{model}` needs {need_gib:.1} GiB for its weights and one longest request, and the largest group of devices \
         that it can be split over has {has_gib:.1} GiB: add devices, or devices with more memory"
    )]
    DoesNotFit {
        /// Name of the model.
        model: String,
        /// Weights and the least cache.
        need_gib: f64,
        /// Memory of the largest group.
        has_gib: f64,
    },
    /// An operator without a measurement.
    #[error(
        "the sensitivity database has no operator `{operator}` on device type `{device}`: measure one, or leave the \
         database out to compute scores from the device"
    )]
    NotMeasured {
        /// Kind of the operator.
        operator: String,
        /// Device type.
        device: String,
    },
    /// The integer programme has no solution although it was checked to have one.
    #[error(
        "the solver found no way to divide the operators of `{model}` over {devices} devices: {reason}"
    )]
    Solver {
        /// Name of the model.
        model: String,
        /// Devices that compute together.
        devices: u32,
        /// What the solver says.
        reason: String,
    },
    /// A device, model or deployment that the simulator refuses.
    #[error(transparent)]
    Simulator(#[from] homeostat_sim_gpu::Error),
    /// A clock that `decide()` refuses.
    #[error(transparent)]
    Decide(#[from] homeostat_decide::Error),
    /// A load outside its range.
    #[error(transparent)]
    Load(#[from] homeostat_load::Error),
    /// A quantity outside its range.
    #[error(transparent)]
    Core(#[from] homeostat_core::Error),
}

impl Error {
    pub(crate) fn setting(key: impl Into<String>, value: impl ToString, expected: &str) -> Self {
        Self::OutOfRange {
            key: key.into(),
            value: value.to_string(),
            expected: expected.to_owned(),
        }
    }
}

/// Refuses a number outside a range; not-a-number is outside of every range.
pub(crate) fn check_range(key: &str, value: f64, low: f64, high: f64) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::setting(key, value, &format!("from {low} to {high}")))
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
