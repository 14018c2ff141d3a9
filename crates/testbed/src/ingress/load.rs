//! When requests come.

use homeostat_core::SeedTree;

/// A rate of requests over time: straight lines between points of seconds and requests per
/// second, in the order of time. Two points at one time are a jump.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    points: Vec<(f64, f64)>,
}

impl Load {
    /// A load through these points.
    pub fn new(points: Vec<(f64, f64)>) -> Self {
        assert!(points.len() >= 2, "a line has two points");
        assert!(points.is_sorted_by_key(|(at, _)| *at), "points in the order of time");
        assert!(points.iter().all(|(_, rate)| *rate >= 0.0), "rates are not negative");
        Self { points }
    }

    /// The same rate for some seconds.
    pub fn steady(rate: f64, seconds: f64) -> Self {
        Self::new(vec![(0.0, rate), (seconds, rate)])
    }

    /// The same shape with another mean and length.
    pub fn scaled(&self, mean: f64, seconds: f64) -> Self {
        let (faster, longer) = (mean / self.mean(), seconds / self.seconds());
        let scale = |(at, rate): &(f64, f64)| (at * longer, rate * faster);
        Self::new(self.points.iter().map(scale).collect())
    }

    /// The same after some seconds of its first rate.
    pub fn after(&self, seconds: f64) -> Self {
        let mut points = vec![(0.0, self.points[0].1)];
        points.extend(self.points.iter().map(|(at, rate)| (at + seconds, *rate)));
        Self::new(points)
    }

    /// How long it lasts.
    pub fn seconds(&self) -> f64 {
        self.points.last().map_or(0.0, |(at, _)| *at)
    }

    /// Its mean rate.
    pub fn mean(&self) -> f64 {
        let area: f64 =
            self.points.windows(2).map(|p| (p[1].0 - p[0].0) * (p[0].1 + p[1].1) / 2.0).sum();
        area / self.seconds()
    }

    /// Its largest rate.
    pub fn peak(&self) -> f64 {
        self.points.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    fn rate(&self, at: f64) -> f64 {
        let line = self.points.windows(2).find(|p| p[0].0 <= at && at < p[1].0);
        line.map_or(0.0, |p| p[0].1 + (p[1].1 - p[0].1) * (at - p[0].0) / (p[1].0 - p[0].0))
    }

    /// Times of a Poisson process with this rate, the same for the same seed.
    pub fn arrivals(&self, seed: u64) -> Vec<f64> {
        let mut rng = SeedTree::new(seed).stream("ingress/arrivals");
        let peak = self.peak();
        let (mut at, mut times) = (0.0, Vec::new());
        loop {
            at -= (1.0 - rng.uniform()).ln() / peak;
            if at >= self.seconds() {
                return times;
            }
            // Candidates at the largest rate, thinned to the rate of the moment.
            if rng.uniform() * peak < self.rate(at) {
                times.push(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_follow_the_rate_and_the_seed() {
        let load = Load::new(vec![(0.0, 10.0), (100.0, 10.0), (100.0, 40.0), (200.0, 40.0)]);
        let times = load.arrivals(7);
        assert_eq!(times, load.arrivals(7));
        assert_ne!(times, load.arrivals(8));
        let early = times.iter().filter(|at| **at < 100.0).count() as f64;
        let late = times.len() as f64 - early;
        // Four standard deviations of a Poisson count.
        assert!((early - 1000.0).abs() < 4.0 * 1000_f64.sqrt(), "{early}");
        assert!((late - 4000.0).abs() < 4.0 * 4000_f64.sqrt(), "{late}");
    }

    #[test]
    fn a_shape_keeps_its_form_when_it_is_scaled() {
        let load = Load::new(vec![(0.0, 1.0), (1.0, 3.0)]).scaled(30.0, 60.0);
        assert_eq!((load.mean(), load.seconds(), load.peak()), (30.0, 60.0, 45.0));
        let later = load.after(12.0);
        assert_eq!((later.seconds(), later.rate(5.0), later.rate(12.0)), (72.0, 15.0, 15.0));
    }
}
