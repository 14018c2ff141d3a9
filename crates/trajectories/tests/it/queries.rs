use homeostat_trajectories::{Error, Filter, Origin, Pruned, Retention, TrajectoryId};

use crate::setup::{Place, origin, record, transition, transitions};

fn of(workload: &str) -> Filter {
    Filter { workload: Some(workload.to_owned()), policy: None }
}

#[test]
fn the_best_trajectories_are_those_with_the_highest_mean_reward() {
    let place = Place::new();
    let mut store = place.store();
    let shop = origin("shop", "hpa");
    let long = record(&mut store, &shop, &[0.5; 10]);
    let best = record(&mut store, &shop, &[0.9, 0.7]);
    record(&mut store, &shop, &[0.1]);
    record(&mut store, &origin("mail", "hpa"), &[1.0]);
    // An open trajectory is not finished business: it may still become worse.
    let mut writer = store.write().unwrap();
    let open = writer.begin(&shop).unwrap();
    writer.append(open, &transition(0, 5.0)).unwrap();
    writer.commit().unwrap();

    let found = store.best(&of("shop"), 2).unwrap();
    assert_eq!(found.iter().map(|one| one.id).collect::<Vec<_>>(), [best, long]);
    assert_eq!(store.list(&of("shop")).unwrap().len(), 4);
    let policy = Filter { workload: None, policy: Some("vpa".to_owned()) };
    assert!(store.list(&policy).unwrap().is_empty());
}

#[test]
fn recent_rewards_are_those_of_the_latest_ended_trajectories() {
    let place = Place::new();
    let mut store = place.store();
    for reward in [9.0, 1.0, 2.0, 3.0] {
        record(&mut store, &origin("shop", "hpa"), &[reward]);
        record(&mut store, &origin("mail", "hpa"), &[100.0]);
    }
    let recent = store.recent_rewards(&of("shop"), 3).unwrap();
    assert_eq!((recent.trajectories, recent.mean, recent.deviation), (3, Some(2.0), Some(1.0)));
    let one = store.recent_rewards(&of("shop"), 1).unwrap();
    assert_eq!((one.mean, one.deviation), (Some(3.0), None));
    let none = store.recent_rewards(&of("bank"), 3).unwrap();
    assert_eq!((none.trajectories, none.mean), (0, None));
}

#[test]
fn a_trajectory_goes_on_in_later_transactions_and_ends_once() {
    let place = Place::new();
    let mut store = place.store();
    let mut writer = store.write().unwrap();
    let id = writer.begin(&origin("shop", "hpa")).unwrap();
    writer.append(id, &transition(0, 1.0)).unwrap();
    writer.commit().unwrap();
    drop(store);
    let mut store = place.store();
    let mut writer = store.write().unwrap();
    writer.append(id, &transition(1, 2.0)).unwrap();
    writer.end(id, homeostat_trajectories::End::Terminated, &[0.0, 0.0]).unwrap();
    writer.commit().unwrap();
    let found = store.get(id).unwrap();
    assert_eq!((found.transitions, found.mean_reward()), (2, Some(1.5)));
    assert_eq!(transitions(&store, id), [transition(0, 1.0), transition(1, 2.0)]);
    assert_eq!(store.last_observation(id).unwrap(), Some(vec![0.0, 0.0]));
    let refused = store.write().unwrap().append(id, &transition(2, 0.0)).unwrap_err();
    assert!(matches!(refused, Error::Ended { .. }), "{refused}");
    let missing = store.get(TrajectoryId::from(99)).unwrap_err();
    assert!(matches!(missing, Error::NoSuchTrajectory { .. }), "{missing}");
}

#[test]
fn a_transition_that_does_not_fit_its_schema_or_is_not_finite_is_refused() {
    let place = Place::new();
    let mut store = place.store();
    let mut writer = store.write().unwrap();
    let id = writer.begin(&origin("shop", "hpa")).unwrap();
    writer.append(id, &transition(0, 1.0)).unwrap();
    let good = transition(1, 1.0);
    let mut refuse = |bad, expect: &str| {
        assert_eq!(writer.append(id, &bad).unwrap_err().to_string(), expect);
    };
    refuse(
        homeostat_trajectories::Transition { observation: vec![0.0], ..good.clone() },
        "an observation has 1 numbers, and its schema test/2-features-v1 has 2",
    );
    refuse(
        homeostat_trajectories::Transition { action: vec![f32::NAN], ..good.clone() },
        "an action = NaN cannot be stored: it must be finite",
    );
    refuse(transition(1, f64::INFINITY), "a reward = inf cannot be stored: it must be finite");
    refuse(
        homeostat_trajectories::Transition { probability: Some(0.0), ..good.clone() },
        "a probability = 0 cannot be stored: it must be above zero and finite",
    );
    // The refusals left the transaction as it was.
    writer.append(id, &good).unwrap();
    writer.commit().unwrap();
    assert_eq!(transitions(&store, id), [transition(0, 1.0), good]);
}

#[test]
fn pruning_deletes_the_old_and_keeps_the_best() {
    let place = Place::new();
    let mut store = place.store();
    let at = |recorded_ms| Origin { recorded_ms, ..origin("shop", "hpa") };
    let best = record(&mut store, &at(1), &[9.0, 9.0]);
    record(&mut store, &at(2), &[1.0, 1.0]);
    record(&mut store, &at(3), &[2.0]);
    let last = record(&mut store, &at(4), &[3.0]);
    let other = record(&mut store, &origin("mail", "hpa"), &[1.0]);

    let keep_all = Retention { best: 1, ..Retention::default() };
    assert_eq!(store.prune(&keep_all).unwrap(), Pruned::default());
    let one_each = Retention { latest: Some(1), best: 1, recorded_before_ms: None };
    assert_eq!(store.prunable(&one_each).unwrap(), Pruned { trajectories: 2, transitions: 3 });
    assert_eq!(store.prune(&one_each).unwrap(), Pruned { trajectories: 2, transitions: 3 });
    let left = |store: &homeostat_trajectories::TrajectoryStore| {
        let all = store.list(&Filter::default()).unwrap();
        all.into_iter().map(|one| one.id).collect::<Vec<_>>()
    };
    assert_eq!(left(&store), [best, last, other]);
    assert_eq!(transitions(&store, best).len(), 2);
    let old = Retention { recorded_before_ms: Some(5), ..Retention::default() };
    store.prune(&old).unwrap();
    assert_eq!(left(&store), [other]);
    assert!(transitions(&store, best).is_empty(), "transitions go with their trajectory");
}

#[test]
fn pruning_makes_the_file_smaller() {
    let place = Place::new();
    let mut store = place.store();
    for _ in 0..20 {
        record(&mut store, &origin("shop", "hpa"), &[1.0; 500]);
    }
    let size = || std::fs::metadata(place.path("store.db")).unwrap().len();
    store.prune(&Retention { latest: Some(20), ..Retention::default() }).unwrap();
    let before = size();
    store.prune(&Retention { latest: Some(2), ..Retention::default() }).unwrap();
    assert!(size() < before / 4, "{} of {before} bytes are left", size());
}
