//! NewReno (RFC 9002, appendix B): one packet more in each round trip, half of the window after a loss.

use homeostat_core::SimTime;

use super::{Ack, CongestionController, INITIAL_WINDOW, LEAST_WINDOW, Loss};

/// NewReno.
#[derive(Debug, Clone)]
pub struct Reno {
    window: f64,
    threshold: f64,
}

impl Default for Reno {
    fn default() -> Self {
        Self { window: INITIAL_WINDOW, threshold: f64::INFINITY }
    }
}

impl CongestionController for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn on_ack(&mut self, ack: &Ack) {
        // A window that is not used must not grow.
        if (ack.in_flight as f64) < self.window / 2.0 {
            return;
        }
        self.window += if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
    }

    fn on_loss(&mut self, loss: &Loss) {
        if loss.is_new_episode {
            self.window = (self.window / 2.0).max(LEAST_WINDOW);
            self.threshold = self.window;
        }
    }

    fn on_timeout(&mut self, _now: SimTime) {
        self.threshold = (self.window / 2.0).max(LEAST_WINDOW);
        self.window = LEAST_WINDOW;
    }

    fn window(&self) -> f64 {
        self.window
    }
}
