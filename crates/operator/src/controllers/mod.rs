//! The controllers, each a loop of its own. The object is the only channel between them: the
//! recommender writes what should be into its status, the updater carries it out, the
//! admission webhook sizes pods that start. The sentry wakes the recommender up when an
//! objective breaks between two looks.

mod context;
mod countdown;
mod follow;
mod gather;
mod oom_kills;
mod recommender;
mod report;
mod sentry;
mod standing;
mod updater;

pub use context::{Context, Key, Options, now};
pub use follow::{Guarded, follow};
pub use recommender::Recommender;
pub use sentry::stand_sentry;
pub use updater::Updater;
