//! What people read: why an object is as it is, and how it came to be so.

mod explain;
mod words;

pub use explain::{explain, history};
pub use words::{age, json, plain, table};
