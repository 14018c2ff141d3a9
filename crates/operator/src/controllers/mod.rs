//! The controllers, each a loop of its own. The object is the only channel between them: the
//! recommender writes what should be into its status, the updater carries it out, the
//! admission webhook sizes pods that start.

mod context;
mod follow;
mod gather;
mod recommender;
mod report;
mod standing;
mod updater;

pub use context::{Context, Key, Options, now};
pub use follow::{Guarded, follow};
pub use recommender::Recommender;
pub use updater::Updater;
