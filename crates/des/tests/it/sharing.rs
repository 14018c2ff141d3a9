//! Shares by hand, and against a fluid simulation without classes or virtual clocks.

use homeostat_core::{Persist, SimDuration, SimTime, Snapshot, Stream};
use homeostat_des::{ClassId, ContentionCost, KINDS, SharedProcessor};
use proptest::prelude::*;

fn seconds(seconds: f64) -> SimDuration {
    SimDuration::from_seconds(seconds).unwrap()
}

fn at(time: f64) -> SimTime {
    SimTime::ZERO + seconds(time)
}

/// Runs until idle and returns each job with its finish time in seconds.
fn drain(processor: &mut SharedProcessor<u64>) -> Vec<(u64, f64)> {
    let mut done = Vec::new();
    while let Some(now) = processor.next_finish() {
        while let Some(finished) = processor.finish(now) {
            done.push((finished.job, now.seconds()));
        }
    }
    done
}

fn assert_close(got: &[(u64, f64)], expect: &[(u64, f64)]) {
    assert_eq!(got.len(), expect.len(), "{got:?}");
    for ((job, time), (other, expect)) in got.iter().zip(expect) {
        assert_eq!(job, other, "{got:?}");
        assert!((time - expect).abs() < 1e-6, "{got:?}");
    }
}

#[test]
fn two_jobs_share_one_core_two_to_one() {
    let mut processor = SharedProcessor::new(1.0).unwrap();
    let heavy = processor.add_class(2.0, 1.0).unwrap();
    let light = processor.add_class(1.0, 1.0).unwrap();
    processor.start(at(0.0), heavy, seconds(2.0), 1);
    processor.start(at(0.0), light, seconds(2.0), 2);
    // 2/3 and 1/3 of a core until 3 s; then the light one, half done, has it alone.
    assert_close(&drain(&mut processor), &[(1, 3.0), (2, 4.0)]);
}

#[test]
fn what_a_capped_job_leaves_goes_to_the_others() {
    let mut processor = SharedProcessor::new(4.0).unwrap();
    let single = processor.add_class(100.0, 1.0).unwrap();
    let wide = processor.add_class(1.0, 8.0).unwrap();
    processor.start(at(0.0), single, seconds(1.0), 1);
    processor.start(at(0.0), wide, seconds(7.0), 2);
    assert_eq!((processor.rate(single), processor.rate(wide)), (1.0, 3.0));
    // 3 of 7 after one second, the remaining 4 on all four cores.
    assert_close(&drain(&mut processor), &[(1, 1.0), (2, 2.0)]);
}

#[test]
fn a_processor_that_is_not_full_gives_everybody_its_cap() {
    let mut processor = SharedProcessor::new(8.0).unwrap();
    let class = processor.add_class(1.0, 1.0).unwrap();
    for job in 0..5 {
        processor.start(at(0.0), class, seconds(1.0 + job as f64), job);
    }
    assert_eq!((processor.rate(class), processor.used()), (1.0, 5.0));
    assert_close(&drain(&mut processor), &[(0, 1.0), (1, 2.0), (2, 3.0), (3, 4.0), (4, 5.0)]);
}

#[test]
fn weights_caps_and_cores_change_while_jobs_run() {
    let mut processor = SharedProcessor::new(1.0).unwrap();
    let a = processor.add_class(1.0, 1.0).unwrap();
    let b = processor.add_class(1.0, 1.0).unwrap();
    processor.start(at(0.0), a, seconds(2.0), 1);
    processor.start(at(0.0), b, seconds(2.0), 2);
    // Half a core each: at 1 s both have had 0.5 s. Then three to one: at 2 s the first
    // has had 1.25 s, the second 0.75 s. Then two cores: one for each.
    processor.set_weight(at(1.0), a, 3.0).unwrap();
    processor.set_cores(at(2.0), 2.0).unwrap();
    // From 2.5 s on the second may use a quarter only: 1.25 s done, 0.75 s to go.
    processor.set_cap(at(2.5), b, 0.25).unwrap();
    assert_close(&drain(&mut processor), &[(1, 2.75), (2, 5.5)]);
}

#[test]
fn removed_jobs_free_their_share() {
    let mut processor = SharedProcessor::new(1.0).unwrap();
    let class = processor.add_class(1.0, 1.0).unwrap();
    processor.start(at(0.0), class, seconds(1.0), 1);
    processor.start(at(0.0), class, seconds(9.0), 2);
    assert_eq!(processor.remove(at(1.0), class, |job| *job == 2), [2]);
    assert_close(&drain(&mut processor), &[(1, 1.5)]);
}

