//! A write transaction.

use std::collections::BTreeMap;
use std::path::Path;

use homeostat_core::ControlSchema;
use rusqlite::{OptionalExtension, Transaction, params};

use crate::error::at;
use crate::{End, Error, Origin, Result, TrajectoryId, Transition};

/// A write transaction: [`Writer::commit`] stores all of it, and dropping it none of it.
#[derive(Debug)]
pub struct Writer<'store> {
    transaction: Transaction<'store>,
    path: &'store Path,
    open: BTreeMap<TrajectoryId, Open>,
    /// Floats of the last observation and action as bytes, kept for their memory.
    bytes: [Vec<u8>; 2],
}

/// A trajectory that this transaction appends to.
#[derive(Debug)]
struct Open {
    features: Width,
    action: Width,
    transitions: i64,
    reward_sum: f64,
}

#[derive(Debug)]
struct Width {
    schema: String,
    numbers: usize,
}

impl<'store> Writer<'store> {
    pub(crate) fn new(transaction: Transaction<'store>, path: &'store Path) -> Self {
        Self { transaction, path, open: BTreeMap::new(), bytes: [Vec::new(), Vec::new()] }
    }

    /// Begins a trajectory.
    pub fn begin(&mut self, origin: &Origin) -> Result<TrajectoryId> {
        let failed = at(self.path);
        let workload = self.named("workload", &origin.workload)?;
        let policy = self.named("policy", &origin.policy)?;
        let json = serde_json::to_string(&origin.schema)
            .expect("a schema has string keys and can be written");
        let (features, action) = (&origin.schema.features.id, &origin.schema.action.id);
        self.transaction
            .execute(
                "INSERT OR IGNORE INTO control_schema (json, features, action) VALUES (?1, ?2, ?3)",
                params![json, features, action],
            )
            .map_err(&failed)?;
        self.transaction
            .execute(
                "INSERT INTO trajectory
                 (workload, policy, control_schema, recorded_ms, transitions, reward_sum)
                 SELECT ?1, ?2, id, ?3, 0, 0.0 FROM control_schema WHERE json = ?4",
                params![workload, policy, origin.recorded_ms, json],
            )
            .map_err(&failed)?;
        let id = TrajectoryId(self.transaction.last_insert_rowid());
        self.open.insert(id, Open::new(&origin.schema, 0, 0.0));
        Ok(id)
    }

    /// Appends to a trajectory that has not ended, also to one of an earlier transaction.
    pub fn append(&mut self, id: TrajectoryId, transition: &Transition) -> Result<()> {
        if !self.open.contains_key(&id) {
            let open = self.resume(id)?;
            self.open.insert(id, open);
        }
        let open = self.open.get_mut(&id).expect("it has just been opened");
        open.features.check("an observation", &transition.observation)?;
        open.action.check("an action", &transition.action)?;
        check_finite("a reward", transition.reward)?;
        let probability = transition.probability.unwrap_or(1.0);
        if !(probability > 0.0 && probability.is_finite()) {
            let expected = "above zero and finite";
            return Err(Error::NotStorable { what: "a probability", value: probability, expected });
        }
        let [observation, action] = &mut self.bytes;
        write_floats(observation, &transition.observation);
        write_floats(action, &transition.action);
        let mut statement = self
            .transaction
            .prepare_cached("INSERT INTO transition VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")
            .map_err(at(self.path))?;
        let row = params![
            id.0,
            open.transitions,
            transition.at_ms,
            &*observation,
            &*action,
            transition.reward,
            transition.probability,
        ];
        statement.execute(row).map_err(at(self.path))?;
        open.transitions += 1;
        open.reward_sum += transition.reward;
        Ok(())
    }

