//! The file of a store: opening it, and telling it from other files.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::error::at;
use crate::{Error, Result};

/// Marks databases of this program: "HmTr".
const APPLICATION_ID: i64 = 0x486d_5472;

/// Any change of the tables increases it.
const VERSION: i64 = 1;

/// How long a writer waits for another.
const PATIENCE: Duration = Duration::from_secs(10);

/// Numbers of observations and actions are 32-bit floats, little-endian. The sums of a trajectory are
/// kept beside it, so that the queries for the best and the latest ones read no transitions.
const TABLES: &str = "
CREATE TABLE workload (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE policy (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE control_schema (
    id INTEGER PRIMARY KEY,
    json TEXT NOT NULL UNIQUE,
    features TEXT NOT NULL,
    action TEXT NOT NULL
) STRICT;
CREATE TABLE trajectory (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workload INTEGER NOT NULL REFERENCES workload,
    policy INTEGER NOT NULL REFERENCES policy,
    control_schema INTEGER NOT NULL REFERENCES control_schema,
    recorded_ms INTEGER NOT NULL,
    transitions INTEGER NOT NULL,
    reward_sum REAL NOT NULL,
    ended TEXT CHECK (ended IN ('terminated', 'truncated')),
    last_observation BLOB
) STRICT;
CREATE INDEX trajectory_of_workload ON trajectory (workload, id);
CREATE TABLE transition (
    trajectory INTEGER NOT NULL REFERENCES trajectory ON DELETE CASCADE,
    step INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    observation BLOB NOT NULL,
    action BLOB NOT NULL,
    reward REAL NOT NULL,
    probability REAL,
    PRIMARY KEY (trajectory, step)
) STRICT, WITHOUT ROWID;
";

/// Opens a store that exists.
pub(crate) fn open(path: &Path) -> Result<Connection> {
    if !path.exists() {
        return Err(Error::Missing { path: path.to_owned() });
    }
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    check_kind(&connection, path)?;
    Ok(connection)
}

/// Opens a store, or makes one where no file or an empty one is.
pub(crate) fn open_or_create(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = connect(path, flags)?;
    if is_blank(&connection).map_err(at(path))? {
        create(&mut connection).map_err(at(path))?;
    }
    check_kind(&connection, path)?;
    // Readers do not wait for a writer, and a commit is on the disk when it returns.
    connection.pragma_update(None, "journal_mode", "wal").map_err(at(path))?;
    Ok(connection)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "synchronous", "full")?;
        Ok(connection)
    };
    open().map_err(at(path))
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}

/// Whether a database has nothing in it: one that was just made, or whose process died then.
fn is_blank(connection: &Connection) -> rusqlite::Result<bool> {
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(tables == 0 && number(connection, "application_id")? == 0)
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    // Before the first table: pruning gives pages back to the file system.
    connection.pragma_update(None, "auto_vacuum", "incremental")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    if is_blank(&transaction)? {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

fn check_kind(connection: &Connection, path: &Path) -> Result<()> {
    let owner = number(connection, "application_id").map_err(at(path))?;
    let found = number(connection, "user_version").map_err(at(path))?;
    if owner != APPLICATION_ID {
        let found = match is_blank(connection).map_err(at(path))? {
            true => "it is empty",
            false => "it is a database of another program",
        };
        return Err(Error::Foreign { path: path.to_owned(), found: found.to_owned() });
    }
    if found != VERSION {
        return Err(Error::OtherVersion { path: path.to_owned(), found, expected: VERSION });
    }
    Ok(())
}
