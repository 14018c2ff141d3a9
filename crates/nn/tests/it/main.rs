//! The proof that values and gradients are right: against plain loops in double
//! precision and their finite differences, and against PyTorch. And that repeated
//! batches neither disturb each other nor allocate.

mod batches;
mod closeness;
mod examples;
mod finite_differences;
mod no_allocation;
mod pytorch;
mod recurrent;
mod reference;
mod sampling;
