//! The difference of two runs in one figure, and what may be said of it.

use std::fmt;

use homeostat_lab::{Summary, student_t};

use super::metric::{Direction, Metric};

/// A run's figure minus the baseline's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Which figure.
    pub metric: &'static Metric,
    /// The mean difference.
    pub mean: f64,
    /// Half the width of its 95 % interval, if there are trials enough for one.
    pub interval: Option<f64>,
}

/// What a difference shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The interval lies on the better side of zero.
    Better,
    /// The interval lies on the worse side of zero.
    Worse,
    /// The interval holds zero.
    NotShown,
    /// There is no interval.
    NoInterval,
}

impl Difference {
    /// Of differences seed by seed; nothing without a common seed.
    pub fn paired(metric: &'static Metric, differences: &[f64]) -> Option<Self> {
        let summary = Summary::of(differences)?;
        Some(Self { metric, mean: summary.mean, interval: summary.interval() })
    }

    /// Of two independent samples, whose spreads may differ (Welch).
    pub(super) fn welch(metric: &'static Metric, own: &Summary, base: &Summary) -> Self {
        let mean = own.mean - base.mean;
        if own.count < 2 || base.count < 2 {
            return Self { metric, mean, interval: None };
        }
        let part = |summary: &Summary| summary.deviation.powi(2) / summary.count as f64;
        let (own_part, base_part) = (part(own), part(base));
        let variance = own_part + base_part;
        if variance == 0.0 {
            return Self { metric, mean, interval: Some(0.0) };
        }
        let weight = |part: f64, count: usize| part.powi(2) / (count - 1) as f64;
        // Welch and Satterthwaite; rounded down, which widens the interval.
        let degrees =
            variance.powi(2) / (weight(own_part, own.count) + weight(base_part, base.count));
        let half = student_t(degrees.floor().max(1.0) as usize) * variance.sqrt();
        Self { metric, mean, interval: Some(half) }
    }

    /// The mean and half its interval, in the unit in which people read the figure.
    pub fn in_unit(&self) -> (f64, Option<f64>) {
        let in_unit = |value| self.metric.in_unit(value);
        (in_unit(self.mean), self.interval.map(in_unit))
    }

    /// Better or worse only where the interval excludes zero.
    pub fn verdict(&self) -> Verdict {
        let Some(half) = self.interval else { return Verdict::NoInterval };
        let (is_less, is_more) = (self.mean + half < 0.0, self.mean - half > 0.0);
        match (self.metric.direction, is_less, is_more) {
            (Direction::Lower, true, _) | (Direction::Higher, _, true) => Verdict::Better,
            (Direction::Lower, _, true) | (Direction::Higher, true, _) => Verdict::Worse,
            _ => Verdict::NotShown,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NotShown => "no difference shown",
            Self::NoInterval => "too few for an interval",
        })
    }
}
