//! Small neural networks for thousands of agents, on the CPU.
//!
//! * [`MlpShape`]: a multi-layer perceptron with its forward and backward pass; [`Network`]: a
//!   shape with weights.
//! * [`RecurrentShape`] and [`RecurrentNetwork`]: the same for GRU and Elman networks over batches of
//!   sequences.
//! * [`Encoder`]: transformer encoders of published models, for inference.
//! * [`Head`]: categorical and Gaussian policy heads. [`Adam`]: the optimiser.
//! * [`encode`] and [`decode`]: safetensors files with a header and a hash.
//! * [`kernel`]: the inner loops for AVX-512, AVX2 and portable code, chosen at run time.
//!
//! There is no automatic differentiation, no GPU and no convolutional layer. The weights and moments
//! of an agent's perceptron fit into the L2 cache, and its whole update runs on one core; large
//! passes of recurrent networks use several.
//! Layer 1: no I/O; files are bytes here.
//!
//! ```
//! use std::sync::Arc;
//!
//! use homeostat_core::Stream;
//! use homeostat_nn::{Activation, Init, Kernel, MlpShape, Network, Tape};
//!
//! # fn main() -> homeostat_nn::Result<()> {
//! let shape = MlpShape::new(&[4, 64, 64, 2], Activation::Tanh, Activation::Identity)?;
//! let network = Network::new(Arc::new(shape), 0, Init::UniformFanIn, &mut Stream::from_seed(1));
//! let observations = [0.1; 4 * 8];
//! let mut tape = Tape::default();
//! let logits = network.forward(Kernel::best(), &observations, 8, &mut tape);
//! assert_eq!(logits.len(), 8 * 2, "two logits for each of eight observations");
//! # Ok(())
//! # }
//! ```

mod activation;
mod adam;
mod encoder;
mod error;
mod file;
mod head;
mod init;
pub mod kernel;
mod mlp;
mod network;
mod recurrent;

pub use activation::Activation;
pub use adam::{Adam, AdamConfig, clip_factor};
pub use encoder::{Encoder, EncoderConfig};
pub use error::{Error, Result};
pub use file::{StateFile, decode, encode};
pub use head::{Head, HeadScratch, argmax};
pub use init::Init;
pub use kernel::{AlignedBuffer, Kernel};
pub use mlp::{InputRows, MlpShape, Tape};
pub use network::Network;
pub use recurrent::{
    Cell, RecurrentConfig, RecurrentGradients, RecurrentInput, RecurrentNetwork, RecurrentShape,
    RecurrentTape, SequenceBatch,
};
