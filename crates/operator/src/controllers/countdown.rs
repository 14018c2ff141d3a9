//! What is said again and again with fewer seconds each time.

use crate::api::Acting;

/// What the updater says of itself, without the seconds in it: that fewer of them remain is no
/// news, and whoever took it for some would never rest. Other numbers, as of pods, are.
pub(super) fn without_seconds(acting: &Acting) -> Acting {
    let is_seconds = |word: &str| {
        let number = word.trim_end_matches([',', ';']).strip_suffix('s');
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    let words: Vec<&str> = acting.message.split(' ').filter(|word| !is_seconds(word)).collect();
    Acting { message: words.join(" "), ..acting.clone() }
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
        without_seconds(&acting(before)) != without_seconds(&acting(after))
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
