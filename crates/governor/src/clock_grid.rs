//! The clocks of a device as bounds with one step, so that every decision is a clock it supports.

use homeostat_core::Bounds;
use homeostat_decide::{ClockBounds, Megahertz};

/// Why a device's clocks and the bounds of the settings do not go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GridError {
    /// The device lists nothing.
    #[error("the GPU lists no clocks: the driver does not let it be governed")]
    NoClocks,
    /// A bound that is no clock of the device.
    #[error(
        "{key} = {value}: the GPU supports {low} to {high} MHz; the nearest clock is {nearest}"
    )]
    Unsupported {
        /// The key in the settings.
        key: &'static str,
        /// MHz.
        value: u32,
        /// Lowest clock of the device.
        low: u32,
        /// Highest clock of the device.
        high: u32,
        /// The clock of the device nearest to the value.
        nearest: u32,
    },
    /// Bounds in the wrong order.
    #[error("min_mhz = {min} is above max_mhz = {max}: exchange them")]
    Order {
        /// Lower bound.
        min: u32,
        /// Upper bound.
        max: u32,
    },
}

/// Bounds inside the supported clocks, with the smallest step all of whose clocks are supported. Clocks
/// of some devices are 7 and 8 MHz apart by turns; the step is 15 there.
pub fn clock_bounds(
    supported: &[Megahertz],
    min: Option<u32>,
    max: Option<u32>,
) -> Result<ClockBounds, GridError> {
    let mut clocks: Vec<u32> = supported.iter().map(|clock| clock.0).collect();
    clocks.sort_unstable();
    clocks.dedup();
    let (Some(lowest), Some(highest)) = (clocks.first().copied(), clocks.last().copied()) else {
        return Err(GridError::NoClocks);
    };
    let check = |key, value: Option<u32>, default: u32| {
        let value = value.unwrap_or(default);
        let distance = |clock: &&u32| clock.abs_diff(value);
        let nearest = *clocks.iter().min_by_key(distance).expect("there is at least one");
        if nearest == value {
            return Ok(value);
        }
        Err(GridError::Unsupported { key, value, low: lowest, high: highest, nearest })
    };
    let (min, max) = (check("min_mhz", min, lowest)?, check("max_mhz", max, highest)?);
    let range = Bounds::try_new(Megahertz(min), Megahertz(max))
        .map_err(|_| GridError::Order { min, max })?;
    let inside = &clocks[clocks.partition_point(|clock| *clock < min)..];
    let inside = &inside[..inside.partition_point(|clock| *clock <= max)];
    let is_supported = |step: &u32| {
        let mut wanted = (0..).map(|place| max.checked_sub(place * step));
        let mut wanted = wanted.by_ref().map_while(|clock| clock.filter(|clock| *clock >= min));
        wanted.all(|clock| inside.binary_search(&clock).is_ok())
    };
    let mut steps = inside.iter().rev().skip(1).map(|clock| max - clock);
    Ok(ClockBounds { range, step: steps.find(is_supported).unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use homeostat_decide::SettingBounds;
    use proptest::prelude::*;

    use super::*;

    fn mhz(clocks: impl IntoIterator<Item = u32>) -> Vec<Megahertz> {
        clocks.into_iter().map(Megahertz).collect()
    }

    #[test]
    fn the_step_is_the_smallest_whose_clocks_are_all_supported() {
        let check = |clocks: &[Megahertz], min, max, expect: (u32, u32, u32)| {
            let ClockBounds { range, step } = clock_bounds(clocks, min, max).unwrap();
            assert_eq!((range.low().0, range.high().0, step), expect);
        };
        let regular = mhz((0..110).map(|place| 1980 - 15 * place));
        check(&regular, None, None, (345, 1980, 15));
        check(&regular, Some(1005), Some(1755), (1005, 1755, 15));
        check(&regular, Some(1980), None, (1980, 1980, 0));
        let by_turns = mhz((0_u32..188).map(|place| 1530 - (15 * place).div_ceil(2)));
        check(&by_turns, None, None, (127, 1530, 15));
        check(&mhz([1000]), None, None, (1000, 1000, 0));
    }

    #[test]
    fn bounds_that_the_device_does_not_support_are_refused_with_the_nearest_clock() {
        let regular = mhz((0..110).map(|place| 1980 - 15 * place));
        let check = |min, max, expect: &str| {
            assert_eq!(clock_bounds(&regular, min, max).unwrap_err().to_string(), expect);
        };
        let card = "the GPU supports 345 to 1980 MHz; the nearest clock is";
        check(Some(100), None, &format!("min_mhz = 100: {card} 345"));
        check(None, Some(2500), &format!("max_mhz = 2500: {card} 1980"));
        check(None, Some(1001), &format!("max_mhz = 1001: {card} 1005"));
        check(Some(1980), Some(1005), "min_mhz = 1980 is above max_mhz = 1005: exchange them");
        assert_eq!(clock_bounds(&[], None, None), Err(GridError::NoClocks));
    }

    proptest! {
        #[test]
        fn every_clamped_clock_is_supported(
            clocks in prop::collection::btree_set(1_u32..3000, 1..60),
            wanted in 0_u32..4000,
        ) {
            let bounds = clock_bounds(&mhz(clocks.clone()), None, None).unwrap();
            // Without a step any clock inside is allowed: only then there is a single one.
            prop_assert!(clocks.contains(&bounds.clamp(&Megahertz(wanted)).0));
        }
    }
}
