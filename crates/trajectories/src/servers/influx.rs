//! InfluxDB, by the line protocol of version 1: a point for each decision, with a field for every feature
//! and action, so that dashboards can read them.
//!
//! A point `trajectory` is written after all its decisions, and only what it names can be read: a
//! trajectory is stored as a whole or not at all. Each has a tag of its own, which is one series: prune a
//! store that is used for months.

use std::hash::{DefaultHasher, Hash, Hasher};

use homeostat_core::ControlSchema;
use homeostat_core::trajectory::End;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::http::HttpClient;
use super::line_protocol::{Field, Lines};
use super::{is_loopback, without_password};
use crate::exchange::{action_names, observation_names};
use crate::{
    Error, Filter, Origin, RecordedTrajectory, Result, Store, Trajectory, TrajectoryId, Transition,
};

/// Any change of the measurements increases it.
const VERSION: i64 = 1;
/// Points in a request.
const BATCH: usize = 5_000;
const NS_PER_MS: i64 = 1_000_000;

/// A trajectory store in a database of InfluxDB.
pub struct InfluxStore {
    http: HttpClient,
    database: String,
    shown: String,
}

impl InfluxStore {
    /// Connects to `influxdb://USER:PASSWORD@HOST:PORT/DATABASE`, or `influxdb+https://`. With `creates`,
    /// the database is made if it is not there.
    pub fn open(address: &str, creates: bool) -> Result<Self> {
        let shown = without_password(address);
        let refused =
            |reason: &str| Error::Address { address: shown.clone(), reason: reason.to_owned() };
        let (scheme, rest) = address.split_once("://").ok_or_else(|| refused("no address"))?;
        let (authority, database) = rest
            .split_once('/')
            .filter(|(_, database)| !database.is_empty() && !database.contains(['/', '?']))
            .ok_or_else(|| refused("use influxdb://HOST:8086/DATABASE"))?;
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let has_tls = scheme == "influxdb+https";
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        if user.is_some() && !has_tls && !is_loopback(name) {
            return Err(refused(
                "anyone on the way could read the password: use influxdb+https://",
            ));
        }
        let base = format!("{}://{host}", if has_tls { "https" } else { "http" });
        if base.parse::<http::Uri>().is_err() {
            return Err(refused("use influxdb://HOST:8086/DATABASE"));
        }
        let authorization = user.map(|user| format!("Basic {}", base64(user.as_bytes())));
        let http = HttpClient::new(base, authorization, &shown);
        let store = Self { http, database: database.to_owned(), shown };
        store.prepare(creates)?;
        Ok(store)
    }

    fn prepare(&self, creates: bool) -> Result<()> {
        let databases = self.query("SHOW DATABASES")?;
        let is_there =
            databases.iter().any(|row| row.get("name") == Some(&Value::from(&*self.database)));
        let is_empty = || Error::EmptyServer { store: self.shown.clone() };
        if !is_there {
            if !creates {
                return Err(is_empty());
            }
            self.query(&format!("CREATE DATABASE {}", identifier(&self.database)))?;
        }
        let found = self.query("SELECT version FROM homeostat_store LIMIT 1")?;
        match found.first().map(|row| integer(row, "version")) {
            Some(VERSION) => Ok(()),
            Some(found) => {
                Err(Error::ServerVersion { store: self.shown.clone(), found, expected: VERSION })
            }
            None if !creates => Err(is_empty()),
            None => {
                let mut lines = Lines::default();
                lines.point("homeostat_store", &[]);
                lines.field("version", &Field::Integer(VERSION));
                lines.at(0);
                self.write(&mut lines)
            }
        }
    }

    fn write(&self, lines: &mut Lines) -> Result<()> {
        let path = format!("/write?precision=ns&db={}", percent(&self.database));
        self.http.post(&path, lines.take()).map(|_| ())
    }

    /// The rows of the one statement, by column.
    fn query(&self, statement: &str) -> Result<Vec<Map<String, Value>>> {
        let path = format!("/query?epoch=ns&db={}", percent(&self.database));
        let answer = self.http.post(&path, format!("q={}", percent(statement)).into_bytes())?;
        let failed = |reason: String| Error::Server { store: self.shown.clone(), reason };
        let answer: Answer = serde_json::from_slice(&answer)
            .map_err(|error| failed(format!("its answer is not one of InfluxDB: {error}")))?;
        let mut rows = Vec::new();
        for result in answer.results {
            if let Some(error) = result.error {
                return Err(failed(error));
            }
            for series in result.series {
                for values in series.values {
                    rows.push(series.columns.iter().cloned().zip(values).collect());
                }
            }
        }
        Ok(rows)
    }

