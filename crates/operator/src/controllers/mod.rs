//! The controllers. Each is a task of its own, and the object is the only channel between them:
//! the recommender writes recommendations into its status, the updater applies them to the workload,
//! and the admission webhook applies them to new pods. The SLO watcher triggers the recommender
//! when an SLO is violated between two resyncs.

mod context;
mod countdown;
mod measurements;
mod recommender;
mod resolved_target;
mod slo_watcher;
mod updater;
mod watch;

pub use context::{Caches, Context, ContextConfig, Key, Options, now};
pub use recommender::Recommender;
pub(crate) use slo_watcher::slo_watcher_deadline;
pub use slo_watcher::watch_slos;
pub(crate) use updater::UPDATER_DEADLINE;
pub use updater::Updater;
pub use watch::{Guarded, ObjectWatch, watch_pods};
pub(crate) use watch::{WATCH_DEADLINE, all_of};
