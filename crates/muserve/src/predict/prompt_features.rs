//! A prompt as numbers: its form, the kind of answer it asks for, and its words and letters.

use super::lexicon::{COUNTED, GROUPS, NUMBERS};

/// Features that do not depend on a vocabulary.
pub(super) const FORM_FEATURES: usize = 20 + 3 * GROUPS.len();

/// A prompt longer than this is cut: its first and last characters say what is asked for. Time
/// stays bounded for prompts of a megabyte.
const MAX_CHARACTERS: usize = 4096;

/// The part of a prompt that predictors read, in lower case: all of it, or both ends of a long one.
pub fn readable_part(prompt: &str) -> String {
    let count = prompt.chars().take(MAX_CHARACTERS + 1).count();
    if count <= MAX_CHARACTERS {
        return prompt.to_lowercase();
    }
    let head: String = prompt.chars().take(MAX_CHARACTERS / 2).collect();
    let mut tail: Vec<char> = prompt.chars().rev().take(MAX_CHARACTERS / 2).collect();
    tail.reverse();
    format!("{head}\n\n{}", tail.into_iter().collect::<String>()).to_lowercase()
}

/// The form of a prompt in lower case, and the groups of words in its first paragraph, its first
/// three words and its last twelve.
pub(super) fn form_features(text: &str) -> Vec<f64> {
    let paragraphs: Vec<&str> = text.split("\n\n").filter(|part| !part.trim().is_empty()).collect();
    let first_paragraph = paragraphs.first().copied().unwrap_or_default();
    let all = words(text);
    let instruction = words(first_paragraph);
    let last = paragraphs.last().map(|part| words(part)).unwrap_or_default();
    let ending = &last[last.len().saturating_sub(12)..];
    let count = |found: usize| (found as f64).ln_1p();
    let flag = |is_true: bool| f64::from(u8::from(is_true));
    let matches = |pattern: char| text.matches(pattern).count();
    let length = count(all.len());
    let letters: usize = all.iter().map(|word| word.len()).sum();
    let mut features = vec![
        length,
        length * length / 5.0,
        count(instruction.len()),
        flag(paragraphs.len() > 1),
        flag(text.trim_end().ends_with('?')),
        count(matches('\n')),
        count(matches('?')),
        count(all.iter().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit())).count()),
        flag(!text.is_ascii()),
        flag(all.len() < 8),
        flag(all.len() > 100),
        flag(first_paragraph.contains(':')),
        flag(text.contains('"')),
        flag(text.contains('`')),
        letters as f64 / all.len().max(1) as f64,
    ];
    let one_unit = all.windows(2).any(|pair| {
        ["a", "one", "the"].contains(&pair[0])
            && ["sentence", "word", "paragraph", "line", "phrase"].contains(&pair[1])
    });
    let counted = all.windows(2).find_map(|pair| {
        let number: f64 = pair[0].parse().ok()?;
        let unit = COUNTED.iter().find(|unit| pair[1].starts_with(**unit))?;
        Some((number.clamp(1.0, 10_000.0), *unit))
    });
    let is_small = |word: &&str| {
        NUMBERS.contains(word) || word.parse().is_ok_and(|number: u32| (2..=20).contains(&number))
    };
    features.extend([
        flag(one_unit),
        flag(counted.is_some()),
        counted
            .filter(|(_, unit)| !["sentence", "line"].contains(unit))
            .map_or(0.0, |(n, _)| n.ln()),
        flag(counted.is_some_and(|(_, unit)| unit == "word")),
        flag(all.iter().take(40).any(is_small)),
    ]);
    for group in GROUPS {
        let is_member = |word: &&&str| group.contains(*word);
        let in_instruction = instruction.iter().filter(is_member).count().min(3);
        features.extend([
            (in_instruction as f64).sqrt(),
            flag(all.iter().take(3).any(|word| group.contains(word))),
            flag(ending.iter().any(|word| group.contains(word))),
        ]);
    }
    debug_assert_eq!(features.len(), FORM_FEATURES);
    features
}

/// Hashes of words and pairs of words, and of three to five letters within a word: as two bags.
pub(super) fn grams(text: &str) -> [Vec<u64>; 2] {
    let words = words(text);
    let mut of_words: Vec<u64> = words.iter().map(|word| hash(0, word.as_bytes())).collect();
    of_words
        .extend(words.windows(2).map(|pair| hash(hash(1, pair[0].as_bytes()), pair[1].as_bytes())));
    let mut of_letters = Vec::new();
    for word in &words {
        let padded = format!(" {word} ");
        for size in 3..=5 {
            // Words are ASCII, so bytes are characters.
            of_letters.extend(padded.as_bytes().windows(size).map(|gram| hash(2, gram)));
        }
    }
    [of_words, of_letters]
}

fn words(text: &str) -> Vec<&str> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "'+#-".contains(character);
    text.split(|character| !is_part(character)).filter(|word| !word.is_empty()).collect()
}

/// FNV-1a, continued from `seed`.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bytes
        .iter()
        .fold(start, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_prompt_of_a_megabyte_is_cut_to_its_ends() {
        let prompt = format!("Summarise{}briefly?", " é".repeat(1 << 20));
        let text = readable_part(&prompt);
        assert!(text.chars().count() <= MAX_CHARACTERS + 2);
        assert!(text.starts_with("summarise") && text.ends_with("briefly?"));
    }

    #[test]
    fn a_requested_number_of_words_is_read() {
        let long = form_features("write an essay of 500 words");
        let short = form_features("write an essay of 50 words");
        assert!((long[17] - 500f64.ln()).abs() < 1e-12 && (short[17] - 50f64.ln()).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn every_text_has_finite_features(prompt in ".{0,200}") {
            let text = readable_part(&prompt);
            prop_assert!(form_features(&text).iter().all(|feature| feature.is_finite()));
            grams(&text);
        }
    }
}
