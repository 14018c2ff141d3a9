//! PostgreSQL: tables in a schema of their own, observations and actions as arrays of numbers, so that
//! SQL can read them.

use homeostat_core::trajectory::End;
use postgres::binary_copy::BinaryCopyInWriter;
use postgres::config::{Host, SslMode};
use postgres::fallible_iterator::FallibleIterator;
use postgres::types::{ToSql, Type};
use postgres::{Client, Config, GenericClient, NoTls, Row};

use super::http::causes;
use super::{is_loopback, without_password};
use crate::{
    Error, Filter, Origin, RecentRewards, RecordedTrajectory, Result, Store, Trajectory,
    TrajectoryId, Transition,
};

/// Any change of the tables increases it.
const VERSION: i32 = 1;

/// A server that does not answer within this time is away.
const CONNECT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// A schema is found by its hash, since its text is too long for an index.
const TABLES: &str = "
CREATE SCHEMA homeostat;
CREATE TABLE homeostat.version (version INTEGER NOT NULL);
CREATE TABLE homeostat.control_schema (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    json TEXT NOT NULL,
    features TEXT NOT NULL,
    action TEXT NOT NULL
);
CREATE UNIQUE INDEX ON homeostat.control_schema (md5(json));
CREATE TABLE homeostat.trajectory (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workload TEXT NOT NULL,
    policy TEXT NOT NULL,
    control_schema BIGINT NOT NULL REFERENCES homeostat.control_schema,
    recorded_ms BIGINT NOT NULL,
    transitions BIGINT NOT NULL,
    reward_sum DOUBLE PRECISION NOT NULL,
    ended TEXT CHECK (ended IN ('terminated', 'truncated')),
    last_observation REAL[]
);
CREATE INDEX ON homeostat.trajectory (workload, id);
CREATE TABLE homeostat.transition (
    trajectory BIGINT NOT NULL REFERENCES homeostat.trajectory ON DELETE CASCADE,
    step INTEGER NOT NULL,
    at_ms BIGINT NOT NULL,
    observation REAL[] NOT NULL,
    action REAL[] NOT NULL,
    reward DOUBLE PRECISION NOT NULL,
    probability DOUBLE PRECISION,
    PRIMARY KEY (trajectory, step)
);";

const TRAJECTORY: &str = "
SELECT t.id, t.workload, t.policy, s.features, s.action, t.recorded_ms, t.transitions, t.reward_sum,
    t.ended
FROM homeostat.trajectory t JOIN homeostat.control_schema s ON s.id = t.control_schema
WHERE ($1::TEXT IS NULL OR t.workload = $1) AND ($2::TEXT IS NULL OR t.policy = $2)";

const FINISHED: &str = "AND t.ended IS NOT NULL AND t.transitions > 0";

/// A trajectory store in a PostgreSQL database.
pub struct PostgresStore {
    config: Config,
    client: Client,
    address: String,
}

impl PostgresStore {
    /// Connects to `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. With `creates`, the tables are made if
    /// they are not there.
    pub fn open(address: &str, creates: bool) -> Result<Self> {
        let shown = without_password(address);
        let refused = |reason: String| Error::Address { address: shown.clone(), reason };
        let mut config: Config =
            address.parse().map_err(|error: postgres::Error| refused(causes(&error)))?;
        let is_remote = |host: &Host| matches!(host, Host::Tcp(name) if !is_loopback(name));
        let is_plain = config.get_ssl_mode() == SslMode::Disable;
        if config.get_hosts().iter().any(is_remote) && !is_plain {
            return Err(refused(
                "connections have no TLS, so that anyone on the way could read the password and the \
                 decisions: use a unix socket or a tunnel, or add ?sslmode=disable if the network is trusted"
                    .to_owned(),
            ));
        }
        config.connect_timeout(CONNECT_TIMEOUT).application_name("homeostat trajectories");
        let client = connect(&config, &shown)?;
        let mut store = Self { config, client, address: shown };
        store.prepare(creates)?;
        Ok(store)
    }

