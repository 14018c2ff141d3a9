//! CUBIC (RFC 9438): the window is a cubic function of the time since the last loss.

use homeostat_core::SimTime;

use super::{Ack, CongestionController, INITIAL_WINDOW, LEAST_WINDOW, Loss};

/// The scaling of the cubic function, packets per cubic second (RFC 9438, 5.1).
const C: f64 = 0.4;

/// What remains of the window after a loss (RFC 9438, 4.6).
const BETA: f64 = 0.7;

/// Packets that a Reno-friendly window grows by in a round trip (RFC 9438, 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// CUBIC.
#[derive(Debug, Clone)]
pub struct Cubic {
    window: f64,
    threshold: f64,
    /// The window at the last loss, less if windows shrink from loss to loss.
    plateau: f64,
    epoch: Option<Epoch>,
}

/// The growth since a loss.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    start: SimTime,
    /// The window at which it stays for a while.
    plateau: f64,
    /// Seconds from the start until the window is at the plateau.
    to_plateau: f64,
    /// The window of a Reno flow with the same losses.
    reno: f64,
}

impl Default for Cubic {
    fn default() -> Self {
        Self { window: INITIAL_WINDOW, threshold: f64::INFINITY, plateau: 0.0, epoch: None }
    }
}

impl CongestionController for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn on_ack(&mut self, ack: &Ack) {
        if (ack.in_flight as f64) < self.window / 2.0 {
            return;
        }
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        let (window, old) = (self.window, self.plateau);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            start: ack.now,
            plateau: old.max(window),
            to_plateau: ((old - window).max(0.0) / C).cbrt(),
            reno: window,
        });
        // Once it has reached the old window, a Reno flow grows by one.
        let alpha = if epoch.reno < old { ALPHA } else { 1.0 };
        epoch.reno += alpha / self.window;
        let since = ack.now.saturating_since(epoch.start) + ack.smoothed_rtt;
        let cubic = C * (since.seconds() - epoch.to_plateau).powi(3) + epoch.plateau;
        let target = cubic.clamp(self.window, 1.5 * self.window);
        self.window += (target - self.window) / self.window;
        self.window = self.window.max(epoch.reno);
    }

    fn on_loss(&mut self, loss: &Loss) {
        if !loss.is_new_episode {
            return;
        }
        // Fast convergence: a flow that shrinks leaves room for new ones.
        let shrinks = self.window < self.plateau;
        self.plateau = if shrinks { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.window = (self.window * BETA).max(LEAST_WINDOW);
        self.threshold = self.window;
        self.epoch = None;
    }

    fn on_timeout(&mut self, _now: SimTime) {
        self.plateau = self.window;
        self.threshold = (self.window * BETA).max(LEAST_WINDOW);
        self.window = LEAST_WINDOW;
        self.epoch = None;
    }

    fn window(&self) -> f64 {
        self.window
    }
}
