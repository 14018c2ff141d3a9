//! What is said again and again with other times in it: seconds that remain, ages, latencies.
//! That they differ is no news; whoever took it for some would never rest.

use crate::api::Acting;

/// The words of a text without its times, as in `300s`, `46ms` and `5 s`. Numbers of pods and sizes
/// stay: they are what was decided.
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

/// What the updater says of itself, without the times in it.
pub(super) fn without_countdown(acting: &Acting) -> Acting {
    Acting { message: without_times(&acting.message).join(" "), ..acting.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_news(before: &str, after: &str) -> bool {
        let acting = |message: &str| Acting {
            is_acting: false,
            reason: "DisruptionLimited".to_owned(),
            message: message.to_owned(),
        };
        without_countdown(&acting(before)) != without_countdown(&acting(after))
    }

    #[test]
    fn seconds_that_remain_are_no_news_and_other_numbers_are() {
        let rate = "3 evictions at most in an hour, the next in 3500s; more";
        assert!(!is_news(rate, "3 evictions at most in an hour, the next in 95s; more"));
        assert!(is_news(rate, "4 evictions at most in an hour, the next in 3500s; more"));
        let away = "2 pods at most may be away at once";
        assert!(is_news(away, "3 pods at most may be away at once"));
    }
}
