//! Means, burstiness and persistence. Seeds are fixed; tolerances are four standard
//! errors of the quantity, or what the comment says.

use homeostat_core::{Persist, SeedTree, SimTime, Snapshot, Stream};
use homeostat_load::{Arrivals, Level, LoadShape};
use proptest::prelude::*;

fn stream(name: &str) -> Stream {
    SeedTree::new(11).stream(name)
}

/// Requests in each window of `window_s` seconds.
fn counts(shape: &LoadShape, windows: usize, window_s: f64, rng: Stream) -> Vec<f64> {
    let mut arrivals = Arrivals::new(shape, rng).unwrap();
    let mut counts = vec![0.0; windows];
    while let Some(at) = arrivals.next_arrival() {
        let window = (at.seconds() / window_s) as usize;
        if window >= windows {
            break;
        }
        counts[window] += 1.0;
    }
    counts
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

fn autocorrelation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let neighbours: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    neighbours / values.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
}

#[test]
fn poisson_counts_have_equal_mean_and_variance() {
    let counts = counts(&LoadShape::Poisson { per_second: 5.0 }, 20_000, 1.0, stream("poisson"));
    assert!((mean(&counts) - 5.0).abs() < 4.0 * (5.0f64 / 20_000.0).sqrt());
    // The variance of a Poisson sample variance is about 2 mean^2 / n.
    assert!((variance(&counts) / 5.0 - 1.0).abs() < 4.0 * (2.0f64 / 20_000.0).sqrt() * 1.2);
    assert!(autocorrelation(&counts).abs() < 4.0 / (20_000f64).sqrt());
}

#[test]
fn flat_requests_keep_their_distance() {
    let mut arrivals = Arrivals::new(&LoadShape::Flat { per_second: 4.0 }, stream("flat")).unwrap();
    let times: Vec<f64> = (0..8).map(|_| arrivals.next_arrival().unwrap().seconds()).collect();
    assert_eq!(times, [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]);
}

#[test]
fn bursts_are_as_bursty_as_theory_says() {
    let (calm, burst, calm_s, burst_s) = (1.0, 20.0, 8.0, 2.0);
    let shape =
        LoadShape::Bursty { calm_per_second: calm, burst_per_second: burst, calm_s, burst_s };
    let window = 400.0;
    let counts = counts(&shape, 4_000, window, stream("bursty"));
    let expect = (calm * calm_s + burst * burst_s) / (calm_s + burst_s);
    assert!((mean(&counts) / window / expect - 1.0).abs() < 0.03, "{}", mean(&counts) / window);
    // Asymptotic index of dispersion of a two-state Markov-modulated Poisson process, with
    // a and b the rates of leaving calm and burst; the window is 80 times the memory.
    let (a, b) = (1.0 / calm_s, 1.0 / burst_s);
    let dispersion =
        1.0 + 2.0 * (burst - calm).powi(2) * a * b / ((a + b).powi(2) * (calm * b + burst * a));
    let got = variance(&counts) / mean(&counts);
    assert!((got / dispersion - 1.0).abs() < 0.1, "{got} against {dispersion}");
}

#[test]
fn a_wandering_rate_keeps_its_mean_and_persists() {
    let shape =
        LoadShape::Fluctuating { per_second: 50.0, spread: 0.5, persistence: 0.9, every_s: 1.0 };
    let counts = counts(&shape, 100_000, 1.0, stream("wander"));
    // Twenty steps of memory leave some five thousand independent rates of spread 0.53.
    assert!((mean(&counts) / 50.0 - 1.0).abs() < 4.0 * 0.53 / 5_000f64.sqrt(), "{}", mean(&counts));
    // Neighbouring rates are lognormal with correlation 0.9 of their logarithms.
    let (wide, shared) = ((0.25f64).exp() - 1.0, (0.25f64 * 0.9).exp() - 1.0);
    let expect = shared / (wide + 1.0 / 50.0);
    let got = autocorrelation(&counts);
    assert!((got - expect).abs() < 0.03, "{got} against {expect}");
}

