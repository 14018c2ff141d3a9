//! Identifiers as types, so that an agent's number cannot be mistaken for a count.

use std::fmt;

/// One learning agent. Numbers are never reused within a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(u32);

impl AgentId {
    /// The agent with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The agent's number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent-{}", self.0)
    }
}