    /// The rows of trajectories, those of the condition.
    fn rows(&self, condition: &str) -> Result<Vec<(Trajectory, Map<String, Value>)>> {
        let rows = self.query(&format!("SELECT * FROM trajectory {condition}"))?;
        let mut found = rows
            .into_iter()
            .map(|row| Ok((self.trajectory(&row)?, row)))
            .collect::<Result<Vec<_>>>()?;
        found.sort_by_key(|(trajectory, _)| trajectory.id);
        Ok(found)
    }

    fn row(&self, id: TrajectoryId) -> Result<Map<String, Value>> {
        let found = self.rows(&format!("WHERE trajectory = '{id}'"))?;
        let (_, row) = found.into_iter().next().ok_or(Error::NoSuchTrajectory { id })?;
        Ok(row)
    }

    fn trajectory(&self, row: &Map<String, Value>) -> Result<Trajectory> {
        let schema = self.schema(row)?;
        let id = text(row, "trajectory").parse().unwrap_or_default();
        Ok(Trajectory {
            id: TrajectoryId(id),
            workload: text(row, "workload_name"),
            policy: text(row, "policy_name"),
            features: schema.features.id,
            action: schema.action.id,
            recorded_ms: integer(row, "recorded_ms"),
            transitions: integer(row, "transitions").max(0) as u64,
            reward_sum: float(row, "reward_sum").unwrap_or_default(),
            end: end(row),
        })
    }

    fn schema(&self, row: &Map<String, Value>) -> Result<ControlSchema> {
        serde_json::from_str(&text(row, "schema")).map_err(|error| Error::Server {
            store: self.shown.clone(),
            reason: format!("a schema cannot be read ({error})"),
        })
    }
}

impl Store for InfluxStore {
    fn list(&mut self, filter: &Filter) -> Result<Vec<Trajectory>> {
        let all = self.rows("")?.into_iter().map(|(trajectory, _)| trajectory);
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        let is_selected = |one: &Trajectory| {
            is(&filter.workload, &one.workload) && is(&filter.policy, &one.policy)
        };
        Ok(all.filter(is_selected).collect())
    }

    fn get(&mut self, id: TrajectoryId) -> Result<Trajectory> {
        self.trajectory(&self.row(id)?)
    }

    fn origin(&mut self, id: TrajectoryId) -> Result<Origin> {
        let row = self.row(id)?;
        Ok(Origin {
            workload: text(&row, "workload_name"),
            policy: text(&row, "policy_name"),
            schema: self.schema(&row)?,
            recorded_ms: integer(&row, "recorded_ms"),
        })
    }

    fn transitions(
        &mut self,
        id: TrajectoryId,
        each: &mut dyn FnMut(Transition) -> Result<()>,
    ) -> Result<()> {
        let schema = self.schema(&self.row(id)?)?;
        let (observed, acted) = (observation_names(&schema), action_names(&schema));
        let mut rows = self.query(&format!("SELECT * FROM decision WHERE trajectory = '{id}'"))?;
        rows.sort_by_key(|row| integer(row, "step"));
        for row in rows {
            let numbers = |prefix: &str, names: &[String]| {
                let number = |name: &String| float(&row, &format!("{prefix}.{name}"));
                names
                    .iter()
                    .map(|name| number(name).map(|value| value as f32))
                    .collect::<Option<_>>()
            };
            let damaged = || Error::Server {
                store: self.shown.clone(),
                reason: format!("a decision of trajectory {id} is incomplete"),
            };
            each(Transition {
                at_ms: integer(&row, "at_ms"),
                observation: numbers("observation", &observed).ok_or_else(damaged)?,
                action: numbers("action", &acted).ok_or_else(damaged)?,
                reward: float(&row, "reward").ok_or_else(damaged)?,
                probability: float(&row, "probability"),
            })?;
        }
        Ok(())
    }

    fn last_observation(&mut self, id: TrajectoryId) -> Result<Option<Vec<f32>>> {
        let row = self.row(id)?;
        if end(&row).is_none() {
            return Ok(None);
        }
        let numbers = serde_json::from_str(&text(&row, "last_observation"));
        numbers.map(Some).map_err(|error| Error::Server {
            store: self.shown.clone(),
            reason: format!("the last observation of trajectory {id} cannot be read ({error})"),
        })
    }

