//! Transformer encoders of the BERT class (BERT, MiniLM), for inference: a text's tokens in, one vector per token or the
//! mean of them out. Weights come from the safetensors file of a published model, which users bring.
//!
//! Left out: training, padding (one text at a time needs none), other activations and relative positions.

mod attention;
mod linear;

use safetensors::tensor::{Dtype, SafeTensors};
use serde::Deserialize;

use self::attention::Attention;
use self::linear::{Linear, Normalization};
use crate::{Error, Kernel, Result};

/// The shape of an encoder, as the keys of its `config.json` have it; other keys do not matter.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct EncoderConfig {
    /// Numbers per token.
    pub hidden_size: usize,
    /// Numbers between the two layers behind attention.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads of attention, which divide the numbers per token.
    pub num_attention_heads: usize,
    /// Positions, which limit the tokens of a text.
    pub max_position_embeddings: usize,
    /// Added to a variance before its root.
    #[serde(default = "default_epsilon")]
    pub layer_norm_eps: f32,
    /// Must be `gelu`.
    #[serde(default = "gelu_name")]
    pub hidden_act: String,
    /// Must be `absolute`.
    #[serde(default = "absolute_name")]
    pub position_embedding_type: String,
}

fn default_epsilon() -> f32 {
    1e-12
}

fn gelu_name() -> String {
    "gelu".to_owned()
}

fn absolute_name() -> String {
    "absolute".to_owned()
}

/// An encoder with its weights.
#[derive(Debug, Clone)]
pub struct Encoder {
    config: EncoderConfig,
    kernel: Kernel,
    words: Vec<f32>,
    positions: Vec<f32>,
    /// Of the first of two texts: the only one here.
    kind: Vec<f32>,
    normalization: Normalization,
    layers: Vec<Layer>,
}

#[derive(Debug, Clone)]
struct Layer {
    attention: Attention,
    after_attention: Normalization,
    widen: Linear,
    narrow: Linear,
    after_output: Normalization,
}

impl Encoder {
    /// From the text of `config.json` and the bytes of `model.safetensors`.
    pub fn from_files(config: &str, weights: &[u8], kernel: Kernel) -> Result<Self> {
        let config: EncoderConfig = serde_json::from_str(config)
            .map_err(|error| Error::Encoder { what: format!("its config.json: {error}") })?;
        config.check()?;
        let tensors = SafeTensors::deserialize(weights).map_err(|error| Error::Encoder {
            what: format!("its weights are not a whole safetensors file ({error})"),
        })?;
        let weights = Weights::of(tensors);
        let hidden = config.hidden_size;
        let words = weights.floats("embeddings.word_embeddings.weight", None)?;
        let shape = [config.max_position_embeddings, hidden];
        let positions = weights.floats("embeddings.position_embeddings.weight", Some(&shape))?;
        let mut kind = weights.floats("embeddings.token_type_embeddings.weight", None)?;
        if words.is_empty() || words.len() % hidden != 0 || kind.len() < hidden {
            let what = format!("its embeddings do not have {hidden} numbers per token");
            return Err(Error::Encoder { what });
        }
        kind.truncate(hidden);
        let normalization =
            |name: &str| Normalization::of(&weights, name, hidden, config.layer_norm_eps);
        let linear = |name: &str, inputs: usize, outputs: usize| {
            Linear::of(&weights, kernel, name, inputs, outputs)
        };
        let layer = |index: usize| {
            let at = |name: &str| format!("encoder.layer.{index}.{name}");
            let attend = |name: &str| linear(&at(&format!("attention.{name}")), hidden, hidden);
            Ok(Layer {
                attention: Attention {
                    heads: config.num_attention_heads,
                    query: attend("self.query")?,
                    key: attend("self.key")?,
                    value: attend("self.value")?,
                    output: attend("output.dense")?,
                },
                after_attention: normalization(&at("attention.output.LayerNorm"))?,
                widen: linear(&at("intermediate.dense"), hidden, config.intermediate_size)?,
                narrow: linear(&at("output.dense"), config.intermediate_size, hidden)?,
                after_output: normalization(&at("output.LayerNorm"))?,
            })
        };
        let layers = (0..config.num_hidden_layers).map(layer).collect::<Result<_>>()?;
        let normalization = normalization("embeddings.LayerNorm")?;
        Ok(Self { words, positions, kind, normalization, layers, kernel, config })
    }

    /// The shape.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Tokens that exist.
    pub fn vocabulary_size(&self) -> usize {
        self.words.len() / self.config.hidden_size
    }

    /// A vector per token, one after the other. Tokens that do not exist, and more tokens than there are positions,
    /// are errors.
    pub fn encode(&self, tokens: &[u32]) -> Result<Vec<f32>> {
        let width = self.config.hidden_size;
        if tokens.len() > self.config.max_position_embeddings {
            let most = self.config.max_position_embeddings;
            let what = format!("a text has {} tokens: at most {most} are possible", tokens.len());
            return Err(Error::Encoder { what });
        }
        let mut states = Vec::with_capacity(tokens.len() * width);
        for (token, position) in tokens.iter().zip(self.positions.chunks_exact(width)) {
            let word = self.words.chunks_exact(width).nth(*token as usize).ok_or_else(|| {
                let most = self.vocabulary_size();
                Error::Encoder { what: format!("token {token} does not exist: there are {most}") }
            })?;
            let sum = word.iter().zip(position).zip(&self.kind);
            states.extend(sum.map(|((word, position), kind)| word + position + kind));
        }
        self.normalization.apply(&mut states);
        for layer in &self.layers {
            let attended = layer.attention.attend(self.kernel, &states);
            add(&mut states, &attended);
            layer.after_attention.apply(&mut states);
            let mut wide = layer.widen.apply(self.kernel, &states);
            wide.iter_mut().for_each(|value| *value = gelu(*value));
            add(&mut states, &layer.narrow.apply(self.kernel, &wide));
            layer.after_output.apply(&mut states);
        }
        Ok(states)
    }

