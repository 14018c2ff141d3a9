//! The trajectory store: every decision with its observation, action, reward, behaviour policy and
//! the probability with which that policy chose the action. Offline training, off-policy evaluation
//! and the retraining trigger read it.
//!
//! A store is one SQLite file, or with the feature `servers` a database of PostgreSQL or InfluxDB
//! ([`Store`] is what they have in common). Several processes may read it while one writes. A write transaction
//! is in the file as a whole or not at all, after `kill -9` and after a power cut.
//!
//! A [`Trajectory`] has one workload, one behaviour policy and one schema: where the policy changes,
//! another trajectory begins.
//!
//! Layer 4: files. Times are handed in.
//!
//! ```
//! use homeostat_core::{ActionSchema, ControlSchema, FeatureField, FeatureSchema};
//! use homeostat_trajectories::{End, Filter, Origin, Transition, TrajectoryStore};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! let mut store = TrajectoryStore::open_or_create(&directory.path().join("trajectories.db"))?;
//! let load = FeatureField::new("load", "requests over what pods can serve", (0.0, 2.0));
//! let schema = ControlSchema {
//!     features: FeatureSchema { id: "example/load-v1".into(), features: vec![load], history: 1 },
//!     action: ActionSchema { id: "example/none-v1".into(), parts: vec![] },
//!     bounds: vec![],
//! };
//! let mut writer = store.write()?;
//! let origin = Origin {
//!     workload: "shop/checkout".into(),
//!     policy: "hpa+vpa".into(),
//!     schema,
//!     recorded_ms: 0,
//! };
//! let trajectory = writer.begin(&origin)?;
//! writer.append(trajectory, &Transition {
//!     at_ms: 0,
//!     observation: vec![0.8],
//!     action: vec![],
//!     reward: 0.9,
//!     probability: Some(1.0),
//! })?;
//! writer.end(trajectory, End::Truncated, &[0.7])?;
//! writer.commit()?;
//!
//! let best = store.best(&Filter::default(), 20)?;
//! assert_eq!(best[0].mean_reward(), Some(0.9));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod backend;
mod error;
mod exchange;
mod file;
#[cfg(feature = "parquet")]
mod parquet_file;
mod query;
mod retention;
#[cfg(feature = "servers")]
mod servers;
mod store;
mod trajectory;
mod writer;

pub use backend::{RecordedTrajectory, Store};
pub use error::{Error, Result};
pub use exchange::{
    export_csv, export_records, import_records, import_trajectories, read_trajectories,
};
pub use homeostat_core::trajectory::{End, Origin, Record, Transition};
#[cfg(feature = "parquet")]
pub use parquet_file::export_parquet;
pub use query::{Filter, RecentRewards};
pub use retention::{Pruned, Retention};
#[cfg(feature = "servers")]
pub use servers::{InfluxStore, PostgresStore, open_store};
pub use store::TrajectoryStore;
pub use trajectory::{Trajectory, TrajectoryId};
pub use writer::Writer;
