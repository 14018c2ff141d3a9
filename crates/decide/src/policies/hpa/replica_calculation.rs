//! How many replicas one metric asks for.

use homeostat_core::Fraction;

use super::readiness::ReplicaGroups;

/// What one metric asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Asked {
    pub(super) replicas: u32,
    /// The measured value, in the unit of the target.
    pub(super) measured: f64,
    /// How it came about.
    pub(super) outcome: Outcome,
}

/// How a metric's answer came about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Outcome {
    /// Measured over target, times the replicas.
    InProportion,
    /// Too near the target to do anything.
    WithinTolerance,
    /// Replicas without a figure could turn the direction: nothing is done.
    DirectionUnclear {
        /// Replicas that are not ready.
        unready: usize,
        /// Replicas without a figure.
        missing: usize,
    },
}

/// Replicas that bring the mean use of a resource to its target; none without any figure, or if
/// one of them requests nothing.
///
/// Each counts with its own request. Replicas without a figure are counted against the move: as
/// idle when it goes up, as using their full request (or the target, if that is more) when it
/// goes down. Unready replicas are set aside, and counted as idle when it goes up.
pub(super) fn for_utilization(
    current: u32,
    groups: &ReplicaGroups,
    target_percent: u32,
    tolerance: Fraction,
) -> Option<Asked> {
    let ReplicaGroups { counted, unready, missing } = groups;
    if counted.is_empty() || !groups.all_request() {
        return None;
    }
    let target = f64::from(target_percent);
    let mut used: f64 = counted.iter().map(|figure| figure.used).sum();
    let mut requested: f64 = counted.iter().map(|figure| figure.requested).sum();
    let percent = percent_of(used, requested);
    let ratio = percent / target;
    let adds_unready = !unready.is_empty() && ratio > 1.0;
    let asked = |replicas, measured, outcome| Some(Asked { replicas, measured, outcome });
    if !adds_unready && missing.is_empty() {
        if is_within(ratio, tolerance) {
            return asked(current, percent, Outcome::WithinTolerance);
        }
        return asked(whole(ratio * counted.len() as f64), percent, Outcome::InProportion);
    }

    let mut counted = counted.len();
    // On the target exactly there is no direction to be careful about.
    if ratio != 1.0 {
        let missing_request: f64 = missing.iter().sum();
        counted += missing.len();
        requested += missing_request;
        if ratio < 1.0 {
            used += missing_request * target.max(100.0) / 100.0;
        }
    }
    if adds_unready {
        counted += unready.len();
        requested += unready.iter().sum::<f64>();
    }
    let percent_with_rest = percent_of(used, requested);
    let ratio_with_rest = percent_with_rest / target;
    if is_within(ratio_with_rest, tolerance) {
        return asked(current, percent_with_rest, Outcome::WithinTolerance);
    }
    let replicas = whole(ratio_with_rest * counted as f64);
    let is_turned = (ratio < 1.0) != (ratio_with_rest < 1.0);
    // Pods counted and replicas wanted differ while a change is under way.
    let is_against_itself =
        if ratio_with_rest < 1.0 { replicas > current } else { replicas < current };
    if is_turned || is_against_itself {
        let outcome = Outcome::DirectionUnclear { unready: unready.len(), missing: missing.len() };
        return asked(current, percent_with_rest, outcome);
    }
    asked(replicas, percent_with_rest, Outcome::InProportion)
}

/// Replicas that bring a total to its target per replica; none if the total is not a number.
pub(super) fn for_total(
    current: u32,
    total: f64,
    target: f64,
    tolerance: Fraction,
) -> Option<Asked> {
    if !total.is_finite() || total < 0.0 {
        return None;
    }
    let measured = total / f64::from(current.max(1));
    if current > 0 && is_within(measured / target, tolerance) {
        return Some(Asked { replicas: current, measured, outcome: Outcome::WithinTolerance });
    }
    Some(Asked { replicas: whole(total / target), measured, outcome: Outcome::InProportion })
}

/// Kubernetes compares whole percents, rounded down, with its target. The small term keeps a
/// use of exactly 75 % from becoming 74 % in binary.
fn percent_of(used: f64, requested: f64) -> f64 {
    (used * 100.0 / requested + 1e-9).floor()
}

fn is_within(ratio: f64, tolerance: Fraction) -> bool {
    // 1.1 - 1 is a little more than 0.1 in binary, and the end belongs to the tolerance.
    (ratio - 1.0).abs() <= tolerance.ratio() + 1e-9
}

fn whole(replicas: f64) -> u32 {
    // 66 % of 50 % times 25 is 33.000000000000004 in binary, which is not 34 replicas.
    (replicas - 1e-9).ceil().max(0.0) as u32
}

