//! Nonlinearities.

use serde::{Deserialize, Serialize};

/// What follows a dense layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Nothing.
    Identity,
    /// `max(0, x)`.
    Relu,
    /// Hyperbolic tangent.
    Tanh,
}
