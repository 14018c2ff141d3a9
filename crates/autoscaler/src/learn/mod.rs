//! Learners and policy files as recommenders: transitions, answers, and the
//! proposals that follow from them.

mod advice;
mod served_policy;
mod transition;

pub use advice::{Advice, LastAction, propose};
pub use served_policy::ServedPolicy;
pub use transition::Transition;
