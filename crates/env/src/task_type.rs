//! Types of tasks: agents of one type resemble each other.

/// What a task is most sensitive to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskType {
    /// How fast its cores are.
    Cpu,
    /// Neighbours that keep the other cores busy moving memory: bandwidth and caches are shared.
    Memory,
    /// Neither.
    Io,
}

impl TaskType {
    /// Every type.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Io];

    /// The type with this place in [`TaskType::ALL`]; the last if there is none.
    pub fn from_index(index: u64) -> Self {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        Self::ALL[index.min(Self::ALL.len() - 1)]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }
}
