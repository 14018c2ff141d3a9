//! Packets per second of the simulator of network paths.

use std::time::Instant;

use homeostat_core::{SeedTree, SimDuration, SimTime};
use homeostat_decide::BitsPerSecond;
use homeostat_lab::Result;
use homeostat_sim_link::{Network, PathConfig, Sender, controller_by_name};
use serde::Serialize;

use super::sim::best_of;

/// Packets sent, each with its acknowledgement, on a path of 100 Mbit/s and 40 ms that loses one in a thousand.
#[derive(Debug, Clone, Serialize)]
pub struct LinkSpeeds {
    /// Of one sender at a rate.
    pub rate: f64,
    /// Of one CUBIC flow.
    pub cubic: f64,
    /// Of 32 flows of all controllers.
    pub shared: f64,
}

impl LinkSpeeds {
    /// The best of three tries, each of some seconds of simulated time.
    pub(super) fn measure(seconds: u64) -> Result<Self> {
        let mixed: Vec<_> = ["cubic", "bbr", "reno", "vegas"].repeat(8);
        Ok(Self {
            rate: best_of(3, || packets(&[], seconds))?,
            cubic: best_of(3, || packets(&["cubic"], seconds))?,
            shared: best_of(3, || packets(&mixed, seconds))?,
        })
    }
}

/// Without a controller there is one sender at nine tenths of the bandwidth.
fn packets(controllers: &[&str], seconds: u64) -> Result<f64> {
    let refused = |error: homeostat_sim_link::Error| homeostat_env::Error::from(error);
    let bandwidth = BitsPerSecond(100_000_000);
    let clean = PathConfig::clean(bandwidth, SimDuration::from_millis(20));
    let path = PathConfig { loss: 1e-3, ..clean };
    let mut network = Network::new(path, &SeedTree::new(1)).map_err(refused)?;
    for name in controllers {
        network.add(Sender::Controlled(controller_by_name(name).map_err(refused)?));
    }
    if controllers.is_empty() {
        network.add(Sender::Rate(BitsPerSecond(bandwidth.0 / 10 * 9)));
    }
    let start = Instant::now();
    network.advance(SimTime::ZERO + SimDuration::from_secs(seconds));
    let sent: u64 = (0..controllers.len().max(1)).map(|flow| network.totals(flow).sent).sum();
    Ok(sent as f64 / start.elapsed().as_secs_f64())
}