    fn put(&mut self, recorded: &RecordedTrajectory) -> Result<()> {
        recorded.check()?;
        let RecordedTrajectory { origin, transitions, end } = recorded;
        let id = id_of(recorded).to_string();
        let tags =
            [("policy", &origin.policy[..]), ("trajectory", &id), ("workload", &origin.workload)];
        let (observed, acted) = (observation_names(&origin.schema), action_names(&origin.schema));
        let mut lines = Lines::default();
        for (step, one) in transitions.iter().enumerate() {
            lines.point("decision", &tags);
            for (prefix, names, numbers) in
                [("observation", &observed, &one.observation), ("action", &acted, &one.action)]
            {
                for (name, number) in names.iter().zip(numbers) {
                    lines.field(&format!("{prefix}.{name}"), &Field::Float(f64::from(*number)));
                }
            }
            lines.field("step", &Field::Integer(step as i64));
            lines.field("at_ms", &Field::Integer(one.at_ms));
            lines.field("reward", &Field::Float(one.reward));
            if let Some(probability) = one.probability {
                lines.field("probability", &Field::Float(probability));
            }
            // Two decisions of one millisecond are two points.
            lines.at(one.at_ms * NS_PER_MS + step as i64 % NS_PER_MS);
            if lines.points() >= BATCH {
                self.write(&mut lines)?;
            }
        }
        if lines.points() > 0 {
            self.write(&mut lines)?;
        }
        let schema = serde_json::to_string(&origin.schema).expect("a schema is plain data");
        lines.point("trajectory", &tags);
        // Tags have no line ends and no backslash; fields have.
        lines.field("workload_name", &Field::Text(&origin.workload));
        lines.field("policy_name", &Field::Text(&origin.policy));
        lines.field("schema", &Field::Text(&schema));
        lines.field("recorded_ms", &Field::Integer(origin.recorded_ms));
        lines.field("transitions", &Field::Integer(transitions.len() as i64));
        lines.field("reward_sum", &Field::Float(recorded.reward_sum()));
        if let Some((how, observation)) = end {
            let how = match how {
                End::Terminated => "terminated",
                End::Truncated => "truncated",
            };
            let last = serde_json::to_string(observation).expect("finite numbers");
            lines.field("ended", &Field::Text(how));
            lines.field("last_observation", &Field::Text(&last));
        }
        lines.at(origin.recorded_ms * NS_PER_MS);
        self.write(&mut lines)
    }

    fn delete(&mut self, ids: &[TrajectoryId]) -> Result<()> {
        for id in ids {
            // First what names the decisions: what is left behind after a failure cannot be read.
            for measurement in ["trajectory", "decision"] {
                self.query(&format!("DROP SERIES FROM {measurement} WHERE trajectory = '{id}'"))?;
            }
        }
        Ok(())
    }
}

/// The number of a trajectory: its time, then its content, so that the same one written twice is one.
fn id_of(recorded: &RecordedTrajectory) -> i64 {
    let mut hasher = DefaultHasher::new();
    (&recorded.origin.workload, &recorded.origin.policy).hash(&mut hasher);
    for one in &recorded.transitions {
        (one.at_ms, one.reward.to_bits()).hash(&mut hasher);
        one.observation.iter().chain(&one.action).for_each(|n| n.to_bits().hash(&mut hasher));
    }
    recorded.origin.recorded_ms * NS_PER_MS + (hasher.finish() % NS_PER_MS as u64) as i64
}

fn end(row: &Map<String, Value>) -> Option<End> {
    match row.get("ended").and_then(Value::as_str) {
        Some("terminated") => Some(End::Terminated),
        Some(_) => Some(End::Truncated),
        None => None,
    }
}

fn text(row: &Map<String, Value>, column: &str) -> String {
    row.get(column).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn integer(row: &Map<String, Value>, column: &str) -> i64 {
    row.get(column).and_then(Value::as_i64).unwrap_or_default()
}

fn float(row: &Map<String, Value>, column: &str) -> Option<f64> {
    row.get(column).and_then(Value::as_f64)
}

/// A name in a statement.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

fn percent(text: &str) -> String {
    let escaped = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(escaped).collect()
}

/// User and password, as HTTP's basic authentication has them.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number = three.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte))
            << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    results: Vec<Statement>,
}

#[derive(Deserialize)]
struct Statement {
    #[serde(default)]
    series: Vec<Series>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Series {
    columns: Vec<String>,
    #[serde(default)]
    values: Vec<Vec<Value>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_authentication_is_encoded_as_in_rfc_7617() {
        for (text, expect) in [
            ("Aladdin:open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            ("a", "YQ=="),
            ("abc", "YWJj"),
        ] {
            assert_eq!(base64(text.as_bytes()), expect);
        }
    }

    #[test]
    fn an_address_that_would_show_a_password_is_refused() {
        let refused = |address: &str| InfluxStore::open(address, true).err().expect("refused");
        let told = refused("influxdb://me:secret@db.example:8086/rl").to_string();
        assert!(told.contains("use influxdb+https://") && !told.contains("secret"), "{told}");
        let told = refused("influxdb://127.0.0.1:8086").to_string();
        assert!(told.contains("influxdb://HOST:8086/DATABASE"), "{told}");
    }
}
