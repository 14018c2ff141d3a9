//! In which order requests are served (section 6.3.3).

mod length_distribution;
mod queue;
mod server;

pub use length_distribution::LengthDistribution;
pub use queue::{ModelQueues, QueueOrder, Ticket};
pub use server::{Job, Preemption, serve};
