//! The numbers of one run.

use homeostat_testbed::Answered;
use serde::Serialize;

use crate::pods::Seen;

/// Length of the windows that recovery is judged by.
const WINDOW_S: f64 = 5.0;
/// The SLO has to be kept for this many windows.
const KEPT_WINDOWS: usize = 3;
/// Largest delay of the load generator; figures of a run with more are not valid.
const MAX_SEND_DELAY_S: f64 = 0.020;

/// The numbers of one run, after its warm-up.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    /// Latency at the 99th percentile; requests without an answer count as five seconds.
    pub(crate) p99_ms: f64,
    pub(crate) p50_ms: f64,
    /// Share of requests later than the threshold, or without an answer.
    pub(crate) slo_violation_ratio: f64,
    /// Integral over time of the CPU requests of all pods that have a node and have not finished.
    pub(crate) requested_core_s: f64,
    /// The longest time, in windows of five seconds from the first one after the load's change
    /// whose 99th percentile is outside of the SLO, until it was inside for 15 s; until
    /// the end if it never was. Zero if it always was.
    pub(crate) recover_s: f64,
    /// Pods ended by eviction, resize or restart.
    pub(crate) disruptions: u32,
    /// Pods ended by scaling in.
    pub(crate) scaled_in: u32,
    pub(crate) requests: u32,
    pub(crate) failed: u32,
    pub(crate) most_pods: u32,
    /// How much later than intended the generator sent, at the 99th percentile.
    pub(crate) send_delay_p99_ms: f64,
}

/// The measured span of a run, its SLO, and when the load changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) from_s: f64,
    pub(crate) until_s: f64,
    pub(crate) change_s: f64,
    pub(crate) threshold_s: f64,
}

impl Figures {
    pub(crate) fn of(span: Span, answered: &[Answered], seen: &Seen) -> Self {
        let counts = |at: f64| span.from_s <= at && at < span.until_s;
        let answered: Vec<_> = answered.iter().filter(|one| counts(one.intended_s)).collect();
        let requests = answered.len();
        let latencies = |all: &[&Answered]| all.iter().map(|one| one.latency_s).collect::<Vec<_>>();
        let is_violation = |one: &&&Answered| !one.is_ok || one.latency_s > span.threshold_s;
        let violations = answered.iter().filter(is_violation).count();
        let delays = answered.iter().map(|one| one.send_delay_s).collect();
        let ended = seen.endings.values().filter(|at| counts(**at)).count() as u32;
        let scaled_in = seen.scaled_in.iter().filter(|(at, _)| counts(*at));
        let scaled_in: u32 = scaled_in.map(|(_, pods)| pods).sum();
        let restarts: i32 = seen.restarts.values().sum();
        let moments = || seen.moments.iter().filter(|moment| counts(moment.at_s));
        Self {
            p99_ms: quantile(latencies(&answered), 0.99) * 1e3,
            p50_ms: quantile(latencies(&answered), 0.5) * 1e3,
            slo_violation_ratio: violations as f64 / requests.max(1) as f64,
            requested_core_s: core_seconds(span, seen),
            recover_s: recovery(span, &answered),
            disruptions: ended.saturating_sub(scaled_in) + restarts as u32,
            scaled_in,
            requests: requests as u32,
            failed: answered.iter().filter(|one| !one.is_ok).count() as u32,
            most_pods: moments().map(|moment| moment.pods).max().unwrap_or(0),
            send_delay_p99_ms: quantile(delays, 0.99) * 1e3,
        }
    }

    /// Whether the generator kept its times.
    pub(crate) fn is_valid(&self) -> bool {
        self.send_delay_p99_ms <= MAX_SEND_DELAY_S * 1e3
    }
}

/// The smallest value that at least this part of the values does not exceed.
pub(crate) fn quantile(mut values: Vec<f64>, level: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * level).ceil() as usize;
    values.get(place.max(1) - 1).copied().unwrap_or(f64::NAN)
}

fn core_seconds(span: Span, seen: &Seen) -> f64 {
    let clamp = |at: f64| at.clamp(span.from_s, span.until_s);
    let pairs = seen.moments.windows(2);
    pairs.map(|pair| pair[0].cores * (clamp(pair[1].at_s) - clamp(pair[0].at_s))).sum()
}

fn recovery(span: Span, answered: &[&Answered]) -> f64 {
    let count = ((span.until_s - span.change_s) / WINDOW_S).floor() as usize;
    let is_kept = |window: usize| {
        let from = span.change_s + window as f64 * WINDOW_S;
        let inside =
            answered.iter().filter(|one| (from..from + WINDOW_S).contains(&one.intended_s));
        let latencies: Vec<f64> = inside.map(|one| one.latency_s).collect();
        latencies.is_empty() || quantile(latencies, 0.99) <= span.threshold_s
    };
    let kept: Vec<bool> = (0..count).map(is_kept).collect();
    let (mut longest, mut window) = (0, 0);
    while window < kept.len() {
        if kept[window] {
            window += 1;
            continue;
        }
        let rest = &kept[window..];
        let back = rest.windows(KEPT_WINDOWS).position(|three| three.iter().all(|kept| *kept));
        let length = back.unwrap_or(rest.len());
        longest = longest.max(length);
        window += length;
    }
    longest as f64 * WINDOW_S
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::PodSample;

    const SPAN: Span = Span { from_s: 10.0, until_s: 70.0, change_s: 20.0, threshold_s: 0.25 };

    fn answered(slow: impl Fn(f64) -> bool) -> Vec<Answered> {
        let one = |place| {
            let intended_s = f64::from(place) / 10.0;
            let latency_s = if slow(intended_s) { 1.0 } else { 0.1 };
            Answered { intended_s, latency_s, is_ok: true, send_delay_s: 0.001 }
        };
        (0..800).map(one).collect()
    }

    #[test]
    fn recovery_counts_until_the_objective_is_kept_for_a_while() {
        let check = |slow: &dyn Fn(f64) -> bool, expect: f64| {
            let figures = Figures::of(SPAN, &answered(slow), &Seen::default());
            assert_eq!(figures.recover_s, expect);
        };
        check(&|_| false, 0.0);
        // Before the change there is nothing to recover from.
        check(&|at| at < 20.0, 0.0);
        check(&|at| (20.0..31.0).contains(&at), 15.0);
        // Two good windows in between are no recovery.
        check(&|at| (20.0..25.0).contains(&at) || (35.0..40.0).contains(&at), 20.0);
        check(&|at| at >= 50.0, 20.0);
    }

    #[test]
    fn only_what_is_inside_the_span_counts() {
        let moment = |at_s: f64, cores: f64| PodSample { at_s, pods: 1, ready: 1, cores };
        let mut seen = Seen {
            moments: vec![moment(0.0, 1.0), moment(40.0, 2.0), moment(80.0, 2.0)],
            ..Seen::default()
        };
        let names = [("early", 5.0), ("scaled", 30.0), ("evicted", 40.0)];
        seen.endings = names.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect();
        seen.scaled_in = vec![(5.0, 1), (30.0, 1)];
        let slow = |at: f64| at < 10.0 || (20.0..26.0).contains(&at);
        let figures = Figures::of(SPAN, &answered(slow), &seen);
        assert_eq!(figures.requested_core_s, 30.0 + 60.0);
        assert_eq!((figures.disruptions, figures.scaled_in), (1, 1));
        assert_eq!((figures.requests, figures.slo_violation_ratio), (600, 0.1));
        assert_eq!((figures.p50_ms, figures.p99_ms), (100.0, 1000.0));
        assert!(figures.is_valid());
    }
}
