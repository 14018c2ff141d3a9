//! The annotation with which people pause the autoscaler in an emergency.

use homeostat_decide::Pause;

/// The annotation: `all`, `in` (nothing goes down) or `out` (nothing goes up).
pub const PAUSE_ANNOTATION: &str = "homeostat.dev/paused";

/// A value that the annotation does not know. It pauses everything: its author wanted to stop
/// something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "annotation {PAUSE_ANNOTATION} is {0:?}: use all, in or out; everything is paused meanwhile"
)]
pub struct UnknownPause(String);

/// Reads the annotation's value.
pub fn read_pause(value: &str) -> Result<Pause, UnknownPause> {
    match value.trim() {
        "all" | "true" => Ok(Pause::All),
        "in" => Ok(Pause::In),
        "out" => Ok(Pause::Out),
        other => Err(UnknownPause(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_value_is_named() {
        assert_eq!(read_pause("true"), Ok(Pause::All));
        let refused = read_pause("both").expect_err("unknown").to_string();
        assert!(refused.contains("\"both\": use all, in or out"), "{refused}");
    }
}
