//! Models as chains of operators, and the models of Table 6.1.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::operator::{Cost, Operator, OperatorKind, Work};
use crate::{DeviceType, Error, Result};

/// The length of a query in Table 6.1.
pub const TABLE_TOKENS: f64 = 512.0;

/// Bytes of a number.
const WORD: f64 = 4.0;

/// Dimensions of a model, as in `zoo.toml`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum ModelSpec {
    /// Convolutions.
    Cnn {
        /// Blocks, channels and side of the feature map, stage by stage.
        stages: Vec<[u32; 3]>,
        /// Weights in GB.
        weights_gb: f64,
        /// Time of one query on one V100.
        latency_ms: f64,
    },
    /// A transformer that reads its input once.
    Encoder(Transformer),
    /// A transformer that generates token by token.
    Decoder(Transformer),
    /// A transformer that generates, with one expert of several for each token.
    Moe(Transformer),
}

/// Dimensions of a transformer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transformer {
    /// Number of layers.
    pub layers: u32,
    /// Width of a token.
    pub width: u32,
    /// Width of the feed-forward part.
    pub feed_forward: u32,
    /// Size of the vocabulary.
    pub vocabulary: u32,
    /// Weights in GB.
    pub weights_gb: f64,
    /// Time of one query with 512 tokens on one V100.
    pub latency_ms: f64,
}

/// A model that can be served.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Name.
    pub name: String,
    /// Operators in the order in which they run.
    pub operators: Vec<Operator>,
    /// Whether it generates token by token.
    pub is_autoregressive: bool,
    /// Measured time over the time that the operators alone would need.
    pub calibration: f64,
}

impl ModelSpec {
    /// Models in TOML, a table each.
    pub fn read(text: &str) -> Result<BTreeMap<String, Self>> {
        toml::from_str(text)
            .map_err(|error| Error::Unreadable { what: "a model", reason: error.to_string() })
    }

    /// The model with this name. Refuses dimensions of zero.
    pub fn build(&self, name: &str) -> Result<Model> {
        let positive = |key: &str, value: f64| {
            if value.is_finite() && value > 0.0 {
                return Ok(());
            }
            Err(Error::setting(&format!("{name}.{key}"), value, "a number above zero"))
        };
        let (operators, weights_gb, latency_ms) = match self {
            Self::Cnn { stages, weights_gb, latency_ms } => {
                positive("stages", stages.len() as f64)?;
                stages
                    .iter()
                    .flatten()
                    .try_for_each(|number| positive("stages", (*number).into()))?;
                (convolutions(stages), *weights_gb, *latency_ms)
            }
            Self::Encoder(shape) | Self::Decoder(shape) | Self::Moe(shape) => {
                for (key, value) in [
                    ("layers", shape.layers),
                    ("width", shape.width),
                    ("feed_forward", shape.feed_forward),
                    ("vocabulary", shape.vocabulary),
                ] {
                    positive(key, value.into())?;
                }
                let generates = !matches!(self, Self::Encoder(_));
                let has_experts = matches!(self, Self::Moe(_));
                (layers(shape, generates, has_experts), shape.weights_gb, shape.latency_ms)
            }
        };
        positive("weights_gb", weights_gb)?;
        positive("latency_ms", latency_ms)?;
        let mut model = Model {
            name: name.to_owned(),
            operators,
            is_autoregressive: matches!(self, Self::Decoder(_) | Self::Moe(_)),
            calibration: 1.0,
        };
        // Experts that a token does not use fill the rest of the memory; elsewhere sizes agree within
        // a few percent.
        let is_moe = matches!(self, Self::Moe(_));
        let (stored, wanted) = (model.weight_bytes(), weights_gb * 1e9);
        let feeds = |operator: &&mut Operator| {
            operator.weight_bytes > 0.0 && (!is_moe || operator.name.contains("feed"))
        };
        let of_feeds: f64 =
            model.operators.iter_mut().filter(feeds).map(|operator| operator.stored_bytes).sum();
        let factor = ((wanted - (stored - of_feeds)) / of_feeds).max(0.0);
        model.operators.iter_mut().filter(feeds).for_each(|operator| {
            operator.stored_bytes *= factor;
            if !is_moe {
                operator.weight_bytes *= factor;
            }
        });
        let v100 = DeviceType::by_name("v100").expect("it comes with this crate");
        let work = Work::prefill(TABLE_TOKENS, TABLE_TOKENS * TABLE_TOKENS);
        let bare = model.cost(&v100, work).seconds(&v100, v100.max_clock());
        model.calibration = latency_ms / 1e3 / bare;
        Ok(model)
    }
}

