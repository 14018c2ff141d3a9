//! A counted trace is played as it was counted.

use homeostat_core::{Persist, SimTime, Snapshot, Stream};
use homeostat_load::TraceArrivals;
use proptest::prelude::*;

fn minute_of(at: SimTime) -> usize {
    (at.nanos() / 60_000_000_000) as usize
}

proptest! {
    #[test]
    fn every_minute_has_as_many_requests_as_were_counted(
        counts in prop::collection::vec(prop_oneof![Just(0u32), 1u32..5, 1u32..500], 0..40),
        seed in any::<u64>(),
    ) {
        let mut arrivals = TraceArrivals::new(counts.clone(), Stream::from_seed(seed));
        let mut played = vec![0u32; counts.len()];
        let mut last = SimTime::ZERO;
        while let Some(at) = arrivals.next_arrival() {
            prop_assert!(at >= last);
            last = at;
            played[minute_of(at)] += 1;
        }
        prop_assert_eq!(played, counts);
        prop_assert_eq!(arrivals.next_arrival(), None);
    }

    #[test]
    fn a_restored_trace_goes_on_alike(
        counts in prop::collection::vec(0u32..20, 1..30),
        seed in any::<u64>(),
        played in 0usize..200,
    ) {
        let mut arrivals = TraceArrivals::new(counts.clone(), Stream::from_seed(seed));
        for _ in 0..played {
            arrivals.next_arrival();
        }
        let mut snapshot = Snapshot::default();
        arrivals.save("t", &mut snapshot);
        let mut restored = TraceArrivals::new(counts, Stream::from_seed(0));
        restored.load("t", &snapshot).unwrap();
        for _ in 0..400 {
            prop_assert_eq!(arrivals.next_arrival(), restored.next_arrival());
        }
    }
}

#[test]
fn requests_are_uniform_inside_their_minute() {
    for per_minute in [1u32, 3, 1000] {
        let minutes = 60_000 / per_minute as usize;
        let counts = vec![per_minute; minutes];
        let mut arrivals = TraceArrivals::new(counts, Stream::from_seed(5));
        let mut inside: Vec<f64> = std::iter::from_fn(|| arrivals.next_arrival())
            .map(|at| (at.nanos() % 60_000_000_000) as f64 / 60e9)
            .collect();
        inside.sort_by(f64::total_cmp);
        let count = inside.len() as f64;
        let distance = inside
            .iter()
            .enumerate()
            .map(|(rank, place)| (rank as f64 / count - place).abs())
            .fold(0.0, f64::max);
        // One uniform sample in a thousand is farther from its distribution than this.
        assert!(distance < 1.95 / count.sqrt(), "{per_minute} a minute: {distance}");
    }
}

#[test]
fn the_rate_is_that_of_the_present_minute() {
    let mut arrivals = TraceArrivals::new(vec![0, 120, 30], Stream::from_seed(1));
    assert_eq!(arrivals.rate_per_second(), 0.0);
    arrivals.next_arrival();
    assert_eq!(arrivals.rate_per_second(), 2.0);
    while arrivals.next_arrival().is_some() {}
    assert_eq!(arrivals.rate_per_second(), 0.0);
}

#[test]
fn the_place_in_another_trace_is_refused() {
    let mut long = TraceArrivals::new(vec![0, 0, 9], Stream::from_seed(1));
    long.next_arrival();
    let mut snapshot = Snapshot::default();
    long.save("t", &mut snapshot);
    for other in [vec![1], vec![0, 0, 7]] {
        let mut arrivals = TraceArrivals::new(other, Stream::from_seed(1));
        let error = arrivals.load("t", &snapshot).unwrap_err().to_string();
        assert!(error.contains("minute 2 of 3 with 8 to come"), "{error}");
    }
}
