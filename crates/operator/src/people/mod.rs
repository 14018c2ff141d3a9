//! What people read: why an object is as it is, and how it came to be so.

mod advice;
mod explain;
mod nearest;
mod replay;
mod words;

pub use advice::{Advised, KnownHpa, advice_json, advice_patches, advice_table};
pub use explain::{explain, history};
pub use nearest::nearest;
pub use replay::{OPEN_LOOP, replay_json, replay_text};
pub use words::{age, json, plain, table};
