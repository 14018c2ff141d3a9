//! The annotation with which people pause an object. The guards themselves run inside
//! `homeostat_decide::decide`.

mod pause;

pub use homeostat_decide::Pause;
pub use pause::{PAUSE_ANNOTATION, UnknownPause, read_pause};
