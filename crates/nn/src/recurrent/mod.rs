//! Recurrent networks: GRU and Elman cells, several layers, one or both directions,
//! dropout between layers, and batches of sequences of different lengths.
//!
//! The same cells and the same parameters as PyTorch's `nn.GRU` and `nn.RNN`.
//! [`RecurrentShape`] says where parameters lie, `pass.rs` has the forward and the
//! backward pass over all steps, `direction.rs` those of one direction of one layer.

mod batch;
mod direction;
mod network;
mod parallel;
mod pass;
mod shape;

pub use batch::SequenceBatch;
pub use network::RecurrentNetwork;
pub use pass::{RecurrentGradients, RecurrentInput, RecurrentTape};
pub use shape::{Cell, RecurrentConfig, RecurrentShape};
