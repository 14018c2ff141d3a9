//! What the algorithms promise: they learn, they take truncation for what it is,
//! they agree with PyTorch, they stop on numbers that are not finite, they repeat
//! themselves to the bit, they allocate nothing while they learn, and what they
//! learnt survives a file.

mod agents;
mod conditioned;
mod evaluation;
mod identity;
mod no_allocation;
mod not_finite;
mod offline;
mod play;
mod policy_file;
mod pytorch;
mod refused;
mod reproducible;
mod sharing;
mod target_kl;
mod truncation;
