//! Random platforms under random treatment: no request is lost or made up, nothing is
//! overcommitted, and a platform that was saved goes on as if it had not been.

use homeostat_core::{Persist, SimDuration, Snapshot, Stream};
use homeostat_load::LoadShape;
use homeostat_sim_faas::{Contention, FunctionId, Platform, PlatformConfig, Scaling, catalogue};
use proptest::prelude::*;

use crate::setup::{allocation, ideal, platform, quiet, set, with_load};

/// A platform with three functions under load; one of them scales itself.
fn loaded_platform(seed: u64, slots: u32) -> (Platform, Vec<FunctionId>) {
    let config = PlatformConfig { slots, contention: Contention::MEASURED, ..ideal(2, 3.0, 3) };
    let mut platform = platform(config);
    let profiles = catalogue();
    let ids = (0..3)
        .map(|number| {
            let profile = profiles[(seed as usize + 5 * number) % profiles.len()].clone();
            let per_second = 1.2 / profile.cpu.seconds();
            let shape =
                LoadShape::Fluctuating { per_second, spread: 0.6, persistence: 0.8, every_s: 5.0 };
            let mut setup = with_load(quiet(profile, allocation(2, 1000, 512)), &shape, seed);
            if number == 2 {
                setup.scaling =
                    Scaling::OnDemand { keep_alive: SimDuration::from_secs(5), most: 4 };
            }
            platform.add_function(setup).unwrap()
        })
        .collect();
    (platform, ids)
}

/// One random treatment.
fn treat(platform: &mut Platform, ids: &[FunctionId], rng: &mut Stream) {
    let id = ids[rng.below(ids.len())];
    match rng.below(9) {
        // A removed function takes no more wishes; its requests stay counted.
        8 if ids.len() > 1 && rng.below(10) == 0 => drop(platform.remove_function(ids[1])),
        8 => drop(platform.send(id)),
        0 => drop(platform.fail_node(rng.below(2))),
        1 => {
            platform.restore_node(0).unwrap();
            platform.restore_node(1).unwrap();
        }
        _ => {
            let wish = allocation(
                rng.below(6) as u32,
                125 + 125 * rng.below(15) as u64,
                64 + 64 * rng.below(10) as u64,
            );
            // The function may be gone.
            drop(set(platform, id, wish));
        }
    }
}

fn check_conserved(platform: &mut Platform, ids: &[FunctionId]) -> Result<(), TestCaseError> {
    for id in ids {
        let totals = platform.totals(*id);
        let settled = totals.completed + totals.timed_out + totals.failed;
        prop_assert_eq!(totals.arrived, settled + platform.inside(*id));
        prop_assert!(totals.slo_violations <= settled);
        prop_assert_eq!(totals.latency.count(), settled);
    }
    prop_assert!(platform.cpu_in_use() <= 1.0 + 1e-9);
    prop_assert!(platform.memory_in_use() <= 1.0 + 1e-9);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn requests_are_conserved_whatever_is_done(seed in 0u64..1000, slots in 1u32..4) {
        let (mut platform, ids) = loaded_platform(seed, slots);
        let mut rng = Stream::from_seed(seed);
        for _ in 0..40 {
            treat(&mut platform, &ids, &mut rng);
            platform.run_for(SimDuration::from_millis(700));
            check_conserved(&mut platform, &ids)?;
        }
        prop_assert!(platform.totals(ids[0]).arrived > 0);
    }

    #[test]
    fn a_restored_platform_goes_on_bit_for_bit(seed in 0u64..1000, pause in 1usize..20) {
        let run = |stop: Option<usize>| {
            let (mut platform, ids) = loaded_platform(seed, 1);
            let mut rng = Stream::from_seed(seed);
            let mut windows = Vec::new();
            for step in 0..20 {
                if stop == Some(step) {
                    let mut snapshot = Snapshot::default();
                    platform.save("p", &mut snapshot);
                    platform = loaded_platform(seed, 1).0;
                    platform.load("p", &snapshot).unwrap();
                }
                treat(&mut platform, &ids, &mut rng);
                platform.run_for(SimDuration::from_millis(1300));
                windows.extend(ids.iter().map(|id| platform.close_window(*id)));
            }
            (windows, ids.iter().map(|id| platform.totals(*id)).collect::<Vec<_>>())
        };
        // Not compared with `eq!`: a difference would print thousands of counts.
        prop_assert!(run(Some(pause)) == run(None));
    }
}
