//! Why a coordinator refused a message, by kind, and how often.

use std::fmt;

/// What was wrong with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalKind {
    /// A name that no agent may have.
    Name,
    /// The coordinator remembers as many agents as it can.
    Full,
    /// No agent is registered under this name.
    UnknownAgent,
    /// A session that the coordinator never gave, or forgot when it was killed.
    UnknownSession,
    /// A session that a later registration of the same name has ended.
    EarlierSession,
    /// An agent without a seat acted, or asked for a function that is not on the platform.
    NoSeat,
    /// A second action in the same step.
    Duplicate,
    /// An action for a step that is over.
    Late,
    /// An action for a step that is still to come.
    StepAhead,
    /// An action with a number that is not finite.
    NotFinite,
    /// An action outside the action space.
    UnknownAction,
    /// A message without a part that it must have.
    Incomplete,
}

impl RefusalKind {
    /// Every kind, in the order of its index.
    pub const ALL: [Self; 12] = [
        Self::Name,
        Self::Full,
        Self::UnknownAgent,
        Self::UnknownSession,
        Self::EarlierSession,
        Self::NoSeat,
        Self::Duplicate,
        Self::Late,
        Self::StepAhead,
        Self::NotFinite,
        Self::UnknownAction,
        Self::Incomplete,
    ];

    /// Its index, the same in every version: it is sent and saved.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The kind with this index.
    pub fn from_index(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }

    /// Its name in events and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Full => "full",
            Self::UnknownAgent => "unknown_agent",
            Self::UnknownSession => "unknown_session",
            Self::EarlierSession => "earlier_session",
            Self::NoSeat => "no_seat",
            Self::Duplicate => "duplicate",
            Self::Late => "late",
            Self::StepAhead => "step_ahead",
            Self::NotFinite => "not_finite",
            Self::UnknownAction => "unknown_action",
            Self::Incomplete => "incomplete",
        }
    }
}

impl fmt::Display for RefusalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A message that was refused. It changed nothing for any other agent.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// What was wrong.
    pub kind: RefusalKind,
    /// The same in words, with the value and the way out.
    pub reason: String,
}

impl Refusal {
    /// A refusal of this kind.
    pub fn new(kind: RefusalKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into() }
    }
}

/// How many messages were refused, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RefusalCounts([u64; RefusalKind::ALL.len()]);

impl RefusalCounts {
    /// One more of this kind.
    pub fn add(&mut self, kind: RefusalKind) {
        self.0[kind.index()] += 1;
    }

    /// How many of this kind.
    pub fn of(&self, kind: RefusalKind) -> u64 {
        self.0[kind.index()]
    }

    /// How many of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Kinds that there were, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (RefusalKind, u64)> {
        RefusalKind::ALL.into_iter().map(|kind| (kind, self.of(kind))).filter(|(_, n)| *n > 0)
    }

    pub(crate) fn numbers(&self) -> [u64; RefusalKind::ALL.len()] {
        self.0
    }

    pub(crate) fn from_numbers(numbers: &[u64]) -> Self {
        let mut this = Self::default();
        this.0.iter_mut().zip(numbers).for_each(|(slot, number)| *slot = *number);
        this
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_keep_their_index() {
        for (index, kind) in RefusalKind::ALL.into_iter().enumerate() {
            assert_eq!((kind.index(), RefusalKind::from_index(index)), (index, Some(kind)));
        }
        assert_eq!(RefusalKind::from_index(RefusalKind::ALL.len()), None);
    }
}
