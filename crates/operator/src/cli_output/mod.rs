//! Texts for people: explanations, histories and recommendations. Untrusted text is escaped before it
//! is printed.

mod advice;
mod explain;
mod format;
mod nearest;
mod replay;

pub use advice::{Advised, KnownHpa, advice_json, advice_patches, advice_table};
pub use explain::{explain, history};
pub use format::{age, json, plain, table};
pub use nearest::nearest;
pub use replay::{OPEN_LOOP, replay_json, replay_text};
