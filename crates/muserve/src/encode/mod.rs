//! Texts as vectors, by an encoder of the BERT class that users bring as a directory of a published model:
//! `config.json`, `vocab.txt` and `model.safetensors`, with `tokenizer_config.json` and
//! `sentence_bert_config.json` if there are.

mod word_piece;

use homeostat_nn::{Encoder, Kernel};
use serde::Deserialize;

pub use word_piece::{Keep, WordPiece};

use crate::{Error, Result};

/// More tokens of a text say little more of its answer, and cost time in proportion.
const MAX_TOKENS: usize = 512;

/// Makes vectors of prompts.
pub trait Embed: std::fmt::Debug + Send + Sync {
    /// Numbers of a vector.
    fn width(&self) -> usize;

    /// The vector of a prompt, of length one; zeros if it cannot be made.
    fn embed(&self, prompt: &str) -> Vec<f32>;
}

/// Texts to unit vectors; similar texts have a scalar product near one.
#[derive(Debug, Clone)]
pub struct TextEncoder {
    tokens: WordPiece,
    encoder: Encoder,
    max_tokens: usize,
}

#[derive(Debug, Deserialize)]
struct SentenceConfig {
    max_seq_length: Option<usize>,
}

impl TextEncoder {
    /// From the files of a model's directory. `read` returns a file's content, nothing for a file that does not exist; a
    /// missing file that is needed is an error that names it.
    pub fn load<E: std::fmt::Display>(
        read: impl Fn(&str) -> std::result::Result<Option<Vec<u8>>, E>,
    ) -> Result<Self> {
        let optional = |name: &str| {
            let bytes = read(name).map_err(|error| refused(format!("{name}: {error}")))?;
            Ok::<_, Error>(bytes)
        };
        let required = |name: &str| {
            optional(name)?.ok_or_else(|| refused(format!("its directory has no {name}")))
        };
        let text = |name: &str, bytes: Vec<u8>| {
            String::from_utf8(bytes).map_err(|_| refused(format!("{name} is not UTF-8")))
        };
        let config = text("config.json", required("config.json")?)?;
        let vocabulary = text("vocab.txt", required("vocab.txt")?)?;
        let tokenizer = optional("tokenizer_config.json")?.unwrap_or_else(|| b"{}".to_vec());
        let tokens = WordPiece::new(&vocabulary, &text("tokenizer_config.json", tokenizer)?)?;
        let encoder =
            Encoder::from_files(&config, &required("model.safetensors")?, Kernel::best())?;
        if tokens.vocabulary_size() > encoder.vocabulary_size() {
            return Err(refused(format!(
                "vocab.txt has {} tokens, its weights {}: they are not of one model",
                tokens.vocabulary_size(),
                encoder.vocabulary_size()
            )));
        }
        let mut max_tokens = encoder.config().max_position_embeddings.min(MAX_TOKENS);
        if let Some(sentences) = optional("sentence_bert_config.json")? {
            let sentences: SentenceConfig = serde_json::from_slice(&sentences)
                .map_err(|error| refused(format!("sentence_bert_config.json: {error}")))?;
            max_tokens = sentences.max_seq_length.unwrap_or(max_tokens).clamp(3, max_tokens.max(3));
        }
        Ok(Self { tokens, encoder, max_tokens })
    }

    /// Numbers of a vector.
    pub fn width(&self) -> usize {
        self.encoder.config().hidden_size
    }

    /// The vector of a text. Of a text with too many tokens, the first or the last are read.
    pub fn embed(&self, text: &str, keep: Keep) -> Result<Vec<f32>> {
        let tokens = self.tokens.tokens(text, self.max_tokens, keep);
        Ok(self.encoder.embed(&tokens)?)
    }

    /// The tokens of a text, as [`TextEncoder::embed`] reads them.
    pub fn tokens(&self, text: &str, keep: Keep) -> Vec<u32> {
        self.tokens.tokens(text, self.max_tokens, keep)
    }
}

impl Embed for TextEncoder {
    fn width(&self) -> usize {
        self.width()
    }

    /// Of a conversation its latest rounds count, as in appendix B.4.
    fn embed(&self, prompt: &str) -> Vec<f32> {
        self.embed(prompt, Keep::Last).unwrap_or_else(|_| vec![0.0; self.width()])
    }
}

fn refused(what: String) -> Error {
    Error::Encoder(homeostat_nn::Error::Encoder { what }.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_a_model_is_refused_with_the_name_of_what_is_missing() {
        let check = |files: &[(&str, &str)], expected: &str| {
            let read = |name: &str| {
                let found = files.iter().find(|(known, _)| *known == name);
                Ok::<_, std::io::Error>(found.map(|(_, text)| text.as_bytes().to_vec()))
            };
            let error = TextEncoder::load(read).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&[], "no config.json");
        check(&[("config.json", "{}")], "no vocab.txt");
        let vocabulary = "[UNK]\n[CLS]\n[SEP]\na\n";
        check(&[("config.json", "{}"), ("vocab.txt", "a\nb\n")], "lacks [UNK]");
        check(&[("config.json", "{}"), ("vocab.txt", vocabulary)], "no model.safetensors");
        let files = [("config.json", "{}"), ("vocab.txt", vocabulary), ("model.safetensors", "")];
        check(&files, "config.json");
    }
}
