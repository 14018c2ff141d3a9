//! Quantities as integer newtypes. Only meaningful arithmetic compiles: bytes times a fraction are
//! bytes, millicores plus bytes are a type error.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul};

use crate::{Error, Result};

const MILLI: f64 = 1e3;
const PARTS_PER_MILLION: f64 = 1e6;

/// Rounds `value * scale` to a `u64`; an error for a value out of range.
fn scaled(quantity: &'static str, value: f64, scale: f64) -> Result<u64> {
    let most = u64::MAX as f64 / scale;
    if !value.is_finite() || value < 0.0 || value >= most {
        return Err(Error::Quantity { quantity, value, most });
    }
    Ok((value * scale).round() as u64)
}

macro_rules! quantity {
    ($name:ident) => {
        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);

            /// The difference, at least zero.
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        /// Addition saturates.
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                items.fold(Self::ZERO, Add::add)
            }
        }

        /// Scaling rounds to the nearest unit and saturates.
        impl Mul<Fraction> for $name {
            type Output = Self;
            fn mul(self, fraction: Fraction) -> Self {
                let product = u128::from(self.0) * u128::from(fraction.0);
                let rounded = (product + 500_000) / 1_000_000;
                Self(u64::try_from(rounded).unwrap_or(u64::MAX))
            }
        }
    };
}

/// CPU time per second, in thousandths of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millicores(u64);
quantity!(Millicores);

impl Millicores {
    /// Whole thousandths of a core.
    pub const fn new(millicores: u64) -> Self {
        Self(millicores)
    }

    /// Cores, rounded to the nearest millicore.
    pub fn from_cores(cores: f64) -> Result<Self> {
        scaled("cores", cores, MILLI).map(Self)
    }

    /// The number of millicores.
    pub const fn millicores(self) -> u64 {
        self.0
    }

    /// The amount in cores.
    pub fn cores(self) -> f64 {
        self.0 as f64 / MILLI
    }
}

impl fmt::Display for Millicores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}m", self.0)
    }
}

/// An amount of memory or payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);
quantity!(Bytes);

impl Bytes {
    /// Whole bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Mebibytes (2^20 bytes), saturating.
    pub const fn from_mib(mebibytes: u64) -> Self {
        Self(mebibytes.saturating_mul(1 << 20))
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The amount in mebibytes.
    pub fn mib(self) -> f64 {
        self.0 as f64 / f64::from(1 << 20)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [(u64, &str); 4] =
            [(1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
        match STEPS.into_iter().find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit)) {
            Some((unit, suffix)) => write!(f, "{}{suffix}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Arrival or completion rate, in thousandths of a request per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RequestRate(u64);
quantity!(RequestRate);

impl RequestRate {
    /// Requests per second, rounded to the nearest thousandth.
    pub fn from_per_second(requests: f64) -> Result<Self> {
        scaled("requests per second", requests, MILLI).map(Self)
    }

    /// Requests per second.
    pub fn per_second(self) -> f64 {
        self.0 as f64 / MILLI
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.per_second())
    }
}

/// A dimensionless ratio in parts per million. It may exceed one: a safety margin of 1.15, or a
/// utilisation above the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fraction(u64);

impl Fraction {
    /// 0 %.
    pub const ZERO: Self = Self(0);
    /// 100 %.
    pub const ONE: Self = Self(1_000_000);

    /// A ratio, rounded to the nearest millionth.
    pub fn from_ratio(ratio: f64) -> Result<Self> {
        scaled("ratio", ratio, PARTS_PER_MILLION).map(Self)
    }

    /// Whole percent.
    pub const fn from_percent(percent: u32) -> Self {
        Self(percent as u64 * 10_000)
    }

    /// The ratio in percent.
    pub fn percent(self) -> f64 {
        self.0 as f64 / 1e4
    }

    /// The ratio as a number: 1.0 is 100 %.
    pub fn ratio(self) -> f64 {
        self.0 as f64 / PARTS_PER_MILLION
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.percent())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_print_as_kubernetes_writes_them() {
        let check = |text: String, expect: &str| assert_eq!(text, expect);
        check(Millicores::new(250).to_string(), "250m");
        check(Bytes::from_mib(512).to_string(), "512Mi");
        check(Bytes::new(3 << 30).to_string(), "3Gi");
        check(Bytes::new(1000).to_string(), "1000");
        check(Fraction::from_percent(115).to_string(), "115%");
    }

    #[test]
    fn impossible_quantities_are_refused_with_the_value() {
        for cores in [-0.5, f64::NAN, f64::INFINITY, 1e300] {
            let error = Millicores::from_cores(cores).unwrap_err().to_string();
            assert!(error.contains("cores") && error.contains(&cores.to_string()), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_fraction_up_to_one_never_enlarges(bytes in any::<u64>(), percent in 0u32..=100) {
            prop_assert!(Bytes::new(bytes) * Fraction::from_percent(percent) <= Bytes::new(bytes));
        }

        #[test]
        fn sums_saturate_and_never_wrap(a in any::<u64>(), b in any::<u64>()) {
            let sum = Millicores::new(a) + Millicores::new(b);
            prop_assert!(sum >= Millicores::new(a.max(b)));
        }
    }
}