    fn prepare(&mut self, creates: bool) -> Result<()> {
        let failed = failed(&self.address);
        let exists = "SELECT EXISTS (SELECT FROM pg_tables
             WHERE schemaname = 'homeostat' AND tablename = 'version')";
        let is_there: bool = self.client.query_one(exists, &[]).map_err(&failed)?.get(0);
        if !is_there {
            if !creates {
                return Err(Error::EmptyServer { store: self.address.clone() });
            }
            let mut transaction = self.client.transaction().map_err(&failed)?;
            // Another process may do the same.
            transaction
                .execute("SELECT pg_advisory_xact_lock(7310593858)", &[])
                .map_err(&failed)?;
            let is_there: bool = transaction.query_one(exists, &[]).map_err(&failed)?.get(0);
            if !is_there {
                transaction.batch_execute(TABLES).map_err(&failed)?;
                let insert = "INSERT INTO homeostat.version VALUES ($1)";
                transaction.execute(insert, &[&VERSION]).map_err(&failed)?;
            }
            transaction.commit().map_err(&failed)?;
        }
        let version = "SELECT max(version) FROM homeostat.version";
        let found: Option<i32> = self.client.query_one(version, &[]).map_err(&failed)?.get(0);
        match found.unwrap_or(0) {
            VERSION => Ok(()),
            found => Err(Error::ServerVersion {
                store: self.address.clone(),
                found: i64::from(found),
                expected: i64::from(VERSION),
            }),
        }
    }

    /// The client; after the server was away, a new one.
    fn client(&mut self) -> Result<&mut Client> {
        if self.client.is_closed() {
            self.client = connect(&self.config, &self.address)?;
        }
        Ok(&mut self.client)
    }

    fn select(&mut self, filter: &Filter, rest: &str) -> Result<Vec<Trajectory>> {
        let failed = failed(&self.address);
        let sql = format!("{TRAJECTORY} {rest}");
        let parameters: [&(dyn ToSql + Sync); 2] = [&filter.workload, &filter.policy];
        let rows = self.client()?.query(&sql, &parameters).map_err(failed)?;
        Ok(rows.iter().map(trajectory).collect())
    }
}

impl Store for PostgresStore {
    fn list(&mut self, filter: &Filter) -> Result<Vec<Trajectory>> {
        self.select(filter, "ORDER BY t.id")
    }

    fn get(&mut self, id: TrajectoryId) -> Result<Trajectory> {
        let found = self.select(&Filter::default(), &format!("AND t.id = {id}"))?;
        found.into_iter().next().ok_or(Error::NoSuchTrajectory { id })
    }

    fn origin(&mut self, id: TrajectoryId) -> Result<Origin> {
        let (failed, address) = (failed(&self.address), self.address.clone());
        let sql = "SELECT t.workload, t.policy, s.json, t.recorded_ms FROM homeostat.trajectory t
             JOIN homeostat.control_schema s ON s.id = t.control_schema WHERE t.id = $1";
        let found = self.client()?.query_opt(sql, &[&id.0]).map_err(failed)?;
        let row = found.ok_or(Error::NoSuchTrajectory { id })?;
        let json: String = row.get(2);
        let schema = serde_json::from_str(&json).map_err(|error| Error::Server {
            store: address,
            reason: format!("a schema cannot be read ({error})"),
        })?;
        Ok(Origin { workload: row.get(0), policy: row.get(1), schema, recorded_ms: row.get(3) })
    }

    fn transitions(
        &mut self,
        id: TrajectoryId,
        each: &mut dyn FnMut(Transition) -> Result<()>,
    ) -> Result<()> {
        let failed = failed(&self.address);
        let sql = "SELECT at_ms, observation, action, reward, probability FROM homeostat.transition
             WHERE trajectory = $1 ORDER BY step";
        let mut rows = self.client()?.query_raw(sql, [&id.0]).map_err(&failed)?;
        while let Some(row) = rows.next().map_err(&failed)? {
            each(Transition {
                at_ms: row.get(0),
                observation: row.get(1),
                action: row.get(2),
                reward: row.get(3),
                probability: row.get(4),
            })?;
        }
        Ok(())
    }

    fn last_observation(&mut self, id: TrajectoryId) -> Result<Option<Vec<f32>>> {
        let failed = failed(&self.address);
        let sql = "SELECT last_observation FROM homeostat.trajectory WHERE id = $1";
        let found = self.client()?.query_opt(sql, &[&id.0]).map_err(failed)?;
        Ok(found.ok_or(Error::NoSuchTrajectory { id })?.get(0))
    }

    fn best(&mut self, filter: &Filter, count: usize) -> Result<Vec<Trajectory>> {
        let order = format!(
            "{FINISHED} ORDER BY t.reward_sum / t.transitions DESC, t.id DESC LIMIT {count}"
        );
        self.select(filter, &order)
    }