    /// The mean of the tokens' vectors, scaled to length one: similar texts have a scalar product near one.
    pub fn embed(&self, tokens: &[u32]) -> Result<Vec<f32>> {
        let states = self.encode(tokens)?;
        let mut mean = vec![0.0; self.config.hidden_size];
        states.chunks_exact(mean.len()).for_each(|state| add(&mut mean, state));
        let length = mean.iter().map(|value| value * value).sum::<f32>().sqrt().max(1e-12);
        mean.iter_mut().for_each(|value| *value /= length);
        Ok(mean)
    }
}

impl EncoderConfig {
    fn check(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::Encoder { what });
        let Self { hidden_size, intermediate_size, num_attention_heads: heads, .. } = *self;
        let sizes = [hidden_size, intermediate_size, heads, self.max_position_embeddings];
        if sizes.contains(&0)
            || sizes.iter().any(|size| *size > 1 << 20)
            || hidden_size % heads != 0
        {
            return refuse(format!(
                "hidden_size {hidden_size}, intermediate_size {intermediate_size}, {heads} heads and {} positions are no \
                 encoder: sizes are 1 to 1048576, and heads divide hidden_size",
                self.max_position_embeddings
            ));
        }
        if self.hidden_act != "gelu" {
            return refuse(format!("its hidden_act is {:?}: only gelu is known", self.hidden_act));
        }
        if self.position_embedding_type != "absolute" {
            let found = &self.position_embedding_type;
            return refuse(format!(
                "its position_embedding_type is {found:?}: only absolute is known"
            ));
        }
        Ok(())
    }
}

/// The arrays of a file. Some files put `bert.` before every name.
struct Weights<'a> {
    tensors: SafeTensors<'a>,
    prefix: &'static str,
}

impl<'a> Weights<'a> {
    fn of(tensors: SafeTensors<'a>) -> Self {
        let is_prefixed = tensors.names().iter().any(|name| name.starts_with("bert.embeddings."));
        Self { tensors, prefix: if is_prefixed { "bert." } else { "" } }
    }

    fn floats(&self, name: &str, shape: Option<&[usize]>) -> Result<Vec<f32>> {
        let refuse = |what: String| Error::Encoder { what: format!("its array {name} {what}") };
        let view = self.tensors.tensor(&format!("{}{name}", self.prefix));
        let view = view.map_err(|_| refuse("is missing".to_owned()))?;
        if shape.is_some_and(|shape| view.shape() != shape) {
            let expected = shape.unwrap_or_default();
            return Err(refuse(format!("has shape {:?}, expected {expected:?}", view.shape())));
        }
        let data = view.data();
        match view.dtype() {
            Dtype::F32 => {
                let floats = data.as_chunks::<4>().0.iter();
                Ok(floats.map(|bytes| f32::from_le_bytes(*bytes)).collect())
            }
            Dtype::BF16 => {
                let floats = data.as_chunks::<2>().0.iter();
                Ok(floats.map(|[low, high]| f32::from_le_bytes([0, 0, *low, *high])).collect())
            }
            other => Err(refuse(format!("has type {other:?}: convert it to F32 or BF16"))),
        }
    }
}

fn add(to: &mut [f32], values: &[f32]) {
    to.iter_mut().zip(values).for_each(|(to, value)| *to += value);
}

/// With the exact error function, as the models are trained; its approximation (Abramowitz and
/// Stegun 7.1.26) is within 1.5e-7.
fn gelu(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let polynomial = t
        * (0.254_829_6
            + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152 + t * 1.061_405_4))));
    let erf = 1.0 - polynomial * (-z * z).exp();
    0.5 * x * (1.0 + erf.copysign(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gelu_is_that_of_the_error_function() {
        for (x, expected) in
            [(0.0, 0.0), (1.0, 0.841_344_7), (-1.0, -0.158_655_25), (3.0, 2.995_950_3), (-9.0, 0.0)]
        {
            assert!((gelu(x) - expected).abs() < 1e-6, "{x}: {}", gelu(x));
        }
    }

    #[test]
    fn what_is_no_encoder_is_refused() {
        let check = |config: &str, expected: &str| {
            let error = Encoder::from_files(config, b"", Kernel::PORTABLE).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        };
        let config = |heads: usize, act: &str| {
            format!(
                r#"{{"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
                "num_attention_heads": {heads}, "max_position_embeddings": 4, "hidden_act": "{act}"}}"#
            )
        };
        check("{}", "hidden_size");
        check(&config(3, "gelu"), "heads divide hidden_size");
        check(&config(2, "relu"), "only gelu");
        check(&config(2, "gelu"), "not a whole safetensors file");
    }
}
