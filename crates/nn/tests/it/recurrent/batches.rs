//! Results depend on the sequences alone: not on what the tape held before, on the
//! sequences beside them, on the kernel's width or on the number of threads.

use homeostat_core::Stream;
use homeostat_nn::{
    Cell, Kernel, RecurrentConfig, RecurrentGradients, RecurrentInput, RecurrentTape, SequenceBatch,
};
use proptest::prelude::*;

use super::examples::{RecurrentBatch, recurrent_batches};
use crate::closeness::assert_same_bits;

/// Leaves NaN wherever an earlier batch can leave numbers.
fn poisoned_tape(kernel: Kernel, mut earlier: RecurrentBatch) -> RecurrentTape {
    earlier.network.params_mut().fill(f32::NAN);
    let mut tape = RecurrentTape::default();
    earlier.run(kernel, &mut tape);
    tape
}

fn large_gru(bidirectional: bool, lengths: &[usize]) -> RecurrentBatch {
    let (cell, inputs, hidden, layers, dropout) = (Cell::Gru, 7, 72, 2, 0.2);
    let config = RecurrentConfig { cell, inputs, hidden, layers, bidirectional, dropout };
    RecurrentBatch::random(config, lengths, 5)
}

#[test]
fn results_are_the_same_for_any_number_of_threads() {
    let lengths: Vec<usize> = (0..150).map(|sequence| 4 + sequence % 7).collect();
    for bidirectional in [false, true] {
        let batch = large_gru(bidirectional, &lengths);
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| batch.run(Kernel::best(), &mut RecurrentTape::default()))
        };
        let expect = run(1);
        for threads in [2, 3] {
            for ((what, got), (_, expect)) in run(threads).parts().iter().zip(expect.parts()) {
                assert_same_bits(&format!("{what} on {threads} threads"), got, expect);
            }
        }
    }
}

#[test]
fn dropout_needs_a_stream_and_follows_it() {
    let batch = large_gru(true, &[3, 5]);
    let sequences = SequenceBatch::new(&batch.lengths).unwrap();
    let input = RecurrentInput { x: &batch.x, batch: &sequences, initial: None };
    let run = |mut rng: Option<Stream>| {
        let mut tape = RecurrentTape::default();
        batch.network.forward(Kernel::best(), input, rng.as_mut(), &mut tape).to_vec()
    };
    let seeded = |seed| run(Some(Stream::from_seed(seed)));
    assert_same_bits("one seed", &seeded(1), &seeded(1));
    assert_same_bits("no stream", &run(None), &run(None));
    assert_ne!(seeded(1), seeded(2));
    assert_ne!(seeded(1), run(None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_used_tape_gives_what_a_fresh_one_gives(
        batch in recurrent_batches(), earlier in recurrent_batches(),
    ) {
        for kernel in Kernel::available() {
            let fresh = batch.run(kernel, &mut RecurrentTape::default());
            let used = batch.run(kernel, &mut poisoned_tape(kernel, earlier.clone()));
            for ((what, got), (_, expect)) in used.parts().iter().zip(fresh.parts()) {
                assert_same_bits(what, got, expect);
            }
        }
    }

    #[test]
    fn kernels_with_fused_arithmetic_agree_to_the_bit(batch in recurrent_batches()) {
        let fused = Kernel::available().into_iter().filter(|kernel| *kernel != Kernel::PORTABLE);
        let results: Vec<_> =
            fused.map(|kernel| batch.run(kernel, &mut RecurrentTape::default())).collect();
        for pair in results.windows(2) {
            for ((what, got), (_, expect)) in pair[0].parts().iter().zip(pair[1].parts()) {
                assert_same_bits(what, got, expect);
            }
        }
    }

    #[test]
    fn a_sequence_gives_alone_what_it_gives_in_a_batch(batch in recurrent_batches()) {
        let shape = batch.network.shape();
        let (inputs, outputs, count) =
            (shape.config().inputs, shape.outputs(), batch.lengths.len());
        let all = SequenceBatch::new(&batch.lengths).unwrap();
        for kernel in Kernel::available() {
            let mut tape = RecurrentTape::default();
            let input = RecurrentInput { x: &batch.x, batch: &all, initial: None };
            let together = batch.network.forward(kernel, input, None, &mut tape).to_vec();
            for (sequence, length) in batch.lengths.iter().enumerate() {
                let column = |rows: &[f32], width: usize| -> Vec<f32> {
                    let rows = rows.chunks_exact(width).skip(sequence).step_by(count);
                    rows.take(*length).flatten().copied().collect()
                };
                let x = column(&batch.x, inputs);
                let one = SequenceBatch::new(&[*length]).unwrap();
                let input = RecurrentInput { x: &x, batch: &one, initial: None };
                let mut tape = RecurrentTape::default();
                let alone = batch.network.forward(kernel, input, None, &mut tape);
                assert_same_bits("output", alone, &column(&together, outputs));
            }
        }
    }

    #[test]
    fn gradients_do_not_need_each_other(batch in recurrent_batches()) {
        let RecurrentBatch { network, x, initial, d_output, d_last, .. } = &batch;
        let sequences = SequenceBatch::new(&batch.lengths).unwrap();
        let input = RecurrentInput { x, batch: &sequences, initial: Some(initial) };
        let kernel = Kernel::best();
        let mut tape = RecurrentTape::default();
        let expect = batch.run(kernel, &mut tape);
        let mut backward = |gradients: RecurrentGradients<'_>| {
            let shape = network.shape();
            let params = network.params();
            shape.backward(kernel, params, input, &mut tape, d_output, Some(d_last), gradients);
        };
        let mut got = vec![f32::NAN; expect.flat_gradient.len()];
        backward(RecurrentGradients { params: Some(&mut got), ..Default::default() });
        assert_same_bits("parameter gradient", &got, &expect.flat_gradient);
        let mut got = vec![f32::NAN; x.len()];
        backward(RecurrentGradients { x: Some(&mut got), ..Default::default() });
        assert_same_bits("input gradient", &got, &expect.d_input);
        let mut got = vec![f32::NAN; initial.len()];
        backward(RecurrentGradients { initial: Some(&mut got), ..Default::default() });
        assert_same_bits("initial state gradient", &got, &expect.d_initial);
    }
}
