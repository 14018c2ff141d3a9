//! Pretraining on a pool of pairs, and what it is worth on pairs never seen.

mod reinforcement;
mod supervised;