#[test]
fn contention_costs_time_and_the_time_is_cpu_time() {
    let mut processor = SharedProcessor::new(2.0).unwrap();
    let class = processor.add_class(1.0, 1.0).unwrap();
    let strain = ContentionCost { shared: 0.1, overload: 0.5 };
    processor.set_contention(at(0.0), [strain; KINDS]).unwrap();
    for job in 0..4 {
        processor.start(at(0.0), class, seconds(1.0), job);
    }
    // Twice as many threads as cores: 1.6 s of CPU time for each second of work, and half a
    // core for each of them.
    assert!((processor.speed(class) - 1.0 / 1.6).abs() < 1e-12);
    let all_at = |time| [(0, time), (1, time), (2, time), (3, time)];
    assert_close(&drain(&mut processor), &all_at(3.2));
    assert!((processor.cpu_time(at(4.0), class) / 1e9 - 6.4).abs() < 1e-6);
    // Alone it feels nothing.
    processor.start(at(4.0), class, seconds(1.0), 9);
    assert_close(&drain(&mut processor), &[(9, 5.0)]);
}

#[test]
fn a_kind_shares_caches_with_its_own_and_is_switched_with_everybody() {
    let mut processor = SharedProcessor::new(2.0).unwrap();
    let streaming = processor.add_class_of_kind(1.0, 1.0, 1).unwrap();
    let plain = processor.add_class(1.0, 1.0).unwrap();
    let mut strains = [ContentionCost::default(); KINDS];
    strains[1] = ContentionCost { shared: 0.4, overload: 0.1 };
    processor.set_contention(at(0.0), strains).unwrap();
    processor.start(at(0.0), streaming, seconds(1.0), 1);
    processor.start(at(0.0), plain, seconds(1.0), 2);
    assert_eq!((processor.speed(plain), processor.speed(streaming)), (1.0, 1.0 / 1.2));
    processor.start(at(0.0), streaming, seconds(1.0), 3);
    // Two of three are of its kind, and there is half a thread too many for each core.
    assert!((1.0 / processor.speed(streaming) - 1.0 - 0.4 * 2.0 / 3.0 - 0.05).abs() < 1e-12);
    assert!(processor.add_class_of_kind(1.0, 1.0, KINDS).is_err());
}

#[test]
fn cpu_time_is_what_each_class_had_while_weights_changed() {
    let mut processor = SharedProcessor::new(1.0).unwrap();
    let a = processor.add_class(1.0, 1.0).unwrap();
    let b = processor.add_class(3.0, 1.0).unwrap();
    processor.start(at(0.0), a, seconds(9.0), 1);
    processor.start(at(2.0), b, seconds(9.0), 2);
    processor.set_weight(at(4.0), b, 1.0).unwrap();
    // Two seconds alone, two at a quarter, two at a half.
    let used = |processor: &mut SharedProcessor<u64>, class| processor.cpu_time(at(6.0), class);
    assert!((used(&mut processor, a) / 1e9 - 3.5).abs() < 1e-9);
    assert!((used(&mut processor, b) / 1e9 - 2.5).abs() < 1e-9);
}

#[test]
fn impossible_numbers_are_refused() {
    let mut processor = SharedProcessor::<u64>::new(1.0).unwrap();
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(SharedProcessor::<u64>::new(value).is_err());
        assert!(processor.add_class(value, 1.0).is_err());
        assert!(processor.add_class(1.0, value).is_err());
    }
    for value in [-0.1, f64::NAN, f64::INFINITY] {
        let strain = ContentionCost { shared: 0.0, overload: value };
        assert!(processor.set_contention(at(0.0), [strain; KINDS]).is_err());
    }
}

/// A job of a random schedule.
#[derive(Debug, Clone)]
struct Job {
    start: f64,
    class: usize,
    work: f64,
}

