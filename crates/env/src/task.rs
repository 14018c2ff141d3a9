//! Tasks of the agents of a shared environment.

use crate::TaskType;

/// What one agent of a shared environment controls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name in reports.
    pub name: String,
    /// What it is most sensitive to. Agents with tasks of one type may share parameters.
    pub task_type: TaskType,
}
