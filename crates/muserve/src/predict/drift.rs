//! Notices when a model answers longer or shorter than it used to: a new version, another system
//! prompt, other users.

/// Errors that say what is usual, before any alarm.
const BASELINE: u32 = 100;

/// Shifts of less than twice this many standard deviations are not worth an alarm.
const SLACK: f64 = 0.5;

/// Alarm height in standard deviations. A shift by 1.5 deviations takes some 20 answers. The mean of the
/// baseline is a tenth of a deviation off, so that usual errors raised alarms at a height of 12.
const HEIGHT: f64 = 20.0;

/// A single error counts no more than this many deviations.
const MAX_DEVIATION: f64 = 3.0;

/// Cumulative sums (CUSUM) of the errors of a predictor of log lengths, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DriftDetector {
    count: u32,
    mean: f64,
    square_sum: f64,
    longer: Excursion,
    shorter: Excursion,
}

/// A sum above zero and how many errors it has.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Excursion {
    height: f64,
    errors: u32,
}

impl Excursion {
    fn add(&mut self, deviation: f64) -> bool {
        self.height += deviation - SLACK;
        self.errors += 1;
        if self.height <= 0.0 {
            *self = Self::default();
        }
        self.height > HEIGHT
    }
}

impl DriftDetector {
    /// Takes note of the logarithm of true over expected length. After a drift it returns how many of
    /// the latest errors lie behind the change, and forgets what was usual before.
    pub fn record(&mut self, error: f64) -> Option<u32> {
        if !error.is_finite() {
            return None;
        }
        if self.count < BASELINE {
            // Welford's update of mean and sum of squares.
            self.count += 1;
            let before = error - self.mean;
            self.mean += before / f64::from(self.count);
            self.square_sum += before * (error - self.mean);
            return None;
        }
        // Errors that are all the same have no deviation: a hundredth is no drift.
        let deviation = (self.square_sum / f64::from(BASELINE - 1)).sqrt().max(0.01);
        let deviations = ((error - self.mean) / deviation).clamp(-MAX_DEVIATION, MAX_DEVIATION);
        let is_longer = self.longer.add(deviations);
        let is_shorter = self.shorter.add(-deviations);
        let errors = match (is_longer, is_shorter) {
            (true, _) => self.longer.errors,
            (_, true) => self.shorter.errors,
            _ => return None,
        };
        *self = Self::default();
        Some(errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::Stream;

    fn after_baseline(rng: &mut Stream) -> DriftDetector {
        let mut detector = DriftDetector::default();
        (0..BASELINE).for_each(|_| assert_eq!(detector.record(0.3 + 0.8 * rng.normal()), None));
        detector
    }

    #[test]
    fn usual_errors_of_a_biased_predictor_raise_no_alarm() {
        let mut rng = Stream::from_seed(1);
        for _ in 0..100 {
            let mut detector = after_baseline(&mut rng);
            for _ in 0..500 {
                assert_eq!(detector.record(0.3 + 0.8 * rng.normal()), None);
            }
        }
    }

    #[test]
    fn answers_of_another_length_are_noticed_within_tens_and_the_change_is_dated() {
        for (shift, direction) in [(1.2, "longer"), (-1.2, "shorter")] {
            let mut rng = Stream::from_seed(2);
            for _ in 0..20 {
                let mut detector = after_baseline(&mut rng);
                let mut taken = 0;
                let errors = loop {
                    taken += 1;
                    let found = detector.record(0.3 + shift + 0.8 * rng.normal());
                    if let Some(errors) = found {
                        break errors;
                    }
                };
                assert!(taken < 60, "{direction}: {taken}");
                // The sum may have begun a little before the change or after it.
                assert!(errors.abs_diff(taken) <= 15, "{direction}: {errors} of {taken}");
                assert_eq!(detector, DriftDetector::default());
            }
        }
    }

    #[test]
    fn what_is_not_a_number_is_left_out() {
        let mut detector = DriftDetector::default();
        detector.record(f64::NAN);
        assert_eq!(detector, DriftDetector::default());
    }
}
