//! Recurrent networks: values, gradients, batches with padding, dropout and resume.

mod batches;
mod examples;
mod gradients;
mod learning;
mod reference;
