//! Senders on a network path: a bottleneck with a queue, packets one by one, and the controllers that decide how
//! fast to send.
//!
//! * [`PathConfig`]: bandwidth, delay, queue, loss and jitter of a path; [`Condition`]: ranges from which
//!   paths are drawn, the dissertation's 625 among them.
//! * [`Network`]: flows on one path. A [`Sender`] is a [`CongestionController`] ([`Reno`], [`Cubic`],
//!   [`Vegas`], [`Bbr`]) or a rate that decisions set. Loss detection, round-trip times and pacing are
//!   those of QUIC, the same for every sender.
//! * [`LinkPlant`]: one flow whose rate is decided in every monitor interval; and the environment
//!   `link/rate-v1`.
//!
//! Packets are conserved: each was acknowledged, was lost on the wire, was dropped, or is still on its
//! way.
//!
//! Layer 2: no I/O. Left out: several bottlenecks, loss of acknowledgements, queues on the way back, packets of
//! different sizes, active queue management, and senders without data.
#![forbid(unsafe_code)]

mod conditions;
mod config;
mod controllers;
mod error;
mod flow;
mod interval;
mod link;
mod network;
mod plant;
mod rate_env;
mod simulator;

pub use conditions::{CONDITIONS, Condition, Range};
pub use config::{LinkConfig, Paths};
pub use controllers::{
    Ack, Bbr, CongestionController, Cubic, Loss, Reno, Vegas, controller_by_name, controller_names,
};
pub use error::{Error, Result};
pub use flow::{FlowTotals, Sender};
pub use link::{Bandwidth, PACKET_BITS, PathConfig};
pub use network::Network;
pub use plant::{LinkPlant, rate_bounds};
pub use rate_env::reward;
pub use simulator::{ConfiguredLink, Link, SIMULATOR};
