//! Retention: which trajectories are deleted.

use rusqlite::TransactionBehavior;
use serde::Serialize;

use crate::error::at;
use crate::{Result, TrajectoryStore};

/// Trajectories that one of the first two rules names are deleted, unless they are among the best.
/// Without these rules nothing is deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retention {
    /// Those recorded before this time, in milliseconds since 1970.
    pub recorded_before_ms: Option<i64>,
    /// Those beyond the latest so many of each workload.
    pub latest: Option<u32>,
    /// The best so many ended ones of each workload are kept.
    pub best: u32,
}

/// What was deleted, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Trajectories.
    pub trajectories: u64,
    /// Their transitions.
    pub transitions: u64,
}

/// Ranks within each workload: by recording, and by mean reward among those that ended.
const CHOSEN: &str = "
WITH ranked AS (
    SELECT id, recorded_ms, transitions,
        row_number() OVER (PARTITION BY workload ORDER BY id DESC) AS age,
        ended IS NOT NULL AND transitions > 0 AS can_be_best,
        row_number() OVER (
            PARTITION BY workload
            ORDER BY ended IS NOT NULL AND transitions > 0 DESC,
                reward_sum / max(transitions, 1) DESC, id DESC
        ) AS rank
    FROM trajectory
)
SELECT id, transitions FROM ranked
WHERE (recorded_ms < ?1 OR age > ?2) AND NOT (can_be_best AND rank <= ?3)";

impl TrajectoryStore {
    /// What [`TrajectoryStore::prune`] would delete.
    pub fn prunable(&self, retention: &Retention) -> Result<Pruned> {
        let sql = format!("SELECT count(*), coalesce(sum(transitions), 0) FROM ({CHOSEN})");
        let counts = self.connection.query_row(&sql, retention.parameters(), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        });
        let (trajectories, transitions) = counts.map_err(at(&self.path))?;
        Ok(Pruned {
            trajectories: trajectories.max(0) as u64,
            transitions: transitions.max(0) as u64,
        })
    }

    /// Deletes trajectories in one transaction and gives their pages back to the file system.
    pub fn prune(&mut self, retention: &Retention) -> Result<Pruned> {
        let pruned = self.prunable(retention)?;
        let mut delete = || {
            let transaction =
                self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let sql = format!("DELETE FROM trajectory WHERE id IN (SELECT id FROM ({CHOSEN}))");
            transaction.execute(&sql, retention.parameters())?;
            transaction.commit()?;
            // It frees one page in each step.
            let mut vacuum = self.connection.prepare("PRAGMA incremental_vacuum")?;
            let mut freed = vacuum.query([])?;
            while freed.next()?.is_some() {}
            self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        };
        delete().map_err(at(&self.path))?;
        Ok(pruned)
    }
}

impl Retention {
    fn parameters(&self) -> [i64; 3] {
        let before = self.recorded_before_ms.unwrap_or(i64::MIN);
        [before, self.latest.map_or(i64::MAX, i64::from), i64::from(self.best)]
    }
}
