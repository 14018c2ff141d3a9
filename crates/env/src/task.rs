//! What agents of a shared environment are there for.

use crate::TaskType;

/// What one agent of a shared environment controls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name, for people.
    pub name: String,
    /// What it is most sensitive to. Agents with tasks of one type can learn from each other.
    pub task_type: TaskType,
}
