//! From values to places on a picture.

/// One direction of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Axis {
    /// Evenly from `low` to a round number at or above `high`.
    pub(super) fn linear(low: f64, high: f64) -> Self {
        let low = if low.is_finite() { low } else { 0.0 };
        let high = if high.is_finite() && high > low { high } else { low + 1.0 };
        let step = nice_step(high - low);
        let floor = |value: f64| (value / step + 1e-9).floor() * step;
        let ceiling = |value: f64| (value / step - 1e-9).ceil() * step;
        Self { low: floor(low), high: ceiling(high), is_log: false }
    }

    /// Evenly between round numbers as [`Axis::linear`], but at half steps, so that less of the
    /// picture is empty.
    pub(super) fn snug(low: f64, high: f64) -> Self {
        let Self { low: outer, high: end, .. } = Self::linear(low, high);
        let half = nice_step(end - outer) / 2.0;
        let trim = |room: f64| if room >= half * (1.0 - 1e-9) { half } else { 0.0 };
        let (below, above) = (trim(low - outer), trim(end - high));
        match low.is_finite() && high > low {
            true => Self::exact(outer + below, end - above),
            false => Self::exact(outer, end),
        }
    }

    /// Exactly from `low` to `high`.
    pub(super) fn exact(low: f64, high: f64) -> Self {
        Self { low, high: if high > low { high } else { low + 1.0 }, is_log: false }
    }

    /// By powers; both ends are above zero.
    pub(super) fn log(low: f64, high: f64) -> Self {
        let low = if low.is_finite() && low > 0.0 { low } else { 0.1 };
        let high = if high.is_finite() && high > low { high } else { low * 10.0 };
        Self { low, high, is_log: true }
    }

    /// The part of the way from low to high; values beyond stay at the ends.
    pub(super) fn part(&self, value: f64) -> f64 {
        let part = if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The value at a part of the way.
    pub(super) fn value(&self, part: f64) -> f64 {
        if self.is_log {
            self.low * (self.high / self.low).powf(part)
        } else {
            self.low + (self.high - self.low) * part
        }
    }

    /// Round values to mark, about four of them.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if !self.is_log {
            let step = nice_step(self.high - self.low);
            let first = (self.low / step - 1e-9).ceil();
            let count = ((self.high / step + 1e-9).floor() - first).clamp(0.0, 12.0) as usize;
            return (0..=count).map(|place| (first + place as f64) * step).collect();
        }
        let decades = (self.high / self.low).log10();
        let steps: &[f64] = match decades {
            decades if decades < 0.5 => &[1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            decades if decades < 1.2 => &[1.0, 2.0, 3.0, 5.0],
            decades if decades < 2.6 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        all.filter(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick)).collect()
    }
}

/// A tick in few letters: `0.5`, `20`, `1.5k`, `3M`.
pub(super) fn tick_label(value: f64) -> String {
    let short = |value: f64| {
        let text = format!("{value:.5}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match value.abs() {
        size if size >= 1e6 => short(value / 1e6) + "M",
        size if size >= 1e4 => short(value / 1e3) + "k",
        _ => short(value),
    }
}

/// 1, 2 or 5 times a power of ten, so that a span has two to five steps.
fn nice_step(span: f64) -> f64 {
    let power = 10f64.powf((span / 4.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let fitting = steps.iter().find(|step| span / (*step * power) <= 4.5);
    fitting.unwrap_or(&10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let check = |axis: Axis, expect: &[f64]| {
            let ticks = axis.ticks();
            assert_eq!(ticks.len(), expect.len(), "{ticks:?}");
            for (tick, expect) in ticks.iter().zip(expect) {
                assert!((tick - expect).abs() < 1e-9 * expect.abs().max(1.0), "{ticks:?}");
            }
        };
        check(Axis::linear(0.0, 12.0), &[0.0, 5.0, 10.0, 15.0]);
        check(Axis::linear(0.0, 1.0), &[0.0, 0.5, 1.0]);
        check(Axis::linear(-200.0, 480.0), &[-200.0, 0.0, 200.0, 400.0, 600.0]);
        check(Axis::log(0.1, 10.0), &[0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]);
        check(Axis::log(0.001, 100.0), &[0.001, 0.01, 0.1, 1.0, 10.0, 100.0]);
    }

    #[test]
    fn whatever_is_no_number_or_beyond_stays_on_the_picture() {
        for axis in
            [Axis::linear(0.0, f64::NAN), Axis::log(0.0, f64::INFINITY), Axis::exact(3.0, 3.0)]
        {
            for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
                assert!((0.0..=1.0).contains(&axis.part(value)), "{axis:?} {value}");
            }
        }
        assert_eq!(Axis::log(0.1, 10.0).part(1.0), 0.5);
    }

    #[test]
    fn a_snug_axis_holds_everything_and_wastes_little() {
        let check = |low: f64, high: f64, expect: (f64, f64)| {
            let axis = Axis::snug(low, high);
            let ends = (axis.value(0.0), axis.value(1.0));
            let is_near = (ends.0 - expect.0).abs() + (ends.1 - expect.1).abs() < 1e-9;
            assert!(is_near, "{ends:?} against {expect:?}");
        };
        check(-0.1, 0.95, (-0.25, 1.0));
        check(0.3, 0.7, (0.3, 0.7));
        check(-0.9, 1.6, (-1.0, 2.0));
        check(-0.9, 1.4, (-1.0, 1.5));
        check(2.0, 2.0, (2.0, 3.0));
        check(f64::NAN, f64::NAN, (0.0, 1.0));
    }

    #[test]
    fn labels_are_short() {
        let labels: Vec<String> =
            [0.5, 0.001, 0.1 + 0.2, 0.0005, 20.0, 15_000.0, 3e6, 2000.0].map(tick_label).to_vec();
        assert_eq!(labels, ["0.5", "0.001", "0.3", "0.0005", "20", "15k", "3M", "2000"]);
    }
}
