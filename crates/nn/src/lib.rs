//! Small networks for thousands of agents: perceptrons, policy heads, Adam, and
//! the file format of a policy.
//!
//! To read it: [`MlpShape`] has the forward and the backward pass, [`Adam`] the
//! optimiser, [`Head`] turns outputs into actions; `kernel` holds the inner loops.
//!
//! Layer 1: no I/O; files are bytes here.

mod activation;
mod adam;
mod error;
mod file;
mod head;
mod init;
pub mod kernel;
mod mlp;
mod network;

pub use activation::Activation;
pub use adam::{Adam, AdamConfig, clip_factor};
pub use error::{Error, Result};
pub use file::{StateFile, decode, encode};
pub use head::{Head, HeadScratch, argmax};
pub use init::Init;
pub use kernel::{AlignedBuffer, Kernel};
pub use mlp::{MlpShape, Tape};
pub use network::Network;
