//! Queries: which trajectories there are, the best of them, and recent rewards.

use rusqlite::{ToSql, params_from_iter};
use serde::Serialize;

use crate::error::at;
use crate::store::{TRAJECTORY, trajectory};
use crate::{Error, Result, Trajectory, TrajectoryId, TrajectoryStore};

/// Which trajectories. The default is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this workload.
    pub workload: Option<String>,
    /// In which this policy acted.
    pub policy: Option<String>,
}

/// Rewards of the latest trajectories, of which the retraining trigger is made (Alg. 5.1).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecentRewards {
    /// Trajectories that ended, at most as many as were asked for.
    pub trajectories: u64,
    /// Mean of their mean rewards; none without trajectories.
    pub mean: Option<f64>,
    /// Standard deviation of a sample; none with fewer than two.
    pub deviation: Option<f64>,
}

impl RecentRewards {
    /// Of these trajectories.
    pub(crate) fn of<'a>(latest: impl Iterator<Item = &'a Trajectory>) -> Self {
        let rewards: Vec<f64> = latest.filter_map(Trajectory::mean_reward).collect();
        let n = rewards.len() as f64;
        let mean = (n > 0.0).then(|| rewards.iter().sum::<f64>() / n);
        let deviation = mean.filter(|_| n > 1.0).map(|mean| {
            let squares: f64 = rewards.iter().map(|reward| (reward - mean).powi(2)).sum();
            (squares / (n - 1.0)).sqrt()
        });
        Self { trajectories: rewards.len() as u64, mean, deviation }
    }
}

impl Filter {
    /// A condition on trajectories `t`, workloads `w` and policies `p`, with its parameters.
    fn condition(&self) -> (String, Vec<&dyn ToSql>) {
        let mut parts = vec!["TRUE"];
        let mut parameters: Vec<&dyn ToSql> = Vec::new();
        for (part, value) in [("w.name = ?", &self.workload), ("p.name = ?", &self.policy)] {
            if let Some(value) = value {
                parts.push(part);
                parameters.push(value);
            }
        }
        (parts.join(" AND "), parameters)
    }
}

impl TrajectoryStore {
    /// Trajectories in the order of their recording.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Trajectory>> {
        self.select(filter, "ORDER BY t.id")
    }

    /// One trajectory.
    pub fn get(&self, id: TrajectoryId) -> Result<Trajectory> {
        let sql = format!("{TRAJECTORY} WHERE t.id = ?1");
        let found = self.connection.query_row(&sql, [id.0], trajectory);
        match found {
            Err(rusqlite::Error::QueryReturnedNoRows) => Err(Error::NoSuchTrajectory { id }),
            other => other.map_err(at(&self.path)),
        }
    }

    /// The `count` ended trajectories with the highest mean reward, the best first; of equal ones the
    /// later first. The meta learner reads them (dissertation, Section 5.3.2).
    pub fn best(&self, filter: &Filter, count: usize) -> Result<Vec<Trajectory>> {
        let order = format!(
            "AND t.ended IS NOT NULL AND t.transitions > 0
             ORDER BY t.reward_sum / t.transitions DESC, t.id DESC LIMIT {count}"
        );
        self.select(filter, &order)
    }

    /// Mean and deviation of the rewards of the latest `count` ended trajectories.
    pub fn recent_rewards(&self, filter: &Filter, count: usize) -> Result<RecentRewards> {
        let order = format!(
            "AND t.ended IS NOT NULL AND t.transitions > 0 ORDER BY t.id DESC LIMIT {count}"
        );
        Ok(RecentRewards::of(self.select(filter, &order)?.iter()))
    }

    fn select(&self, filter: &Filter, rest: &str) -> Result<Vec<Trajectory>> {
        let failed = at(&self.path);
        let (condition, parameters) = filter.condition();
        let sql = format!("{TRAJECTORY} WHERE {condition} {rest}");
        let mut statement = self.connection.prepare_cached(&sql).map_err(&failed)?;
        let rows =
            statement.query_map(params_from_iter(parameters), trajectory).map_err(&failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(&failed)
    }
}