/// Every job by itself: rates by bisection of the level, then on to the next event.
fn fluid(cores: f64, classes: &[(f64, f64)], jobs: &[Job]) -> Vec<f64> {
    let mut left: Vec<f64> = jobs.iter().map(|job| job.work).collect();
    let mut ends = vec![f64::NAN; jobs.len()];
    let mut now = 0.0;
    loop {
        let busy: Vec<usize> = (0..jobs.len())
            .filter(|i| jobs[*i].start <= now + 1e-12 && ends[*i].is_nan())
            .collect();
        let next_start = jobs
            .iter()
            .map(|job| job.start)
            .filter(|start| *start > now + 1e-12)
            .fold(f64::INFINITY, f64::min);
        if busy.is_empty() && next_start.is_infinite() {
            return ends;
        }
        let rate = |i: usize, level: f64| {
            let (weight, cap) = classes[jobs[i].class];
            (weight * level).min(cap)
        };
        let (mut low, mut high) = (0.0, 1e6);
        for _ in 0..200 {
            let level = 0.5 * (low + high);
            if busy.iter().map(|i| rate(*i, level)).sum::<f64>() < cores {
                low = level
            } else {
                high = level
            }
        }
        let next_end =
            busy.iter().map(|i| now + left[*i] / rate(*i, low)).fold(f64::INFINITY, f64::min);
        let next = next_end.min(next_start);
        for i in &busy {
            left[*i] -= rate(*i, low) * (next - now);
            if left[*i] <= 1e-9 {
                ends[*i] = next;
            }
        }
        now = next;
    }
}

fn schedules() -> impl Strategy<Value = (f64, Vec<(f64, f64)>, Vec<Job>)> {
    let classes = prop::collection::vec((0.1f64..10.0, 0.25f64..4.0), 1..5);
    (
        0.5f64..8.0,
        classes,
        prop::collection::vec((0.0f64..5.0, any::<prop::sample::Index>(), 0.01f64..3.0), 1..25),
    )
        .prop_map(|(cores, classes, jobs)| {
            let mut jobs: Vec<Job> = jobs
                .into_iter()
                .map(|(start, class, work)| Job { start, class: class.index(classes.len()), work })
                .collect();
            jobs.sort_by(|a, b| a.start.total_cmp(&b.start));
            (cores, classes, jobs)
        })
}

/// Plays a schedule; after `pause` starts the processor is saved and restored.
fn play(cores: f64, classes: &[(f64, f64)], jobs: &[Job], pause: Option<usize>) -> Vec<f64> {
    let mut processor = SharedProcessor::new(cores).unwrap();
    let ids: Vec<ClassId> =
        classes.iter().map(|(weight, cap)| processor.add_class(*weight, *cap).unwrap()).collect();
    let mut ends = vec![f64::NAN; jobs.len()];
    let mut collect = |processor: &mut SharedProcessor<u64>, until: SimTime| {
        while let Some(now) = processor.next_finish().filter(|now| *now <= until) {
            while let Some(finished) = processor.finish(now) {
                ends[finished.job as usize] = now.seconds();
            }
        }
    };
    for (number, job) in jobs.iter().enumerate() {
        collect(&mut processor, at(job.start));
        processor.start(at(job.start), ids[job.class], seconds(job.work), number as u64);
        assert!(processor.used() <= cores * (1.0 + 1e-9));
        if pause == Some(number) {
            let mut snapshot = Snapshot::default();
            processor.save("p", &mut snapshot);
            processor = SharedProcessor::new(1.0).unwrap();
            processor.load("p", &snapshot).unwrap();
        }
    }
    collect(&mut processor, SimTime::from_nanos(u64::MAX));
    ends
}

proptest! {
    #[test]
    fn finish_times_are_those_of_the_fluid((cores, classes, jobs) in schedules()) {
        let got = play(cores, &classes, &jobs, None);
        let expect = fluid(cores, &classes, &jobs);
        for (got, expect) in got.iter().zip(&expect) {
            // Every event rounds up to a nanosecond.
            prop_assert!((got - expect).abs() < 1e-6, "{:?} against {:?}", got, expect);
        }
    }

    #[test]
    fn a_restored_processor_goes_on_bit_for_bit((cores, classes, jobs) in schedules(), pause in any::<prop::sample::Index>()) {
        let pause = pause.index(jobs.len());
        prop_assert_eq!(play(cores, &classes, &jobs, Some(pause)), play(cores, &classes, &jobs, None));
    }

    #[test]
    fn rates_conserve_work(cores in 0.5f64..16.0, classes in prop::collection::vec((0.1f64..10.0, 0.25f64..4.0, 0usize..6), 1..6)) {
        let mut processor = SharedProcessor::new(cores).unwrap();
        let mut wanted = 0.0;
        let mut rng = Stream::from_seed(1);
        for (weight, cap, busy) in &classes {
            let class = processor.add_class(*weight, *cap).unwrap();
            for _ in 0..*busy {
                processor.start(SimTime::ZERO, class, seconds(rng.range(1.0, 2.0)), 0u64);
            }
            wanted += cap * *busy as f64;
        }
        prop_assert!((processor.used() - wanted.min(cores)).abs() < 1e-9 * cores);
    }
}
