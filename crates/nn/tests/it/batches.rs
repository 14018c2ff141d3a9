//! A batch's results depend on that batch alone: not on what the buffers held
//! before, and a row's not on the rows beside it.

use homeostat_nn::{Head, HeadScratch, InputRows, Kernel, Tape};
use proptest::prelude::*;

use crate::closeness::assert_same_bits;
use crate::examples::{HeadBatch, MlpBatch, head_batches, mlp_batches, zero_network};

/// Leaves NaN wherever an earlier batch can leave numbers.
fn poisoned_tape(kernel: Kernel, mut earlier: MlpBatch) -> Tape {
    earlier.network.params_mut().fill(f32::NAN);
    earlier.x.fill(f32::NAN);
    earlier.d_output.fill(f32::NAN);
    let mut tape = Tape::default();
    earlier.run(kernel, &mut tape);
    tape
}

fn poisoned_scratch(kernel: Kernel, mut earlier: HeadBatch) -> HeadScratch {
    earlier.outputs.fill(f32::NAN);
    earlier.extra.fill(f32::NAN);
    let mut scratch = HeadScratch::default();
    earlier.run(kernel, &mut scratch);
    scratch
}

#[test]
fn a_broken_network_shows_as_nan_in_its_head() {
    for kernel in Kernel::available() {
        for broken in [f32::NAN, f32::NEG_INFINITY] {
            let mut scratch = HeadScratch::default();
            Head::Categorical(vec![3]).evaluate(kernel, &[broken; 3], &[], &[0.0], &mut scratch);
            assert!(
                scratch.log_prob[0].is_nan() && scratch.entropy[0].is_nan(),
                "{kernel} {broken}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_used_tape_gives_what_a_fresh_one_gives(batch in mlp_batches(), earlier in mlp_batches()) {
        for kernel in Kernel::available() {
            let fresh = batch.run(kernel, &mut Tape::default());
            let used = batch.run(kernel, &mut poisoned_tape(kernel, earlier.clone()));
            assert_same_bits("output", &used.output, &fresh.output);
            assert_same_bits("parameter gradient", &used.flat_gradient, &fresh.flat_gradient);
            assert_same_bits("input gradient", &used.d_input, &fresh.d_input);
        }
    }

    #[test]
    fn the_parameter_gradient_does_not_need_the_input_gradient(batch in mlp_batches()) {
        let MlpBatch { network, rows, x, d_output, .. } = &batch;
        for kernel in Kernel::available() {
            let mut tape = Tape::default();
            let expect = batch.run(kernel, &mut tape).flat_gradient;
            let mut gradient = vec![f32::NAN; expect.len()];
            network.shape().backward(
                kernel,
                network.params(),
                InputRows { x, rows: *rows },
                &mut tape,
                d_output,
                Some(&mut gradient),
                None,
            );
            assert_same_bits("parameter gradient", &gradient, &expect);
        }
    }

    #[test]
    fn the_gaps_of_alignment_have_no_gradient(batch in mlp_batches()) {
        let mut gaps = zero_network(batch.network.shape());
        gaps.params_mut().fill(f32::NAN);
        for index in 0..gaps.layer_count() {
            let (weights, bias, _) = gaps.layer(index);
            gaps.set_layer(index, &vec![0.0; weights.len()], &vec![0.0; bias.len()]);
        }
        for kernel in Kernel::available() {
            let gradient = batch.run(kernel, &mut Tape::default()).flat_gradient;
            for (gap, gradient) in gaps.params().iter().zip(gradient) {
                prop_assert!(!gap.is_nan() || gradient == 0.0, "{kernel} left {gradient} in a gap");
            }
        }
    }

    #[test]
    fn a_row_gives_alone_what_it_gives_in_a_batch(batch in mlp_batches()) {
        let MlpBatch { network, rows, x, .. } = &batch;
        let shape = network.shape();
        for kernel in Kernel::available() {
            let together = network.forward(kernel, x, *rows, &mut Tape::default()).to_vec();
            let rows = x.chunks_exact(shape.inputs()).zip(together.chunks_exact(shape.outputs()));
            for (x, expect) in rows {
                let mut tape = Tape::default();
                let alone = network.forward(kernel, x, 1, &mut tape);
                assert_same_bits(&format!("{kernel} output"), alone, expect);
            }
        }
    }

    #[test]
    fn used_scratch_gives_what_fresh_scratch_gives(
        batch in head_batches(), earlier in head_batches(),
    ) {
        for kernel in Kernel::available() {
            let fresh = batch.run(kernel, &mut HeadScratch::default());
            let used = batch.run(kernel, &mut poisoned_scratch(kernel, earlier.clone()));
            assert_same_bits("log-probability", &used.log_prob, &fresh.log_prob);
            assert_same_bits("entropy", &used.entropy, &fresh.entropy);
            assert_same_bits("output gradient", &used.d_outputs, &fresh.d_outputs);
            assert_same_bits("head parameter gradient", &used.d_extra, &fresh.d_extra);
        }
    }

    #[test]
    fn an_action_is_scored_alone_as_in_a_batch(batch in head_batches()) {
        let HeadBatch { head, outputs, extra, actions, .. } = &batch;
        for kernel in Kernel::available() {
            let together = batch.run(kernel, &mut HeadScratch::default());
            let actions = actions.chunks_exact(head.action_len());
            let rows = outputs.chunks_exact(head.outputs()).zip(actions);
            for (row, (outputs, action)) in rows.enumerate() {
                let mut alone = HeadScratch::default();
                head.evaluate(kernel, outputs, extra, action, &mut alone);
                let (log_prob, entropy) = (together.log_prob[row], together.entropy[row]);
                assert_same_bits("log-probability", &alone.log_prob, &[log_prob]);
                assert_same_bits("entropy", &alone.entropy, &[entropy]);
            }
        }
    }
}
