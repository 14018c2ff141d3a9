//! Conditions of networks: ranges from which paths are drawn. The 625 of the dissertation (A.6) cut the range of
//! each of four parameters into five.

use homeostat_core::{SimDuration, Stream};
use homeostat_decide::BitsPerSecond;

use crate::link::{Bandwidth, PathConfig};
use crate::{Error, Result};

/// Number of numbered conditions.
pub const CONDITIONS: u32 = 625;

/// Parts into which a range is cut.
const PARTS: u32 = 5;

/// The whole ranges: Mbit/s, milliseconds, packets, and the part of packets lost.
const BANDWIDTH_MBPS: Range = Range { low: 0.1, high: 128.0 };
const DELAY_MS: Range = Range { low: 1.0, high: 512.0 };
const QUEUE: Range = Range { low: 1.0, high: 10_240.0 };
const LOSS: Range = Range { low: 0.0, high: 0.1 };

/// A range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Range {
    /// One number.
    pub fn exactly(value: f64) -> Self {
        Self { low: value, high: value }
    }

    fn part(self, part: u32, scale: Scale) -> Self {
        let end = |part: u32| scale.at(self, f64::from(part) / f64::from(PARTS));
        Self { low: end(part), high: end(part + 1) }
    }

    fn draw(self, rng: &mut Stream, scale: Scale) -> f64 {
        scale.at(self, rng.uniform())
    }
}

/// How a range is divided.
#[derive(Debug, Clone, Copy)]
enum Scale {
    Linear,
    /// By equal factors. Deviation: the dissertation does not say how it divides; by equal differences, four fifths of
    /// the conditions would have more than 25 Mbit/s.
    Logarithmic,
}

impl Scale {
    fn at(self, range: Range, part: f64) -> f64 {
        match self {
            Self::Linear => range.low + part * (range.high - range.low),
            Self::Logarithmic => range.low * (range.high / range.low).powf(part),
        }
    }
}

/// A distribution of paths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    /// Mbit/s.
    pub bandwidth_mbps: Range,
    /// Propagation delay of one direction, milliseconds.
    pub delay_ms: Range,
    /// Packets.
    pub queue: Range,
    /// Part of the packets lost on the wire.
    pub loss: Range,
    /// See [`PathConfig::jitter`].
    pub jitter: f64,
}

impl Condition {
    /// One of the numbered conditions: its number in base five has the parts of loss, queue, delay and bandwidth, the
    /// lowest digit last.
    pub fn numbered(number: u32) -> Result<Self> {
        if number >= CONDITIONS {
            return Err(Error::OutOfRange {
                key: "condition".to_owned(),
                value: number.to_string(),
                expected: format!("from 0 to {}", CONDITIONS - 1),
            });
        }
        let digit = |place: u32| number / PARTS.pow(place) % PARTS;
        Ok(Self {
            bandwidth_mbps: BANDWIDTH_MBPS.part(digit(0), Scale::Logarithmic),
            delay_ms: DELAY_MS.part(digit(1), Scale::Logarithmic),
            queue: QUEUE.part(digit(2), Scale::Logarithmic),
            loss: LOSS.part(digit(3), Scale::Linear),
            jitter: 0.0,
        })
    }

    /// The distribution on which Aurora was trained.
    pub fn aurora() -> Self {
        Self {
            bandwidth_mbps: Range { low: 1.2, high: 6.0 },
            delay_ms: Range { low: 50.0, high: 500.0 },
            queue: Range { low: 2.0, high: 2981.0 },
            loss: Range { low: 0.0, high: 0.05 },
            jitter: 0.0,
        }
    }

    /// A path.
    pub fn draw(&self, rng: &mut Stream) -> PathConfig {
        let bits = self.bandwidth_mbps.draw(rng, Scale::Logarithmic) * 1e6;
        let delay = self.delay_ms.draw(rng, Scale::Logarithmic) * 1e-3;
        PathConfig {
            bandwidth: Bandwidth::Constant(BitsPerSecond(bits.round() as u64)),
            delay: SimDuration::from_nanos((delay * 1e9).round() as u64),
            queue: self.queue.draw(rng, Scale::Logarithmic).round() as u32,
            loss: self.loss.draw(rng, Scale::Linear),
            jitter: self.jitter,
        }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let within = |key: &str, range: Range, low: f64, high: f64| {
            if low <= range.low && range.low <= range.high && range.high <= high {
                return Ok(());
            }
            Err(Error::OutOfRange {
                key: format!("link.{key}"),
                value: format!("[{}, {}]", range.low, range.high),
                expected: format!("two numbers from {low} to {high}, the smaller one first"),
            })
        };
        within("bandwidth_mbps", self.bandwidth_mbps, 0.01, 10_000.0)?;
        within("delay_ms", self.delay_ms, 0.01, 10_000.0)?;
        within("queue", self.queue, 1.0, 1e6)?;
        within("loss", self.loss, 0.0, 0.5)?;
        within("jitter", Range::exactly(self.jitter), 0.0, 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_conditions_cover_the_ranges_without_a_gap() {
        let parts: Vec<Condition> =
            (0..PARTS).map(|part| Condition::numbered(part).unwrap()).collect();
        assert!((parts[0].bandwidth_mbps.low - 0.1).abs() < 1e-9);
        for pair in parts.windows(2) {
            let (end, start) = (pair[0].bandwidth_mbps.high, pair[1].bandwidth_mbps.low);
            assert!((end - start).abs() < 1e-9, "{end} {start}");
        }
        assert!((parts[4].bandwidth_mbps.high - 128.0).abs() < 1e-9);
        let last = Condition::numbered(CONDITIONS - 1).unwrap();
        assert!((last.loss.high - 0.1).abs() < 1e-12 && (last.queue.high - 10_240.0).abs() < 1e-6);
        assert!(Condition::numbered(CONDITIONS).is_err());
    }

    #[test]
    fn all_numbered_conditions_differ_and_can_be() {
        for number in 0..CONDITIONS {
            let condition = Condition::numbered(number).unwrap();
            condition.validate().unwrap();
            let same = (0..number).find(|other| Condition::numbered(*other) == Ok(condition));
            assert_eq!(same, None, "{number}");
            condition.draw(&mut Stream::from_seed(number.into())).validate().unwrap();
        }
    }

    #[test]
    fn a_path_is_drawn_from_its_ranges() {
        let condition = Condition::aurora();
        let mut rng = Stream::from_seed(3);
        for _ in 0..200 {
            let path = condition.draw(&mut rng);
            let Bandwidth::Constant(rate) = path.bandwidth else { panic!("constant") };
            assert!((1.2..=6.0).contains(&rate.megabits()), "{rate}");
            assert!((0.05..=0.5).contains(&path.delay.seconds()));
            assert!((2..=2981).contains(&path.queue) && (0.0..=0.05).contains(&path.loss));
        }
    }
}
