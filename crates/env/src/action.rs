//! Actions.

use std::fmt;

/// An action; its kind matches the kind of the action space.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// One of n choices.
    Discrete(usize),
    /// One choice in each of several components.
    MultiDiscrete(Vec<usize>),
    /// A point in a box.
    Continuous(Vec<f32>),
}

impl Action {
    /// The choice, if this is a discrete action.
    pub fn discrete(&self) -> Option<usize> {
        match self {
            Self::Discrete(choice) => Some(*choice),
            _ => None,
        }
    }

    /// The choices, if this is a multi-discrete action.
    pub fn multi_discrete(&self) -> Option<&[usize]> {
        match self {
            Self::MultiDiscrete(choices) => Some(choices),
            _ => None,
        }
    }

    /// The point, if this is a continuous action.
    pub fn continuous(&self) -> Option<&[f32]> {
        match self {
            Self::Continuous(values) => Some(values),
            _ => None,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discrete(choice) => write!(f, "{choice}"),
            Self::MultiDiscrete(choices) => write!(f, "{choices:?}"),
            Self::Continuous(values) => write!(f, "{values:?}"),
        }
    }
}