#[test]
fn a_day_swings_around_its_mean() {
    let shape = LoadShape::Diurnal { per_second: 20.0, swing: 0.8, period_s: 100.0 };
    let counts = counts(&shape, 40_000, 25.0, stream("diurnal"));
    // The four quarters of a sine: its mean over the first half is 2 / pi.
    let quarter =
        |k: usize| mean(&counts.iter().skip(k).step_by(4).copied().collect::<Vec<_>>()) / 25.0;
    let swing = 20.0 * 0.8 * 2.0 / std::f64::consts::PI;
    for (k, expect) in [(0, 20.0 + swing), (1, 20.0 + swing), (2, 20.0 - swing), (3, 20.0 - swing)]
    {
        let error = (expect / (25.0 * 10_000.0)).sqrt();
        assert!(
            (quarter(k) - expect).abs() < 4.0 * error,
            "quarter {k}: {} against {expect}",
            quarter(k)
        );
    }
}

#[test]
fn spikes_and_steps_begin_and_end_on_time() {
    let spike = LoadShape::Spike {
        base_per_second: 10.0,
        peak_per_second: 200.0,
        start_s: 5.0,
        length_s: 5.0,
    };
    let spiked = counts(&spike, 4, 5.0, stream("spike"));
    for (count, expect) in spiked.iter().zip([50.0f64, 1000.0, 50.0, 50.0]) {
        assert!((count - expect).abs() < 4.0 * expect.sqrt(), "{spiked:?}");
    }
    let level = |start_s, per_second| Level { start_s, per_second };
    let steps = LoadShape::Steps(vec![
        level(5.0, 100.0),
        level(10.0, 0.0),
        level(15.0, 50.0),
        level(20.0, 0.0),
    ]);
    let stepped = counts(&steps, 5, 5.0, stream("steps"));
    assert_eq!((stepped[0], stepped[2], stepped[4]), (0.0, 0.0, 0.0));
    assert!((stepped[1] - 500.0).abs() < 90.0 && (stepped[3] - 250.0).abs() < 64.0, "{stepped:?}");
}

#[test]
fn a_load_that_falls_silent_ends() {
    let level = |start_s, per_second| Level { start_s, per_second };
    let shape = LoadShape::Steps(vec![level(0.0, 10.0), level(1.0, 0.0)]);
    let mut arrivals = Arrivals::new(&shape, stream("silent")).unwrap();
    let seen = std::iter::from_fn(|| arrivals.next_arrival()).count();
    assert!((1..40).contains(&seen), "{seen}");
    assert_eq!(arrivals.next_arrival(), None);
}

fn shapes() -> impl Strategy<Value = LoadShape> {
    prop_oneof![
        (0.1f64..100.0).prop_map(|per_second| LoadShape::Poisson { per_second }),
        (0.1f64..100.0).prop_map(|per_second| LoadShape::Flat { per_second }),
        (0.1f64..100.0, 0.0f64..1.0, 0.0f64..0.99, 0.1f64..20.0).prop_map(
            |(per_second, spread, persistence, every_s)| {
                LoadShape::Fluctuating { per_second, spread, persistence, every_s }
            }
        ),
        (0.1f64..100.0, 0.0f64..1.0, 1.0f64..500.0).prop_map(|(per_second, swing, period_s)| {
            LoadShape::Diurnal { per_second, swing, period_s }
        }),
        (0.0f64..10.0, 1.0f64..100.0, 0.1f64..20.0, 0.1f64..20.0).prop_map(
            |(calm_per_second, burst_per_second, calm_s, burst_s)| LoadShape::Bursty {
                calm_per_second,
                burst_per_second,
                calm_s,
                burst_s,
            }
        ),
    ]
}

proptest! {
    #[test]
    fn time_moves_forward_and_a_restored_process_goes_on_alike(shape in shapes(), seed in any::<u64>(), played in 0usize..100) {
        let mut arrivals = Arrivals::new(&shape, Stream::from_seed(seed)).unwrap();
        let mut last = SimTime::ZERO;
        for _ in 0..played {
            let at = arrivals.next_arrival().unwrap();
            prop_assert!(at > last);
            last = at;
        }
        let mut snapshot = Snapshot::default();
        arrivals.save("a", &mut snapshot);
        let mut restored = Arrivals::new(&shape, Stream::from_seed(0)).unwrap();
        restored.load("a", &snapshot).unwrap();
        for _ in 0..50 {
            prop_assert_eq!(arrivals.next_arrival(), restored.next_arrival());
        }
    }
}
