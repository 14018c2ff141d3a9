//! Retention: which trajectories are deleted.

use std::collections::BTreeMap;

use rusqlite::{Transaction, TransactionBehavior};
use serde::Serialize;

use crate::error::at;
use crate::{Result, Trajectory, TrajectoryId, TrajectoryStore};

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
        self.delete_where(|transaction| {
            let sql = format!("DELETE FROM trajectory WHERE id IN (SELECT id FROM ({CHOSEN}))");
            transaction.execute(&sql, retention.parameters()).map(|_| ())
        })?;
        Ok(pruned)
    }

    /// Deletes these trajectories in one transaction and gives their pages back to the file system.
    pub fn delete(&mut self, ids: &[TrajectoryId]) -> Result<()> {
        self.delete_where(|transaction| {
            let mut statement = transaction.prepare("DELETE FROM trajectory WHERE id = ?1")?;
            ids.iter().try_for_each(|id| statement.execute([id.0]).map(|_| ()))
        })
    }

    fn delete_where(
        &mut self,
        delete: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<()> {
        let done = || {
            let transaction =
                self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            delete(&transaction)?;
            transaction.commit()?;
            // It frees one page in each step.
            let mut vacuum = self.connection.prepare("PRAGMA incremental_vacuum")?;
            let mut freed = vacuum.query([])?;
            while freed.next()?.is_some() {}
            self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        };
        done().map_err(at(&self.path))
    }
}

impl Pruned {
    /// These trajectories.
    pub(crate) fn of(chosen: &[&Trajectory]) -> Self {
        let transitions = chosen.iter().map(|one| one.transitions).sum();
        Self { trajectories: chosen.len() as u64, transitions }
    }
}

impl Retention {
    /// Those of all trajectories, in the order of their recording, that are deleted: for stores that do
    /// not choose by themselves.
    pub(crate) fn chosen<'a>(&self, all: &'a [Trajectory]) -> Vec<&'a Trajectory> {
        let mut by_workload: BTreeMap<&str, Vec<&Trajectory>> = BTreeMap::new();
        for one in all {
            by_workload.entry(&one.workload).or_default().push(one);
        }
        let mut chosen = Vec::new();
        for mut of_one in by_workload.into_values() {
            let latest = self.latest.map_or(usize::MAX, |latest| latest as usize);
            let beyond_latest = of_one.len().saturating_sub(latest);
            let (old, young) = of_one.split_at(beyond_latest);
            let is_old = |one: &&&Trajectory| {
                self.recorded_before_ms.is_some_and(|before| one.recorded_ms < before)
            };
            let doomed: Vec<&Trajectory> =
                old.iter().chain(young.iter().filter(is_old)).copied().collect();
            of_one.retain(|one| one.end.is_some() && one.transitions > 0);
            let mean = |one: &Trajectory| one.mean_reward().unwrap_or(f64::NEG_INFINITY);
            of_one.sort_by(|a, b| mean(b).total_cmp(&mean(a)).then(b.id.cmp(&a.id)));
            of_one.truncate(self.best as usize);
            chosen.extend(doomed.into_iter().filter(|one| !of_one.contains(one)));
        }
        chosen
    }

    fn parameters(&self) -> [i64; 3] {
        let before = self.recorded_before_ms.unwrap_or(i64::MIN);
        [before, self.latest.map_or(i64::MAX, i64::from), i64::from(self.best)]
    }
}