    /// Ends a trajectory, with what was observed after its last transition.
    pub fn end(&mut self, id: TrajectoryId, end: End, last_observation: &[f32]) -> Result<()> {
        let open = match self.open.remove(&id) {
            Some(open) => open,
            None => self.resume(id)?,
        };
        if let Err(refused) = open.features.check("an observation", last_observation) {
            self.open.insert(id, open);
            return Err(refused);
        }
        let name = match end {
            End::Terminated => "terminated",
            End::Truncated => "truncated",
        };
        write_floats(&mut self.bytes[0], last_observation);
        self.store_sums(id, &open)?;
        self.transaction
            .execute(
                "UPDATE trajectory SET ended = ?2, last_observation = ?3 WHERE id = ?1",
                params![id.0, name, self.bytes[0]],
            )
            .map_err(at(self.path))?;
        Ok(())
    }

    /// Stores everything since the beginning of the transaction. On the disk when it returns.
    pub fn commit(mut self) -> Result<()> {
        for (id, open) in std::mem::take(&mut self.open) {
            self.store_sums(id, &open)?;
        }
        self.transaction.commit().map_err(at(self.path))
    }

    fn store_sums(&self, id: TrajectoryId, open: &Open) -> Result<()> {
        let sql = "UPDATE trajectory SET transitions = ?2, reward_sum = ?3 WHERE id = ?1";
        let mut statement = self.transaction.prepare_cached(sql).map_err(at(self.path))?;
        let row = params![id.0, open.transitions, open.reward_sum];
        statement.execute(row).map_err(at(self.path))?;
        Ok(())
    }

    /// A trajectory of an earlier transaction.
    fn resume(&self, id: TrajectoryId) -> Result<Open> {
        let sql = "SELECT s.json, t.transitions, t.reward_sum, t.ended FROM trajectory t
             JOIN control_schema s ON s.id = t.control_schema WHERE t.id = ?1";
        let found = self.transaction.query_row(sql, [id.0], |row| {
            let ended: Option<String> = row.get(3)?;
            Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, ended.is_some()))
        });
        let found = found.optional().map_err(at(self.path))?;
        let (json, transitions, reward_sum, has_ended) =
            found.ok_or(Error::NoSuchTrajectory { id })?;
        if has_ended {
            return Err(Error::Ended { id });
        }
        let schema: ControlSchema = serde_json::from_str(&json).map_err(|error| {
            let reason = format!("a schema cannot be read ({error})");
            Error::Damaged { path: self.path.to_owned(), reason }
        })?;
        Ok(Open::new(&schema, transitions, reward_sum))
    }

    /// The number of a name in a table of names.
    fn named(&self, table: &str, name: &str) -> Result<i64> {
        let failed = at(self.path);
        let insert = format!("INSERT OR IGNORE INTO {table} (name) VALUES (?1)");
        self.transaction.execute(&insert, [name]).map_err(&failed)?;
        let select = format!("SELECT id FROM {table} WHERE name = ?1");
        self.transaction.query_row(&select, [name], |row| row.get(0)).map_err(&failed)
    }
}

impl Open {
    fn new(schema: &ControlSchema, transitions: i64, reward_sum: f64) -> Self {
        let features = Width {
            schema: schema.features.id.clone(),
            numbers: schema.features.features.len() * schema.features.history.max(1),
        };
        let action = Width { schema: schema.action.id.clone(), numbers: schema.action.parts.len() };
        Self { features, action, transitions, reward_sum }
    }
}

impl Width {
    fn check(&self, what: &'static str, numbers: &[f32]) -> Result<()> {
        if numbers.len() != self.numbers {
            return Err(Error::WrongLength {
                what,
                found: numbers.len(),
                expected: self.numbers,
                schema: self.schema.clone(),
            });
        }
        numbers.iter().try_for_each(|number| check_finite(what, f64::from(*number)))
    }
}

fn check_finite(what: &'static str, value: f64) -> Result<()> {
    let expected = "finite";
    if value.is_finite() { Ok(()) } else { Err(Error::NotStorable { what, value, expected }) }
}

fn write_floats(bytes: &mut Vec<u8>, numbers: &[f32]) {
    bytes.clear();
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
}