    fn recent_rewards(&mut self, filter: &Filter, count: usize) -> Result<RecentRewards> {
        let latest =
            self.select(filter, &format!("{FINISHED} ORDER BY t.id DESC LIMIT {count}"))?;
        Ok(RecentRewards::of(latest.iter()))
    }

    fn put(&mut self, recorded: &RecordedTrajectory) -> Result<()> {
        recorded.check()?;
        let failed = failed(&self.address);
        let mut transaction = self.client()?.transaction().map_err(&failed)?;
        let RecordedTrajectory { origin, transitions, end } = recorded;
        let schema = schema_id(&mut transaction, origin).map_err(&failed)?;
        let ended = end.as_ref().map(|(how, _)| match how {
            End::Terminated => "terminated",
            End::Truncated => "truncated",
        });
        let last = end.as_ref().map(|(_, observation)| observation);
        let count = transitions.len() as i64;
        let insert =
            "INSERT INTO homeostat.trajectory (workload, policy, control_schema, recorded_ms,
             transitions, reward_sum, ended, last_observation)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id";
        let (workload, policy) = (&origin.workload, &origin.policy);
        let sum = recorded.reward_sum();
        let id: i64 = transaction
            .query_one(
                insert,
                &[workload, policy, &schema, &origin.recorded_ms, &count, &sum, &ended, &last],
            )
            .map_err(&failed)?
            .get(0);
        let copy =
            "COPY homeostat.transition (trajectory, step, at_ms, observation, action, reward,
             probability) FROM STDIN BINARY";
        let (numbers, double) = (Type::FLOAT4_ARRAY, Type::FLOAT8);
        let types =
            [Type::INT8, Type::INT4, Type::INT8, numbers.clone(), numbers, double.clone(), double];
        let writer = transaction.copy_in(copy).map_err(&failed)?;
        let mut writer = BinaryCopyInWriter::new(writer, &types);
        for (step, one) in transitions.iter().enumerate() {
            let step = step as i32;
            let Transition { at_ms, observation, action, reward, probability } = one;
            writer
                .write(&[&id, &step, at_ms, observation, action, reward, probability])
                .map_err(&failed)?;
        }
        writer.finish().map_err(&failed)?;
        transaction.commit().map_err(failed)
    }

    fn delete(&mut self, ids: &[TrajectoryId]) -> Result<()> {
        let failed = failed(&self.address);
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let sql = "DELETE FROM homeostat.trajectory WHERE id = ANY($1)";
        self.client()?.execute(sql, &[&ids]).map_err(failed)?;
        Ok(())
    }
}

fn connect(config: &Config, address: &str) -> Result<Client> {
    config.connect(NoTls).map_err(failed(address))
}

fn schema_id(client: &mut impl GenericClient, origin: &Origin) -> Result<i64, postgres::Error> {
    let json = serde_json::to_string(&origin.schema).expect("a schema is plain data");
    let (features, action) = (&origin.schema.features.id, &origin.schema.action.id);
    let insert = "INSERT INTO homeostat.control_schema (json, features, action) VALUES ($1, $2, $3)
         ON CONFLICT ((md5(json))) DO NOTHING";
    client.execute(insert, &[&json, features, action])?;
    let select = "SELECT id FROM homeostat.control_schema WHERE md5(json) = md5($1)";
    Ok(client.query_one(select, &[&json])?.get(0))
}

fn trajectory(row: &Row) -> Trajectory {
    let ended: Option<String> = row.get(8);
    let transitions: i64 = row.get(6);
    Trajectory {
        id: TrajectoryId(row.get(0)),
        workload: row.get(1),
        policy: row.get(2),
        features: row.get(3),
        action: row.get(4),
        recorded_ms: row.get(5),
        transitions: transitions.max(0) as u64,
        reward_sum: row.get(7),
        end: ended.map(|name| match name.as_str() {
            "terminated" => End::Terminated,
            _ => End::Truncated,
        }),
    }
}

/// What an error means: the server refused something, or it is away.
fn failed(address: &str) -> impl Fn(postgres::Error) -> Error + use<> {
    let store = address.to_owned();
    move |error| {
        let (store, reason) = (store.clone(), causes(&error));
        match error.as_db_error() {
            // It is starting, shutting down, or out of connections.
            Some(refused) if refused.code().code().starts_with("57P0") => {
                Error::Unreachable { store, reason }
            }
            Some(_) => Error::Server { store, reason },
            None => Error::Unreachable { store, reason },
        }
    }
}
