//! A store: one file, read and written.

use std::path::{Path, PathBuf};

use homeostat_core::ControlSchema;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior};

use crate::error::at;
use crate::{Error, Origin, Result, Trajectory, TrajectoryId, Transition, Writer, file};

/// A trajectory store in one SQLite file.
#[derive(Debug)]
pub struct TrajectoryStore {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
}

impl TrajectoryStore {
    /// Opens a store that exists.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { connection: file::open(path)?, path: path.to_owned() })
    }

    /// Opens a store, or makes one if there is no file.
    pub fn open_or_create(path: &Path) -> Result<Self> {
        Ok(Self { connection: file::open_or_create(path)?, path: path.to_owned() })
    }

    /// Begins a write transaction. It waits for another writer for up to ten seconds.
    pub fn write(&mut self) -> Result<Writer<'_>> {
        let behaviour = TransactionBehavior::Immediate;
        let transaction =
            self.connection.transaction_with_behavior(behaviour).map_err(at(&self.path))?;
        Ok(Writer::new(transaction, &self.path))
    }

    /// Where a trajectory comes from.
    pub fn origin(&self, id: TrajectoryId) -> Result<Origin> {
        let sql = "SELECT w.name, p.name, s.json, t.recorded_ms FROM trajectory t
             JOIN workload w ON w.id = t.workload JOIN policy p ON p.id = t.policy
             JOIN control_schema s ON s.id = t.control_schema WHERE t.id = ?1";
        let found = self.connection.query_row(sql, [id.0], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?, row.get(3)?))
        });
        let found = found.optional().map_err(at(&self.path))?;
        let (workload, policy, json, recorded_ms) = found.ok_or(Error::NoSuchTrajectory { id })?;
        Ok(Origin { workload, policy, schema: self.schema(&json)?, recorded_ms })
    }

    /// Hands every transition of a trajectory to `each`, in order. Its error ends the reading.
    pub fn transitions(
        &self,
        id: TrajectoryId,
        each: &mut dyn FnMut(Transition) -> Result<()>,
    ) -> Result<()> {
        let sql = "SELECT at_ms, observation, action, reward, probability FROM transition
             WHERE trajectory = ?1 ORDER BY step";
        let failed = at(&self.path);
        let mut statement = self.connection.prepare_cached(sql).map_err(&failed)?;
        let mut rows = statement.query([id.0]).map_err(&failed)?;
        while let Some(row) = rows.next().map_err(&failed)? {
            each(transition(row).map_err(&failed)?)?;
        }
        Ok(())
    }

    /// What was observed after the last transition; none while a trajectory is open.
    pub fn last_observation(&self, id: TrajectoryId) -> Result<Option<Vec<f32>>> {
        let sql = "SELECT last_observation FROM trajectory WHERE id = ?1";
        let found = self.connection.query_row(sql, [id.0], |row| row.get::<_, Option<Vec<u8>>>(0));
        let found = found.optional().map_err(at(&self.path))?;
        Ok(found.ok_or(Error::NoSuchTrajectory { id })?.map(|bytes| floats(&bytes)))
    }

    /// The schema that was written as this text.
    pub(crate) fn schema(&self, json: &str) -> Result<ControlSchema> {
        serde_json::from_str(json).map_err(|error| Error::Damaged {
            path: self.path.clone(),
            reason: format!("a schema cannot be read ({error})"),
        })
    }
}

/// The columns of a trajectory, for [`trajectory`].
pub(crate) const TRAJECTORY: &str = "
SELECT t.id, w.name, p.name, s.features, s.action, t.recorded_ms, t.transitions, t.reward_sum, t.ended
FROM trajectory t JOIN workload w ON w.id = t.workload JOIN policy p ON p.id = t.policy
JOIN control_schema s ON s.id = t.control_schema";

pub(crate) fn trajectory(row: &Row<'_>) -> rusqlite::Result<Trajectory> {
    let ended: Option<String> = row.get(8)?;
    let transitions: i64 = row.get(6)?;
    Ok(Trajectory {
        id: TrajectoryId(row.get(0)?),
        workload: row.get(1)?,
        policy: row.get(2)?,
        features: row.get(3)?,
        action: row.get(4)?,
        recorded_ms: row.get(5)?,
        transitions: transitions.max(0) as u64,
        reward_sum: row.get(7)?,
        end: ended.map(|name| match name.as_str() {
            "terminated" => crate::End::Terminated,
            _ => crate::End::Truncated,
        }),
    })
}

fn transition(row: &Row<'_>) -> rusqlite::Result<Transition> {
    Ok(Transition {
        at_ms: row.get(0)?,
        observation: floats(row.get_ref(1)?.as_blob()?),
        action: floats(row.get_ref(2)?.as_blob()?),
        reward: row.get(3)?,
        probability: row.get(4)?,
    })
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers.iter().map(|number| f32::from_le_bytes(*number)).collect()
}
