//! After one warm-up, learning allocates nothing: thousands of agents share one
//! allocator, and would wait for it.
#![expect(
    unsafe_code,
    reason = "a global allocator is unsafe by its signature; this one only counts"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use homeostat_nn::{
    Activation, Adam, AdamConfig, Head, HeadScratch, InputRows, Kernel, Network, Tape, clip_factor,
};

use crate::examples::{HeadBatch, MlpBatch};
use crate::reference::ReferenceMlp;

struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

thread_local! {
    // Per thread, because the other tests of this binary allocate at the same time.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count_one() {
    ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call is handed on to the system's allocator unchanged, and counting
// touches a constant-initialised cell, which itself never allocates.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count_one();
        // SAFETY: the caller keeps the contract, and `pointer` came from the system.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

pub(crate) fn allocations_during(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// One policy update, from forward pass to target network, in buffers of its own.
struct Learner {
    kernel: Kernel,
    batch: MlpBatch,
    head_batch: HeadBatch,
    tape: Tape,
    scratch: HeadScratch,
    d_outputs: Vec<f32>,
    d_extra: Vec<f32>,
    d_input: Vec<f32>,
    gradient: Vec<f32>,
    adam: Adam,
    target: Network,
}

impl Learner {
    fn new(kernel: Kernel, hidden: &[usize], activation: Activation, head: Head) -> Self {
        let rows = 12;
        let widths = [&[9], hidden, &[head.outputs()]].concat();
        let mlp = ReferenceMlp { widths, activation, output_activation: Activation::Identity };
        let batch = MlpBatch::random(mlp, rows, 1);
        let parameter_count = batch.network.shape().parameter_count();
        Self {
            kernel,
            head_batch: HeadBatch::random(head.clone(), rows, 2),
            tape: Tape::default(),
            scratch: HeadScratch::default(),
            d_outputs: vec![0.0; batch.d_output.len()],
            d_extra: vec![0.0; head.extra()],
            d_input: vec![0.0; batch.x.len()],
            gradient: vec![0.0; parameter_count],
            adam: Adam::new(AdamConfig::default(), parameter_count),
            target: batch.network.clone(),
            batch,
        }
    }

    fn update(&mut self, rows: usize) {
        let Self { kernel, batch: MlpBatch { network, x, .. }, head_batch, .. } = self;
        let HeadBatch { head, extra, actions, d_log_prob, d_entropy, .. } = head_batch;
        let kernel = *kernel;
        let x = &x[..rows * network.shape().inputs()];
        let actions = &actions[..rows * head.action_len()];
        let d_outputs = &mut self.d_outputs[..rows * head.outputs()];

        let outputs = network.forward(kernel, x, rows, &mut self.tape);
        head.evaluate(kernel, outputs, extra, actions, &mut self.scratch);
        head.gradient(
            outputs,
            extra,
            actions,
            &d_log_prob[..rows],
            *d_entropy,
            &self.scratch,
            d_outputs,
            &mut self.d_extra,
        );
        network.shape().backward(
            kernel,
            network.params(),
            InputRows { x, rows },
            &mut self.tape,
            d_outputs,
            Some(&mut self.gradient),
            Some(&mut self.d_input),
        );
        let grad_scale = clip_factor(kernel, 0.5, &[&self.gradient]);
        let gradient = &self.gradient;
        assert!(self.adam.step(kernel, 1e-3, grad_scale, gradient, network.params_mut()));
        self.target.follow(kernel, 0.005, network);
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations_during(|| drop(black_box(vec![1u8]))), 1);
    assert_eq!(allocations_during(|| drop(black_box(vec![0u8; 100]))), 1);
    assert_eq!(allocations_during(|| ()), 0);
}

#[test]
fn an_update_after_the_first_allocates_nothing() {
    let heads = [Head::Categorical(vec![3]), Head::Categorical(vec![5, 20]), Head::Gaussian(2)];
    let hidden_layers: [&[usize]; 4] = [&[], &[64], &[64, 20], &[10, 64, 33]];
    for kernel in Kernel::available() {
        for head in &heads {
            for hidden in hidden_layers {
                for activation in [Activation::Tanh, Activation::Relu] {
                    let mut learner = Learner::new(kernel, hidden, activation, head.clone());
                    learner.update(12);
                    // A smaller batch too, as at the end of an epoch.
                    for rows in [12, 5, 12] {
                        let allocations = allocations_during(|| learner.update(rows));
                        assert_eq!(
                            allocations, 0,
                            "{kernel} {head:?} with hidden layers {hidden:?}, {rows} rows"
                        );
                    }
                }
            }
        }
    }
}
