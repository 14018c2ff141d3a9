//! In which order requests are served (section 6.3.3).

mod deadline_guard;
mod fcfs_shadow;
mod length_distribution;
mod preemptive_order;
mod queue;
mod server;

pub use deadline_guard::DeadlineGuard;
pub use fcfs_shadow::FcfsShadow;
pub use length_distribution::LengthDistribution;
pub use preemptive_order::{Expectation, PreemptiveOrder};
pub use queue::{ModelQueues, QueueOrder, Ticket};
pub use server::{Job, Preemption, serve, serve_guarded};
