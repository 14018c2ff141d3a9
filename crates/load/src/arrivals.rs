//! Arrival processes.
//!
//! Most shapes have a piecewise constant rate. Inside a segment the gap to the next request is
//! exponential; a gap that would leave the segment is cut at its end and drawn again there, which
//! is exact because exponential gaps are memoryless. A sinusoidal rate is sampled at its maximum
//! and thinned.

use homeostat_core::{Persist, SimDuration, SimTime, Snapshot, Stream};

use crate::{LoadShape, Result};

/// An arrival process.
#[derive(Debug, Clone)]
pub struct Arrivals {
    shape: LoadShape,
    rng: Stream,
    now: SimTime,
    /// Rate of the present segment, requests per second.
    rate: f64,
    /// When the present segment ends; none for never.
    stretch_end: Option<SimTime>,
    /// State of the shape: the index of the segment, or the logarithm of the autoregressive rate.
    stretches: u64,
    wander: f64,
}

impl Arrivals {
    /// The process from time zero.
    pub fn new(shape: &LoadShape, rng: Stream) -> Result<Self> {
        shape.validate()?;
        let mut this = Self {
            shape: shape.clone(),
            rng,
            now: SimTime::ZERO,
            rate: 0.0,
            stretch_end: None,
            stretches: 0,
            wander: 0.0,
        };
        this.begin_stretch();
        Ok(this)
    }

    /// The next arrival; none if there are no more.
    pub fn next_arrival(&mut self) -> Option<SimTime> {
        loop {
            if self.rate <= 0.0 {
                // A silent stretch: wait for its end, if it has one.
                self.now = self.stretch_end?;
                self.begin_stretch();
                continue;
            }
            let gap = match self.shape {
                LoadShape::Flat { .. } => 1.0 / self.rate,
                _ => self.exponential(1.0 / self.rate),
            };
            let candidate = self.now + duration(gap);
            if let Some(end) = self.stretch_end.filter(|end| candidate >= *end) {
                self.now = end;
                self.begin_stretch();
                continue;
            }
            self.now = candidate;
            if self.is_kept() {
                return Some(candidate);
            }
        }
    }

    /// The present rate. Controllers do not know it.
    pub fn rate_per_second(&self) -> f64 {
        match &self.shape {
            LoadShape::Diurnal { per_second, .. } => per_second * self.swing_factor(),
            _ => self.rate,
        }
    }

    /// Draws the rate and the end of the segment that begins now.
    fn begin_stretch(&mut self) {
        let number = self.stretches;
        self.stretches += 1;
        match self.shape {
            LoadShape::Poisson { per_second } | LoadShape::Flat { per_second } => {
                self.rate = per_second
            }
            LoadShape::Diurnal { per_second, swing, .. } => self.rate = per_second * (1.0 + swing),
            LoadShape::Fluctuating { per_second, spread, persistence, every_s } => {
                // The first draw is from the distribution that the walk keeps.
                let fresh =
                    if number == 0 { 1.0 } else { (1.0 - persistence * persistence).sqrt() };
                self.wander = persistence * self.wander + fresh * spread * self.rng.normal();
                // The mean of the exponential of a normal number is above one by half its variance.
                self.rate = per_second * (self.wander - 0.5 * spread * spread).exp();
                self.stretch_end = Some(self.now + duration(every_s));
            }
            LoadShape::Bursty { calm_per_second, burst_per_second, calm_s, burst_s } => {
                let is_calm = number.is_multiple_of(2);
                self.rate = if is_calm { calm_per_second } else { burst_per_second };
                let length = self.exponential(if is_calm { calm_s } else { burst_s });
                self.stretch_end = Some(self.now + duration(length));
            }
            LoadShape::Spike { base_per_second, peak_per_second, start_s, length_s } => {
                let (start, end) = (instant(start_s), instant(start_s + length_s));
                let is_inside = start <= self.now && self.now < end;
                self.rate = if is_inside { peak_per_second } else { base_per_second };
                self.stretch_end = [start, end].into_iter().find(|edge| *edge > self.now);
            }
            LoadShape::Steps(ref levels) => {
                // A search instead of a remembered place: there is nothing to restore.
                let begun = levels.partition_point(|level| instant(level.start_s) <= self.now);
                let present = begun.checked_sub(1).map(|last| levels[last]);
                self.rate = present.map_or(0.0, |level| level.per_second);
                self.stretch_end = levels.get(begun).map(|level| instant(level.start_s));
            }
        }
    }

    /// Thinning: whether a request sampled at the maximum rate is kept at the present one.
    fn is_kept(&mut self) -> bool {
        match self.shape {
            LoadShape::Diurnal { swing, .. } => {
                self.rng.uniform() * (1.0 + swing) < self.swing_factor()
            }
            _ => true,
        }
    }

    fn swing_factor(&self) -> f64 {
        match self.shape {
            LoadShape::Diurnal { swing, period_s, .. } => {
                1.0 + swing * (std::f64::consts::TAU * self.now.seconds() / period_s).sin()
            }
            _ => 1.0,
        }
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.rng.uniform()).ln()
    }
}

/// Seconds as simulated time; at least a nanosecond, so that time always advances.
fn duration(seconds: f64) -> SimDuration {
    let longest = SimDuration::from_nanos(u64::MAX);
    SimDuration::from_seconds(seconds).unwrap_or(longest).max(SimDuration::from_nanos(1))
}

fn instant(seconds: f64) -> SimTime {
    SimTime::ZERO + SimDuration::from_seconds(seconds).expect("validated to lie below 1e9")
}

impl Persist for Arrivals {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.rng.save(&format!("{name}/rng"), out);
        let end = self.stretch_end.map_or(u64::MAX, SimTime::nanos);
        out.put_u64(&format!("{name}/clock"), [self.now.nanos(), end, self.stretches]);
        out.put_f64(&format!("{name}/rate"), [self.rate, self.wander]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.rng.load(&format!("{name}/rng"), from)?;
        let clock = from.u64s(&format!("{name}/clock"), 3)?;
        self.now = SimTime::from_nanos(clock[0]);
        self.stretch_end = (clock[1] != u64::MAX).then_some(SimTime::from_nanos(clock[1]));
        self.stretches = clock[2];
        let rate = from.f64s(&format!("{name}/rate"), 2)?;
        [self.rate, self.wander] = [rate[0], rate[1]];
        Ok(())
    }
}
