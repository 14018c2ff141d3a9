//! The annotation with which people stop the autoscaler in an hour of need.

use homeostat_decide::Allocation;

/// The annotation: `all`, `in` (nothing goes down) or `out` (nothing goes up).
pub const PAUSE_ANNOTATION: &str = "homeostat.dev/paused";

/// What is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// Everything.
    All,
    /// Scaling in: nothing goes down.
    In,
    /// Scaling out: nothing goes up.
    Out,
}

/// A value that the annotation does not know. It pauses everything: whoever wrote it wanted to
/// stop something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "annotation {PAUSE_ANNOTATION} is {0:?}: use all, in or out; everything is paused meanwhile"
)]
pub struct UnknownPause(String);

impl Pause {
    /// Reads the annotation's value.
    pub fn read(value: &str) -> Result<Self, UnknownPause> {
        match value.trim() {
            "all" | "true" => Ok(Self::All),
            "in" => Ok(Self::In),
            "out" => Ok(Self::Out),
            other => Err(UnknownPause(other.to_owned())),
        }
    }

    /// What is left of a change of one amount.
    pub fn limit_amount<T: Ord>(self, from: T, to: T) -> T {
        match self {
            Self::All => from,
            Self::In => to.max(from),
            Self::Out => to.min(from),
        }
    }

    /// What is left of a change.
    pub fn limit(self, from: &Allocation, to: &Allocation) -> Allocation {
        Allocation {
            replicas: self.limit_amount(from.replicas, to.replicas),
            cpu: self.limit_amount(from.cpu, to.cpu),
            memory: self.limit_amount(from.memory, to.memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::{Bytes, Millicores};

    fn allocation(replicas: u32, millicores: u64, mebibytes: u64) -> Allocation {
        Allocation {
            replicas,
            cpu: Millicores::new(millicores),
            memory: Bytes::from_mib(mebibytes),
        }
    }

    #[test]
    fn each_pause_stops_its_own_direction() {
        let (from, to) = (allocation(4, 500, 512), allocation(6, 250, 512));
        assert_eq!(Pause::All.limit(&from, &to), from);
        assert_eq!(Pause::In.limit(&from, &to), allocation(6, 500, 512));
        assert_eq!(Pause::Out.limit(&from, &to), allocation(4, 250, 512));
    }

    #[test]
    fn an_unknown_value_is_named() {
        assert_eq!(Pause::read("true"), Ok(Pause::All));
        let refused = Pause::read("both").expect_err("unknown").to_string();
        assert!(refused.contains("\"both\": use all, in or out"), "{refused}");
    }
}
