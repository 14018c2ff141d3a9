//! Types of tasks, for typed virtual agents and parameter sharing.

/// What a task is most sensitive to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskType {
    /// How fast its cores are.
    Cpu,
    /// Memory bandwidth and caches, which it shares with the other cores of its node.
    Memory,
    /// Neither.
    Io,
}

impl TaskType {
    /// Every type.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Io];

    /// The type with this index in [`TaskType::ALL`]; the last one for a larger index.
    pub fn from_index(index: u64) -> Self {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        Self::ALL[index.min(Self::ALL.len() - 1)]
    }

    /// The lower-case name, as in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }
}
