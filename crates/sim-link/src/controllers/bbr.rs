//! BBR, version 1 (Cardwell et al., 2016): paces at the measured bandwidth of the path and keeps two
//! products of bandwidth and round-trip time in flight.

use std::collections::VecDeque;

use homeostat_core::{SimDuration, SimTime};

use super::{Ack, CongestionController, INITIAL_WINDOW, Loss};

/// 2 / ln 2: doubles the rate in every round trip of the start.
const START_GAIN: f64 = 2.885;

/// Pacing gains of the eight phases, a round-trip time each: probe, drain what the probe queued, cruise.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// Products in flight while cruising.
const WINDOW_GAIN: f64 = 2.0;

/// Packets in flight while the round-trip time is measured, and at least.
const LEAST_IN_FLIGHT: f64 = 4.0;

/// Rounds that a measured bandwidth counts.
const BANDWIDTH_ROUNDS: u64 = 10;

/// Rounds without a quarter more bandwidth after which the pipe counts as full.
const FULL_ROUNDS: u32 = 3;

/// How long a measured round-trip time counts.
const RTT_AGE: SimDuration = SimDuration::from_secs(10);

/// How long little is in flight, to measure it again.
const PROBE_TIME: SimDuration = SimDuration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Startup,
    Drain,
    ProbeBandwidth { phase: usize, since: SimTime },
    ProbeRtt { until: Option<SimTime> },
}

/// BBR.
#[derive(Debug, Clone)]
pub struct Bbr {
    state: State,
    round: u64,
    round_ends: u64,
    /// Bandwidths by round, the largest first, as a filter of maxima: packets per second.
    bandwidths: VecDeque<(u64, f64)>,
    least_rtt: Option<SimDuration>,
    least_rtt_at: SimTime,
    full_bandwidth: f64,
    rounds_without_growth: u32,
    is_full: bool,
}

impl Default for Bbr {
    fn default() -> Self {
        Self {
            state: State::Startup,
            round: 0,
            round_ends: 0,
            bandwidths: VecDeque::new(),
            least_rtt: None,
            least_rtt_at: SimTime::ZERO,
            full_bandwidth: 0.0,
            rounds_without_growth: 0,
            is_full: false,
        }
    }
}

impl Bbr {
    fn bandwidth(&self) -> Option<f64> {
        self.bandwidths.front().map(|(_, rate)| *rate)
    }

    /// Packets of one product of bandwidth and round-trip time.
    fn product(&self) -> Option<f64> {
        Some(self.bandwidth()? * self.least_rtt?.seconds())
    }

    fn gain(&self) -> f64 {
        match self.state {
            State::Startup => START_GAIN,
            State::Drain => 1.0 / START_GAIN,
            State::ProbeBandwidth { phase, .. } => CYCLE[phase],
            State::ProbeRtt { .. } => 1.0,
        }
    }

    fn measure_bandwidth(&mut self, ack: &Ack) -> bool {
        let is_new_round = ack.delivered_when_sent >= self.round_ends;
        if is_new_round {
            self.round += 1;
            self.round_ends = ack.delivered;
        }
        while self.bandwidths.back().is_some_and(|(_, rate)| *rate <= ack.delivery_rate) {
            self.bandwidths.pop_back();
        }
        self.bandwidths.push_back((self.round, ack.delivery_rate));
        while self
            .bandwidths
            .front()
            .is_some_and(|(round, _)| round + BANDWIDTH_ROUNDS < self.round)
        {
            self.bandwidths.pop_front();
        }
        is_new_round
    }

    /// The pipe is full when three rounds bring less than a quarter more.
    fn look_for_the_end_of_growth(&mut self) {
        let bandwidth = self.bandwidth().unwrap_or(0.0);
        if bandwidth >= self.full_bandwidth * 1.25 {
            self.full_bandwidth = bandwidth;
            self.rounds_without_growth = 0;
        } else {
            self.rounds_without_growth += 1;
            self.is_full = self.rounds_without_growth >= FULL_ROUNDS;
        }
    }

    fn cruise(now: SimTime) -> State {
        // The published start phase is random among all but the draining one.
        State::ProbeBandwidth { phase: 2, since: now }
    }

    fn next_state(&self, ack: &Ack) -> State {
        let in_flight = ack.in_flight as f64;
        let product = self.product().unwrap_or(INITIAL_WINDOW);
        match self.state {
            State::Startup if self.is_full => State::Drain,
            State::Drain if in_flight <= product => Self::cruise(ack.now),
            State::ProbeBandwidth { phase, since } => {
                let lasted = ack.now.saturating_since(since);
                let is_over = self.least_rtt.is_some_and(|rtt| lasted > rtt);
                // A probe lasts until it has filled the pipe, draining ends when the queue is gone.
                let ends = match CYCLE[phase] {
                    gain if gain > 1.0 => is_over && in_flight >= gain * product - 1.0,
                    gain if gain < 1.0 => is_over || in_flight <= product,
                    _ => is_over,
                };
                let is_late = self.least_rtt.is_some_and(|rtt| lasted > rtt * 4);
                if ends || is_late {
                    State::ProbeBandwidth { phase: (phase + 1) % CYCLE.len(), since: ack.now }
                } else {
                    self.state
                }
            }
            State::ProbeRtt { until: None } if in_flight <= LEAST_IN_FLIGHT => {
                State::ProbeRtt { until: Some(ack.now + PROBE_TIME) }
            }
            State::ProbeRtt { until: Some(until) } if ack.now >= until => {
                if self.is_full {
                    Self::cruise(ack.now)
                } else {
                    State::Startup
                }
            }
            state => state,
        }
    }
}

impl CongestionController for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn on_ack(&mut self, ack: &Ack) {
        let is_new_round = self.measure_bandwidth(ack);
        let is_stale = ack.now.saturating_since(self.least_rtt_at) > RTT_AGE;
        if is_stale || self.least_rtt.is_none_or(|least| ack.rtt <= least) {
            self.least_rtt = Some(ack.rtt);
            self.least_rtt_at = ack.now;
        }
        if is_new_round && !self.is_full {
            self.look_for_the_end_of_growth();
        }
        let is_probing = matches!(self.state, State::ProbeRtt { .. });
        self.state = if is_stale && !is_probing {
            State::ProbeRtt { until: None }
        } else {
            self.next_state(ack)
        };
    }

    // Losses are no signal of congestion here.
    fn on_loss(&mut self, _loss: &Loss) {}

    fn on_timeout(&mut self, _now: SimTime) {}

    fn window(&self) -> f64 {
        if matches!(self.state, State::ProbeRtt { .. }) {
            return LEAST_IN_FLIGHT;
        }
        let gain = if self.is_full { WINDOW_GAIN } else { START_GAIN };
        self.product().map_or(INITIAL_WINDOW, |product| (gain * product).max(LEAST_IN_FLIGHT))
    }

    fn pacing_rate(&self) -> Option<f64> {
        Some(self.gain() * self.bandwidth()?)
    }
}
