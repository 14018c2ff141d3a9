//! Comparison of messages that contain remaining seconds, ages and latencies. A message in which
//! only these differ is not a change: otherwise the controllers would trigger each other for ever.

use homeostat_autoscaler::api::Acting;

/// The words of a text without times such as `300s`, `46ms` and `5 s`. Numbers of pods and sizes
/// stay: they are decisions.
pub(super) fn without_times(text: &str) -> Vec<&str> {
    let is_edge = |c: char| !c.is_alphanumeric();
    let words = text.split_whitespace().map(|word| word.trim_matches(is_edge));
    let words: Vec<&str> = words.collect();
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let is_time = |(place, word): (usize, &str)| {
        let amount = word.strip_suffix("ms").or_else(|| word.strip_suffix('s'));
        let has_unit_behind = words.get(place + 1) == Some(&"s");
        amount.is_some_and(is_number) || has_unit_behind && is_number(word)
    };
    let all = words.iter().copied().enumerate();
    all.filter(|one| !is_time(*one)).map(|(_, word)| word).collect()
}

/// The updater's state without the times in its message.
pub(super) fn without_countdown(acting: &Acting) -> Acting {
    Acting { message: without_times(&acting.message).join(" "), ..acting.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_change(before: &str, after: &str) -> bool {
        let acting = |message: &str| Acting {
            is_acting: false,
            reason: "DisruptionLimited".to_owned(),
            message: message.to_owned(),
        };
        without_countdown(&acting(before)) != without_countdown(&acting(after))
    }

    #[test]
    fn remaining_seconds_are_no_change_and_other_numbers_are() {
        let rate = "at most 3 evictions per hour, the next in 3500s; more";
        assert!(!is_change(rate, "at most 3 evictions per hour, the next in 95s; more"));
        assert!(is_change(rate, "at most 4 evictions per hour, the next in 3500s; more"));
        let away = "at most 2 pods may be unavailable at once";
        assert!(is_change(away, "at most 3 pods may be unavailable at once"));
    }
}