impl Model {
    /// The models of Table 6.1, in the order of their names.
    pub fn zoo() -> Vec<Self> {
        let specs = ModelSpec::read(include_str!("zoo.toml")).expect("a test reads this file");
        let build = |(name, spec): (&String, &ModelSpec)| spec.build(name);
        specs.iter().map(build).collect::<Result<_>>().expect("a test builds each of them")
    }

    /// A model of Table 6.1.
    pub fn by_name(name: &str) -> Result<Self> {
        let mut zoo = Self::zoo();
        let place = zoo.iter().position(|model| model.name == name);
        place.map(|place| zoo.swap_remove(place)).ok_or_else(|| {
            let known: Vec<_> = Self::zoo().into_iter().map(|model| model.name).collect();
            Error::Unknown { what: "model", name: name.to_owned(), known: known.join(", ") }
        })
    }

    /// Bytes of weights.
    pub fn weight_bytes(&self) -> f64 {
        self.operators.iter().map(|operator| operator.stored_bytes).sum()
    }

    /// Bytes that a token leaves in the cache.
    pub fn cache_bytes_per_token(&self) -> f64 {
        self.operators.iter().map(|operator| operator.cache_bytes_per_token).sum()
    }

    /// Bytes of activations that pass from one operator to the next, for each token.
    pub fn activation_bytes(&self) -> f64 {
        let narrowest = self.operators.iter().map(|operator| operator.bytes_per_token);
        narrowest.fold(f64::INFINITY, f64::min)
    }

    /// What this work costs with the whole model on one device.
    pub fn cost(&self, device: &DeviceType, work: Work) -> Cost {
        let costs = self.operators.iter().map(|operator| operator.cost(device, work));
        costs.sum::<Cost>().scaled(self.calibration)
    }
}

fn operator(name: String, kind: OperatorKind) -> Operator {
    Operator {
        name,
        kind,
        launches: 1.0,
        weight_bytes: 0.0,
        stored_bytes: 0.0,
        flops_per_token: 0.0,
        bytes_per_token: 0.0,
        flops_per_pair: 0.0,
        bytes_per_cached: 0.0,
        cache_bytes_per_token: 0.0,
    }
}

/// A product with a weight matrix of these sides.
fn dot(name: String, rows: f64, columns: f64) -> Operator {
    Operator {
        weight_bytes: rows * columns * WORD,
        stored_bytes: rows * columns * WORD,
        flops_per_token: 2.0 * rows * columns,
        bytes_per_token: (rows + columns) * WORD,
        ..operator(name, OperatorKind::Dot)
    }
}

fn layers(shape: &Transformer, generates: bool, has_experts: bool) -> Vec<Operator> {
    let [width, feed, vocabulary] =
        [shape.width, shape.feed_forward, shape.vocabulary].map(f64::from);
    let pointwise = |name: String, kind: OperatorKind, launches: f64| Operator {
        launches,
        bytes_per_token: 2.0 * launches * width * WORD,
        flops_per_token: 4.0 * launches * width,
        ..operator(name, kind)
    };
    let mut operators = vec![Operator {
        stored_bytes: vocabulary * width * WORD,
        bytes_per_token: 2.0 * width * WORD,
        ..operator("embedding".to_owned(), OperatorKind::Gather)
    }];
    for layer in 0..shape.layers {
        let named = |name: &str| format!("{layer}/{name}");
        operators.push(pointwise(named("norm"), OperatorKind::Normalization, 2.0));
        operators.push(dot(named("query-key-value"), width, 3.0 * width));
        operators.push(Operator {
            launches: 4.0,
            bytes_per_token: 4.0 * width * WORD,
            flops_per_pair: 4.0 * width,
            bytes_per_cached: if generates { 2.0 * width * WORD } else { 0.0 },
            cache_bytes_per_token: if generates { 2.0 * width * WORD } else { 0.0 },
            ..operator(named("attention"), OperatorKind::Attention)
        });
        operators.push(dot(named("projection"), width, width));
        operators.push(pointwise(named("add-norm"), OperatorKind::Normalization, 3.0));
        if has_experts {
            operators.push(Operator {
                launches: 6.0,
                bytes_per_token: 4.0 * width * WORD,
                ..operator(named("route"), OperatorKind::Gather)
            });
        }
        operators.push(dot(named("feed-up"), width, feed));
        operators.push(Operator {
            bytes_per_token: 2.0 * feed * WORD,
            flops_per_token: 8.0 * feed,
            launches: 4.0,
            ..operator(named("activation"), OperatorKind::Elementwise)
        });
        operators.push(dot(named("feed-down"), feed, width));
        operators.push(pointwise(named("add"), OperatorKind::Elementwise, 1.0));
    }
    if generates {
        // Tied to the embedding; only the last token of a prompt needs it, so its work for each token is
        // that of a decoding step at most.
        operators.push(Operator {
            stored_bytes: 0.0,
            flops_per_token: 0.0,
            bytes_per_token: width * WORD,
            ..dot("vocabulary".to_owned(), width, vocabulary)
        });
    }
    operators
}

