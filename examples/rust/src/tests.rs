use homeostat_core::Snapshot;
use homeostat_env::{Action, check_env};
use homeostat_lab::{EnvFactory, Environments};

fn factory() -> EnvFactory {
    EnvFactory::with_defaults(&Environments::builtin().with_plants(&crate::queue::SIMULATOR))
        .unwrap()
}

#[test]
fn the_queue_keeps_the_contract_of_environments() {
    let factory = factory();
    let findings = check_env(&|| factory.make("queue/mmc-v1", 0).unwrap());
    assert!(findings.is_empty(), "{findings:?}");
    assert!(factory.make("queue/mm1-v1", 0).is_err(), "another id is refused");
}

#[test]
fn a_saved_queue_goes_on_bit_for_bit() {
    let factory = factory();
    let mut unbroken = factory.make("queue/mmc-v1", 0).unwrap();
    unbroken.reset(Some(3)).unwrap();
    let play = |env: &mut dyn homeostat_env::Env| -> Vec<f64> {
        (0..20).map(|step| env.step(&Action::Discrete(5 + step % 2)).unwrap().reward).collect()
    };
    play(unbroken.as_mut());
    let mut saved = Snapshot::default();
    unbroken.save("env", &mut saved);
    let mut resumed = factory.make("queue/mmc-v1", 0).unwrap();
    resumed.load("env", &saved).unwrap();
    assert_eq!(play(unbroken.as_mut()), play(resumed.as_mut()));
}
