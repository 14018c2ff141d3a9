//! A published encoder gives the tokens and embeddings that Python's sentence-transformers gives.
//! `fixtures/make_minilm_fixture.py` made the fixture.

use std::path::PathBuf;

use homeostat_muserve::encode::{Keep, TextEncoder};
use serde::Deserialize;

#[derive(Deserialize)]
struct Example {
    text: String,
    tokens: Vec<u32>,
    embedding: Vec<f32>,
}

fn encoder() -> Option<TextEncoder> {
    #[expect(clippy::disallowed_methods, reason = "where the model lies is known to ./test alone")]
    let Some(directory) = std::env::var_os("HOMEOSTAT_TEST_MINILM").map(PathBuf::from) else {
        homeostat_test_skip::skip(
            "the encoder of a published model: ./test sets HOMEOSTAT_TEST_MINILM, see tests/minilm",
        );
        return None;
    };
    let read = |name: &str| match std::fs::read(directory.join(name)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        bytes => bytes.map(Some),
    };
    Some(TextEncoder::load(read).expect("the published model can be read"))
}

#[test]
fn tokens_and_embeddings_are_those_of_the_python_package() {
    let Some(encoder) = encoder() else { return };
    let examples: Vec<Example> =
        serde_json::from_str(include_str!("../fixtures/minilm.json")).unwrap();
    assert_eq!(examples.len(), 6);
    for Example { text, tokens, embedding } in examples {
        assert_eq!(encoder.tokens(&text, Keep::First), tokens, "{text:.60}");
        let ours = encoder.embed(&text, Keep::First).unwrap();
        assert_eq!(ours.len(), embedding.len());
        for (place, (ours, theirs)) in ours.iter().zip(&embedding).enumerate() {
            assert!((ours - theirs).abs() < 1e-4, "{text:.60}: {ours} at {place}, not {theirs}");
        }
    }
}

#[test]
fn prompts_that_ask_the_same_are_more_similar_than_the_threshold_of_the_cache() {
    let Some(encoder) = encoder() else { return };
    let similarity = |a: &str, b: &str| {
        let [a, b] = [a, b].map(|text| encoder.embed(text, Keep::First).unwrap());
        a.iter().zip(&b).map(|(a, b)| a * b).sum::<f32>()
    };
    let question = "What is the capital of France?";
    assert!(similarity(question, "what's the capital city of France") > 0.8);
    assert!(similarity(question, "Write a poem about autumn leaves.") < 0.4);
}
