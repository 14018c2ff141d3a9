//! Vegas (Brakmo and Peterson, 1995): keeps two to four packets of its own in the queue.

use homeostat_core::{SimDuration, SimTime};

use super::{Ack, CongestionController, INITIAL_WINDOW, LEAST_WINDOW, Loss};

/// Packets in the queue below which the window grows.
const ALPHA: f64 = 2.0;

/// Packets in the queue above which the window shrinks.
const BETA: f64 = 4.0;

/// Packets in the queue that end slow start.
const GAMMA: f64 = 1.0;

/// Vegas.
#[derive(Debug, Clone)]
pub struct Vegas {
    window: f64,
    is_slow_start: bool,
    base_rtt: Option<SimDuration>,
    /// The least round-trip time of this round: delays of single packets do not count.
    round_rtt: Option<SimDuration>,
    /// The round ends with the acknowledgement of a packet that was sent after this one arrived.
    round_ends: u64,
    /// In slow start, the window grows in every other round.
    grows: bool,
}

impl Default for Vegas {
    fn default() -> Self {
        Self {
            window: INITIAL_WINDOW,
            is_slow_start: true,
            base_rtt: None,
            round_rtt: None,
            round_ends: 0,
            grows: true,
        }
    }
}

impl CongestionController for Vegas {
    fn name(&self) -> &'static str {
        "vegas"
    }

    fn on_ack(&mut self, ack: &Ack) {
        let least = |known: Option<SimDuration>| known.map_or(ack.rtt, |rtt| rtt.min(ack.rtt));
        let base = least(self.base_rtt);
        let round = least(self.round_rtt);
        (self.base_rtt, self.round_rtt) = (Some(base), Some(round));
        let is_used = ack.in_flight as f64 >= self.window / 2.0;
        if self.is_slow_start && self.grows && is_used {
            self.window += 1.0;
        }
        if ack.delivered_when_sent < self.round_ends {
            return;
        }
        self.round_ends = ack.delivered;
        self.round_rtt = None;
        let queued = self.window * (1.0 - base.seconds() / round.seconds());
        if self.is_slow_start {
            self.grows = !self.grows;
            if queued > GAMMA {
                self.is_slow_start = false;
                self.window = (self.window - queued).max(LEAST_WINDOW);
            }
        } else if queued > BETA {
            self.window = (self.window - 1.0).max(LEAST_WINDOW);
        } else if queued < ALPHA && is_used {
            self.window += 1.0;
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        if loss.is_new_episode {
            self.is_slow_start = false;
            self.window = (self.window * 0.75).max(LEAST_WINDOW);
        }
    }

    fn on_timeout(&mut self, _now: SimTime) {
        self.window = LEAST_WINDOW;
        self.is_slow_start = true;
        self.grows = true;
    }

    fn window(&self) -> f64 {
        self.window
    }
}
