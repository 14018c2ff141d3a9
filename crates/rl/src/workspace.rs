//! Scratch space of one thread, shared by all agents that it works for.

use homeostat_nn::{AlignedBuffer, HeadScratch, Kernel, Tape};

/// Scratch buffers of an update. They grow to the largest batch and then allocate no more.
#[derive(Debug, Clone)]
pub struct Workspace {
    pub(crate) kernel: Kernel,
    pub(crate) actor: Tape,
    pub(crate) critic: Tape,
    pub(crate) target: Tape,
    pub(crate) head: HeadScratch,
    pub(crate) features: AlignedBuffer,
    pub(crate) actor_features: AlignedBuffer,
    pub(crate) next_features: AlignedBuffer,
    /// Observations as they are kept.
    pub(crate) kept: AlignedBuffer,
    pub(crate) envs: Vec<usize>,
    pub(crate) actions: AlignedBuffer,
    pub(crate) rows: Vec<RowScalars>,
    pub(crate) per_row: Vec<f32>,
    pub(crate) d_output: AlignedBuffer,
    pub(crate) d_input: AlignedBuffer,
    pub(crate) actor_grads: AlignedBuffer,
    pub(crate) critic_grads: AlignedBuffer,
}

/// The scalars of one row of a minibatch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowScalars {
    pub(crate) log_prob: f32,
    pub(crate) advantage: f32,
    pub(crate) target: f32,
    pub(crate) value: f32,
}

impl Workspace {
    /// Empty buffers for this kernel.
    pub fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            actor: Tape::default(),
            critic: Tape::default(),
            target: Tape::default(),
            head: HeadScratch::default(),
            features: AlignedBuffer::default(),
            actor_features: AlignedBuffer::default(),
            next_features: AlignedBuffer::default(),
            kept: AlignedBuffer::default(),
            envs: Vec::new(),
            actions: AlignedBuffer::default(),
            rows: Vec::new(),
            per_row: Vec::new(),
            d_output: AlignedBuffer::default(),
            d_input: AlignedBuffer::default(),
            actor_grads: AlignedBuffer::default(),
            critic_grads: AlignedBuffer::default(),
        }
    }

    /// The kernel that every network of this workspace runs on.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }
}
