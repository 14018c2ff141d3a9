//! Golden values of PyTorch, written by `fixtures/make_pytorch_fixtures.py`. The
//! invariants that go with them are in `finite_differences`.

use homeostat_nn::{
    Activation, Adam, AdamConfig, Head, HeadScratch, Kernel, MlpShape, Tape, clip_factor,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::closeness::assert_close;
use crate::examples::{HeadBatch, MlpBatch, in_pytorch_order, network_from_pytorch_order};
use crate::reference::ReferenceMlp;

const TOLERANCE: f64 = 1e-5;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture<Case> {
    torch: String,
    cases: Vec<Case>,
}

pub(crate) fn cases<Case: DeserializeOwned>(json: &str) -> Vec<Case> {
    let fixture: Fixture<Case> = serde_json::from_str(json).expect("the script wrote this file");
    assert_eq!(fixture.torch, "2.15.0", "all fixtures come from one version");
    assert!(!fixture.cases.is_empty(), "a fixture without cases proves nothing");
    fixture.cases
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MlpCase {
    widths: Vec<usize>,
    activation: Activation,
    output_activation: Activation,
    rows: usize,
    parameters: Vec<f32>,
    x: Vec<f32>,
    d_output: Vec<f32>,
    output: Vec<f64>,
    d_parameters: Vec<f64>,
    d_input: Vec<f64>,
}

#[test]
fn perceptrons_agree_with_pytorch_forward_and_backward() {
    for case in cases::<MlpCase>(include_str!("../fixtures/mlp.json")) {
        let MlpCase { widths, activation, output_activation, rows, x, d_output, .. } = case;
        let shape = MlpShape::new(&widths, activation, output_activation).unwrap();
        let network = network_from_pytorch_order(&shape, &case.parameters);
        let mlp = ReferenceMlp { widths, activation, output_activation };
        let batch = MlpBatch { mlp, network, rows, x, d_output };
        for kernel in Kernel::available() {
            let got = batch.run(kernel, &mut Tape::default());
            let check = |what: &str, got: &[f32], expect: &[f64]| {
                assert_close(&format!("{kernel} {shape} {what}"), got, expect, TOLERANCE);
            };
            let d_parameters = in_pytorch_order(&shape, &got.flat_gradient);
            check("output", &got.output, &case.output);
            check("parameter gradient", &d_parameters, &case.d_parameters);
            check("input gradient", &got.d_input, &case.d_input);
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AdamCase {
    epsilon: f32,
    max_norm: Option<f32>,
    before: [Vec<f32>; 2],
    steps: Vec<AdamStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AdamStep {
    learning_rate: f32,
    gradients: [Vec<f32>; 2],
    after: [Vec<f64>; 2],
}

#[test]
fn adam_agrees_with_pytorch_with_and_without_clipping() {
    for AdamCase { epsilon, max_norm, before, steps } in
        cases(include_str!("../fixtures/adam.json"))
    {
        let config = AdamConfig { epsilon, ..AdamConfig::default() };
        for kernel in Kernel::available() {
            let what = format!("{kernel} epsilon {epsilon} norm {max_norm:?}");
            let mut tensors = before.clone();
            let mut optimisers = tensors.each_ref().map(|tensor| Adam::new(config, tensor.len()));
            for AdamStep { learning_rate, gradients, after } in &steps {
                let scale = max_norm.map_or(1.0, |max_norm| {
                    clip_factor(kernel, max_norm, &gradients.each_ref().map(Vec::as_slice))
                });
                for (i, adam) in optimisers.iter_mut().enumerate() {
                    let (gradient, tensor) = (&gradients[i], &mut tensors[i]);
                    assert!(adam.step(kernel, *learning_rate, scale, gradient, tensor), "{what}");
                    assert_close(&what, tensor, &after[i], TOLERANCE);
                }
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum HeadKind {
    Categorical,
    Gaussian,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadCase {
    kind: HeadKind,
    sizes: Vec<usize>,
    outputs: Vec<f32>,
    extra: Vec<f32>,
    actions: Vec<f32>,
    d_log_prob: Vec<f32>,
    d_entropy: f32,
    log_prob: Vec<f64>,
    entropy: Vec<f64>,
    d_outputs: Vec<f64>,
    d_extra: Vec<f64>,
}

#[test]
fn heads_agree_with_pytorch_distributions() {
    for case in cases::<HeadCase>(include_str!("../fixtures/head.json")) {
        let head = match case.kind {
            HeadKind::Categorical => Head::Categorical(case.sizes),
            HeadKind::Gaussian => Head::Gaussian(case.sizes[0]),
        };
        let HeadCase { outputs, extra, actions, d_log_prob, d_entropy, .. } = case;
        let batch = HeadBatch { head, outputs, extra, actions, d_log_prob, d_entropy };
        for kernel in Kernel::available() {
            let got = batch.run(kernel, &mut HeadScratch::default());
            let check = |what: &str, got: &[f32], expect: &[f64]| {
                assert_close(&format!("{kernel} {:?} {what}", batch.head), got, expect, TOLERANCE);
            };
            check("log-probability", &got.log_prob, &case.log_prob);
            check("entropy", &got.entropy, &case.entropy);
            check("output gradient", &got.d_outputs, &case.d_outputs);
            check("head parameter gradient", &got.d_extra, &case.d_extra);
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SoftUpdateCase {
    widths: Vec<usize>,
    activation: Activation,
    rate: f32,
    target: Vec<f32>,
    source: Vec<f32>,
    after: Vec<f64>,
}

#[test]
fn following_a_network_agrees_with_a_soft_update_in_pytorch() {
    for case in cases::<SoftUpdateCase>(include_str!("../fixtures/soft_update.json")) {
        let shape = MlpShape::new(&case.widths, case.activation, Activation::Identity).unwrap();
        let source = network_from_pytorch_order(&shape, &case.source);
        for kernel in Kernel::available() {
            let mut target = network_from_pytorch_order(&shape, &case.target);
            for _ in 0..2 {
                target.follow(kernel, case.rate, &source);
            }
            let after = in_pytorch_order(&shape, target.params());
            assert_close(&format!("{kernel} rate {}", case.rate), &after, &case.after, TOLERANCE);
        }
    }
}