fn convolutions(stages: &[[u32; 3]]) -> Vec<Operator> {
    let mut operators = Vec::new();
    for (stage, [blocks, channels, side]) in stages.iter().enumerate() {
        let (channels, pixels) = (f64::from(*channels), f64::from(side * side));
        let inner = channels / 4.0;
        // One image is as much work as the table's query of 512 tokens.
        let per_token = |amount: f64| amount / TABLE_TOKENS;
        for block in 0..*blocks {
            let convolution = |name: &str, input: f64, output: f64, window: f64| Operator {
                weight_bytes: input * output * window * WORD,
                stored_bytes: input * output * window * WORD,
                flops_per_token: per_token(2.0 * input * output * window * pixels),
                bytes_per_token: per_token((input + output) * pixels * WORD),
                ..operator(format!("{stage}.{block}/{name}"), OperatorKind::Convolution)
            };
            operators.push(convolution("reduce", channels, inner, 1.0));
            operators.push(convolution("convolution", inner, inner, 9.0));
            operators.push(convolution("expand", inner, channels, 1.0));
            operators.push(Operator {
                launches: 7.0,
                bytes_per_token: per_token(12.0 * channels * pixels * WORD),
                flops_per_token: per_token(12.0 * channels * pixels),
                ..operator(format!("{stage}.{block}/norm-relu"), OperatorKind::Elementwise)
            });
        }
    }
    operators
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zoo_has_the_sizes_and_times_of_table_6_1() {
        let v100 = DeviceType::by_name("v100").unwrap();
        let zoo = Model::zoo();
        assert_eq!(zoo.len(), 15);
        let total: f64 = zoo.iter().map(|model| model.weight_bytes() / 1e9).sum();
        assert!((total - 60.7).abs() < 1.5, "{total}");
        for (name, gb, ms) in
            [("opt-2.7b", 10.4, 2351.0), ("switch-base-32", 4.8, 402.0), ("resnet-50", 0.2, 51.0)]
        {
            let model = Model::by_name(name).unwrap();
            let work = Work::prefill(TABLE_TOKENS, TABLE_TOKENS * TABLE_TOKENS);
            let seconds = model.cost(&v100, work).seconds(&v100, v100.max_clock());
            assert!((seconds * 1e3 - ms).abs() < 1e-6, "{name}: {seconds}");
            assert!(
                (model.weight_bytes() / 1e9 - gb).abs() < 0.05,
                "{name}: {}",
                model.weight_bytes()
            );
            assert!(model.calibration > 1.0, "{name}: {}", model.calibration);
        }
    }

    #[test]
    fn dense_operators_are_more_sensitive_to_the_clock_than_launches() {
        let v100 = DeviceType::by_name("v100").unwrap();
        let model = Model::by_name("opt-1.3b").unwrap();
        let work = Work::prefill(512.0, 512.0 * 512.0);
        let of = |name: &str| {
            let operator = model.operators.iter().find(|operator| operator.name == name);
            operator.unwrap().sensitivity(&v100, work)
        };
        assert!(of("0/feed-up") > of("0/add-norm"), "{} {}", of("0/feed-up"), of("0/add-norm"));
        assert!(of("0/add-norm") > of("embedding") * 0.5);
    }
}
