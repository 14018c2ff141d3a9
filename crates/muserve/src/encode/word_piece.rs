//! Words and pieces of words, as BERT's tokenizer makes them of a text.

use std::collections::BTreeMap;

use serde::Deserialize;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use super::refused;
use crate::Result;

/// A longer word is unknown.
const MAX_WORD: usize = 100;

/// A token has at most as many bytes as this in a text that is cut before it is read: time stays bounded for texts of
/// a megabyte.
const MAX_BYTES_PER_TOKEN: usize = 64;

/// Which end of a long text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The first tokens.
    First,
    /// The last tokens: of a conversation, its latest rounds (appendix B.4).
    Last,
}

/// A vocabulary and how texts become its tokens.
#[derive(Debug, Clone)]
pub struct WordPiece {
    vocabulary: BTreeMap<String, u32>,
    unknown: u32,
    start: u32,
    end: u32,
    is_lower: bool,
    strips_accents: bool,
}

#[derive(Debug, Deserialize)]
struct TokenizerConfig {
    #[serde(default = "default_true")]
    do_lower_case: bool,
    /// As `do_lower_case` if it says nothing.
    strip_accents: Option<bool>,
}

fn default_true() -> bool {
    true
}

impl WordPiece {
    /// From the texts of `vocab.txt`, with a token per line, and of `tokenizer_config.json`.
    pub fn new(vocabulary: &str, config: &str) -> Result<Self> {
        let config: TokenizerConfig = serde_json::from_str(config)
            .map_err(|error| refused(format!("tokenizer_config.json: {error}")))?;
        let lines = vocabulary.lines().zip(0..);
        let vocabulary: BTreeMap<String, u32> =
            lines.map(|(token, number)| (token.to_owned(), number)).collect();
        let special = |token: &str| {
            let found = vocabulary.get(token).copied();
            found.ok_or_else(|| refused(format!("vocab.txt lacks {token}")))
        };
        Ok(Self {
            unknown: special("[UNK]")?,
            start: special("[CLS]")?,
            end: special("[SEP]")?,
            is_lower: config.do_lower_case,
            strips_accents: config.strip_accents.unwrap_or(config.do_lower_case),
            vocabulary,
        })
    }

    /// One more than the largest token.
    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary.values().max().map_or(0, |largest| *largest as usize + 1)
    }

    /// The tokens of a text with a start and an end, at most `limit` with them.
    pub fn tokens(&self, text: &str, limit: usize, keep: Keep) -> Vec<u32> {
        let limit = limit.saturating_sub(2);
        let text = cut(text, limit.saturating_mul(MAX_BYTES_PER_TOKEN), keep);
        let mut tokens = Vec::new();
        for word in words(&self.normalized(text)) {
            self.push_pieces(&word, &mut tokens);
        }
        let excess = tokens.len().saturating_sub(limit);
        let kept = match keep {
            Keep::First => &tokens[..tokens.len() - excess],
            Keep::Last => &tokens[excess..],
        };
        [&[self.start], kept, &[self.end]].concat()
    }

    fn normalized(&self, text: &str) -> String {
        let readable = text.chars().filter(|c| !is_control(*c));
        let spaced = readable.flat_map(|c| match c {
            c if is_ideograph(c) => [' ', c, ' '],
            c if c.is_whitespace() => [' ', '\0', '\0'],
            c => [c, '\0', '\0'],
        });
        let spaced = spaced.filter(|c| *c != '\0');
        let is_mark = |c: &char| c.general_category() == GeneralCategory::NonspacingMark;
        let plain: String = match self.strips_accents {
            true => spaced.nfd().filter(|c| !is_mark(c)).collect(),
            false => spaced.collect(),
        };
        if self.is_lower { plain.chars().flat_map(char::to_lowercase).collect() } else { plain }
    }

    /// The longest pieces that exist, from the left.
    fn push_pieces(&self, word: &str, tokens: &mut Vec<u32>) {
        let before = tokens.len();
        if word.chars().count() > MAX_WORD {
            return tokens.push(self.unknown);
        }
        let (mut from, mut piece) = (0, String::new());
        while from < word.len() {
            let ends = word[from..].char_indices().map(|(at, c)| from + at + c.len_utf8());
            let found = ends.rev().find_map(|end| {
                piece.clear();
                piece.push_str(if from > 0 { "##" } else { "" });
                piece.push_str(&word[from..end]);
                Some((*self.vocabulary.get(&piece)?, end))
            });
            let Some((token, end)) = found else {
                tokens.truncate(before);
                return tokens.push(self.unknown);
            };
            tokens.push(token);
            from = end;
        }
    }
}

/// At most this many bytes of one end of a text.
fn cut(text: &str, most: usize, keep: Keep) -> &str {
    if text.len() <= most {
        return text;
    }
    match keep {
        Keep::First => &text[..text.floor_char_boundary(most)],
        Keep::Last => &text[text.ceil_char_boundary(text.len() - most)..],
    }
}

/// Words between spaces; each sign of punctuation is a word of its own.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in text.split(char::is_whitespace) {
        let mut word = String::new();
        for character in part.chars() {
            if is_punctuation(character) {
                words.push(std::mem::take(&mut word));
                words.push(character.to_string());
            } else {
                word.push(character);
            }
        }
        words.push(word);
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_control(character: char) -> bool {
    !matches!(character, '\t' | '\n' | '\r')
        && (character == '\u{fffd}'
            || character.general_category_group() == GeneralCategoryGroup::Other)
}

fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation()
        || character.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// Chinese characters, which are words of their own.
fn is_ideograph(character: char) -> bool {
    matches!(u32::from(character),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F
        | 0x2B740..=0x2B81F | 0x2B920..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn word_piece() -> WordPiece {
        let vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nplay\n##ing\n##s\ncafe\n!\n東\n";
        WordPiece::new(vocabulary, "{}").unwrap()
    }

    #[test]
    fn a_text_becomes_the_longest_pieces_of_its_words() {
        let check = |text: &str, expected: &[u32]| {
            assert_eq!(word_piece().tokens(text, 100, Keep::First), expected, "{text}");
        };
        check("Playing  plays!", &[2, 4, 5, 4, 6, 8, 3]);
        check("Café", &[2, 7, 3]);
        check("play東play", &[2, 4, 9, 4, 3]);
        check("playful play", &[2, 1, 4, 3]);
        check(&"s".repeat(200), &[2, 1, 3]);
        check("", &[2, 3]);
    }

    #[test]
    fn of_a_long_text_one_end_is_kept() {
        let text = format!("{}!", "play ".repeat(1 << 18));
        assert_eq!(word_piece().tokens(&text, 4, Keep::First), [2, 4, 4, 3]);
        assert_eq!(word_piece().tokens(&text, 4, Keep::Last), [2, 4, 8, 3]);
    }

    proptest! {
        #[test]
        fn any_text_has_tokens_within_its_limit(text in "\\PC{0,60}", limit in 2usize..20) {
            for keep in [Keep::First, Keep::Last] {
                let tokens = word_piece().tokens(&text, limit, keep);
                prop_assert!((2..=limit).contains(&tokens.len()));
            }
        }
    }
}
