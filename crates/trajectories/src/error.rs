//! What a store refuses.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::TrajectoryId;

/// Why a store cannot be used, or a transition cannot be stored. A refusal changes nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such file.
    #[error("there is no trajectory store at {}: record into it first, or name another", path.display())]
    Missing {
        /// Which file.
        path: PathBuf,
    },
    /// A file that is no store, or a database of another program.
    #[error("{} is no trajectory store: {found}; name another file", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// What it is.
        found: String,
    },
    /// A store of another version of this program.
    #[error(
        "{} has version {found} of the store, and this program reads version {expected}: use the program \
         that wrote it, or export it there and import it here", path.display()
    )]
    OtherVersion {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The version that this program has.
        expected: i64,
    },
    /// A store whose content is broken.
    #[error("{} is damaged: {reason}; restore it from a copy, or move it away to begin another", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What SQLite found.
        reason: String,
    },
    /// Another process has been writing for longer than a writer waits.
    #[error("another process is writing to {}: wait for it, or stop it first", path.display())]
    Busy {
        /// Which file.
        path: PathBuf,
    },
    /// Any other failure of the file or the disk.
    #[error("cannot use {}: {reason}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// An address that cannot be used.
    #[error("{address} cannot be used as a store: {reason}")]
    Address {
        /// Which address, without its password.
        address: String,
        /// Why not, and the fix.
        reason: String,
    },
    /// A server that does not answer: it may later.
    #[error("{store} does not answer: {reason}")]
    Unreachable {
        /// Its address, without the password.
        store: String,
        /// What happened.
        reason: String,
    },
    /// A server that refuses, or whose content is broken.
    #[error("{store} refuses: {reason}")]
    Server {
        /// Its address, without the password.
        store: String,
        /// What it said.
        reason: String,
    },
    /// A server without trajectories.
    #[error("there is no trajectory store at {store}: record into it first, or name another")]
    EmptyServer {
        /// Its address, without the password.
        store: String,
    },
    /// A store of another version on a server.
    #[error(
        "{store} has version {found} of the store, and this program reads version {expected}: use the program \
         that wrote it, or export it there and import it here"
    )]
    ServerVersion {
        /// Its address, without the password.
        store: String,
        /// Its version.
        found: i64,
        /// The version that this program has.
        expected: i64,
    },
    /// A table that cannot be written.
    #[error("cannot write a Parquet file: {reason}")]
    Parquet {
        /// What is wrong.
        reason: String,
    },
    /// A trajectory that is not in the store.
    #[error("there is no trajectory {id}: `homeostat trajectories list` shows those there are")]
    NoSuchTrajectory {
        /// The number as given.
        id: TrajectoryId,
    },
    /// A trajectory that has ended.
    #[error("trajectory {id} has ended: begin another")]
    Ended {
        /// Its number.
        id: TrajectoryId,
    },
    /// An observation or action of another length than its schema has.
    #[error("{what} has {found} numbers, and its schema {schema} has {expected}")]
    WrongLength {
        /// `an observation` or `an action`.
        what: &'static str,
        /// Numbers given.
        found: usize,
        /// Numbers of the schema.
        expected: usize,
        /// The schema's id.
        schema: String,
    },
    /// A number that is not finite, or a probability that is not above zero.
    #[error("{what} = {value} cannot be stored: it must be {expected}")]
    NotStorable {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        expected: &'static str,
    },
    /// A line of an import that cannot be read.
    #[error("line {line}: {reason}")]
    Line {
        /// Counted from one.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A table needs columns of one kind.
    #[error(
        "the trajectories have different schemas ({first} and {second}), and a CSV table has one: choose by \
         --workload or --policy, or export as jsonl"
    )]
    SeveralSchemas {
        /// One of them.
        first: String,
        /// Another.
        second: String,
    },
    /// A text that cannot be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What an error of SQLite means for a store.
pub(crate) fn at(path: &Path) -> impl Fn(rusqlite::Error) -> Error {
    let path = path.to_owned();
    move |error| {
        let path = path.clone();
        let reason = match &error {
            rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
            other => other.to_string(),
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => {
                Error::Foreign { path, found: "it is no SQLite database".to_owned() }
            }
            Some(ErrorCode::DatabaseCorrupt) => Error::Damaged { path, reason },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Busy { path },
            _ => Error::File { path, reason },
        }
    }
}