#[cfg(test)]
mod tests {
    use super::super::readiness::Figure;
    use super::*;

    /// Replicas that each request 1000.
    fn groups(usage: &[f64], unready: usize, missing: usize) -> ReplicaGroups {
        let counted = usage.iter().map(|&used| Figure { used, requested: 1000.0 }).collect();
        let (unready, missing) = (vec![1000.0; unready], vec![1000.0; missing]);
        ReplicaGroups { counted, unready, missing }
    }

    fn ask(current: u32, target: u32, groups: &ReplicaGroups) -> Option<Asked> {
        for_utilization(current, groups, target, Fraction::from_percent(10))
    }

    fn replicas(current: u32, target: u32, usage: &[f64], unready: usize, missing: usize) -> u32 {
        ask(current, target, &groups(usage, unready, missing)).unwrap().replicas
    }

    #[test]
    fn the_number_follows_use_over_target_rounded_up() {
        assert_eq!(replicas(5, 50, &[750.0; 5], 0, 0), 8);
        assert_eq!(replicas(3, 30, &[300.0, 500.0, 700.0], 0, 0), 5);
        assert_eq!(replicas(5, 50, &[100.0, 300.0, 500.0, 250.0, 250.0], 0, 0), 3);
        assert_eq!(replicas(25, 50, &[660.0; 25], 0, 0), 33);
    }

    #[test]
    fn within_the_tolerance_nothing_is_done_and_its_end_belongs_to_it() {
        assert_eq!(replicas(3, 100, &[1010.0, 1030.0, 1020.0], 0, 0), 3);
        assert_eq!(replicas(10, 50, &[550.0; 10], 0, 0), 10);
        assert_eq!(replicas(10, 50, &[450.0; 10], 0, 0), 10);
        assert_eq!(replicas(10, 50, &[560.0; 10], 0, 0), 12);
        assert_eq!(replicas(10, 50, &[440.0; 10], 0, 0), 9);
    }

    #[test]
    fn unready_replicas_count_as_idle_on_the_way_up_and_not_at_all_on_the_way_down() {
        assert_eq!(replicas(3, 30, &[500.0, 700.0], 1, 0), 4);
        assert_eq!(replicas(5, 50, &[100.0; 4], 1, 0), 1);
    }

    #[test]
    fn missing_replicas_count_as_idle_on_the_way_up_and_as_full_on_the_way_down() {
        assert_eq!(replicas(3, 50, &[2000.0], 1, 1), 4);
        assert_eq!(replicas(4, 50, &[100.0, 100.0], 1, 1), 3);
        assert_eq!(replicas(2, 100, &[1000.0], 0, 1), 2);
        // At a target above the request, full means the target.
        assert_eq!(replicas(3, 200, &[100.0, 100.0], 0, 1), 2);
    }

    #[test]
    fn a_direction_that_hangs_on_replicas_without_figures_is_not_taken() {
        let check = |current, target, usage: &[f64], unready, missing| {
            let asked = ask(current, target, &groups(usage, unready, missing)).unwrap();
            let expect = Outcome::DirectionUnclear { unready, missing };
            assert_eq!((asked.replicas, asked.outcome), (current, expect));
        };
        check(3, 30, &[400.0], 2, 0);
        check(3, 50, &[450.0], 1, 1);
        // Five pods run where two are wanted: more than wanted is no scale-down.
        check(2, 50, &[300.0; 4], 0, 1);
    }

    #[test]
    fn replicas_that_differ_each_count_with_their_own_request() {
        let mut differing = groups(&[500.0; 4], 0, 0);
        assert_eq!(ask(4, 50, &differing).unwrap().outcome, Outcome::WithinTolerance);
        // Half of them were made twice as large: 2000 of 6000 are used, 33 %.
        differing.counted[..2].iter_mut().for_each(|figure| figure.requested = 2000.0);
        assert_eq!(ask(4, 50, &differing).unwrap().replicas, 3);
        differing.counted[0].requested = 0.0;
        assert_eq!(ask(4, 50, &differing), None);
    }

    #[test]
    fn without_any_figure_there_is_no_answer() {
        assert_eq!(ask(3, 50, &groups(&[], 2, 1)), None);
        assert_eq!(for_total(3, f64::NAN, 1.0, Fraction::ZERO), None);
    }

    #[test]
    fn a_total_is_spread_over_the_replicas() {
        let tolerance = Fraction::from_percent(10);
        let check = |current, total, expect| {
            assert_eq!(for_total(current, total, 10.0, tolerance).unwrap().replicas, expect);
        };
        check(3, 45.0, 5);
        check(3, 32.0, 3);
        check(3, 0.0, 0);
        check(0, 5.0, 1);
    }
}
