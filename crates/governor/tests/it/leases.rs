//! Leases are carried out whatever happened to their owner.

use homeostat_governor::governor::DeviceGovernor;
use homeostat_governor::lease::{Former, Lease, LeaseDirectory};
use homeostat_governor::process_identity::ProcessIdentity;
use homeostat_governor::restore::{RestoreError, Restored, restore_all};
use homeostat_governor::settings::Settings;

use crate::device::TestGpu;

const UUID: &str = "GPU-1";

fn settings() -> Settings {
    Settings::parse(
        "[source]\nmetrics = \"http://127.0.0.1:1/metrics\"\n[[objectives]]\nmodel = \"m\"\nslo_ms = 1.0\n\
         [[devices]]\ngpu = \"0\"\nmodels = [\"m\"]\npower_limit_w = 500.0\n",
    )
    .unwrap()
}

fn abandoned(owner: ProcessIdentity) -> Lease {
    Lease { uuid: UUID.to_owned(), gpu: "A".to_owned(), power_limit_mw: Some(600_000), owner }
}

/// A device at a lowered clock, with the lease of a process that is gone.
fn scene(
    owner: impl FnOnce(ProcessIdentity) -> ProcessIdentity,
) -> (tempfile::TempDir, LeaseDirectory, TestGpu) {
    let place = tempfile::tempdir().unwrap();
    let leases = LeaseDirectory(place.path().to_owned());
    let gpu = TestGpu::new(UUID);
    gpu.state.borrow_mut().limit = Some(900);
    let own = ProcessIdentity::own().unwrap();
    leases.lock(UUID).unwrap().write(&abandoned(owner(own))).unwrap();
    (place, leases, gpu)
}

#[test]
fn a_number_that_is_used_again_does_not_keep_a_lease_alive() {
    let (_place, leases, mut gpu) =
        scene(|own| ProcessIdentity { started_ticks: own.started_ticks - 1, ..own });
    let restored = restore_all(&leases, std::slice::from_mut(&mut gpu)).unwrap();
    assert!(matches!(restored[..], [(_, Ok(Restored::Done))]), "{restored:?}");
    assert_eq!((gpu.state.borrow().limit, gpu.state.borrow().power_limit), (None, 600_000));
    assert_eq!(leases.devices().unwrap(), Vec::<String>::new());
}

#[test]
fn a_lease_of_before_a_restart_of_the_machine_changes_nothing() {
    let (_place, leases, mut gpu) =
        scene(|own| ProcessIdentity { boot_id: "earlier".to_owned(), ..own });
    let restored = restore_all(&leases, std::slice::from_mut(&mut gpu)).unwrap();
    assert!(matches!(restored[..], [(_, Ok(Restored::OtherBoot))]), "{restored:?}");
    assert_eq!((gpu.state.borrow().limit, gpu.state.borrow().power_limit), (Some(900), 700_000));
    assert_eq!(leases.devices().unwrap(), Vec::<String>::new());
}

#[test]
fn a_lease_that_cannot_be_read_still_unlocks_the_clocks() {
    let (place, leases, mut gpu) = scene(|own| own);
    std::fs::write(place.path().join("GPU-1.json"), "{").unwrap();
    let restored = restore_all(&leases, std::slice::from_mut(&mut gpu)).unwrap();
    assert!(matches!(restored[..], [(_, Ok(Restored::ClocksOnly))]), "{restored:?}");
    assert_eq!(gpu.state.borrow().limit, None);
}

#[test]
fn what_is_not_restored_keeps_its_lease() {
    let (_place, leases, mut gpu) = scene(|own| ProcessIdentity { started_ticks: 0, ..own });
    let nothing: &mut [TestGpu] = &mut [];
    let absent = restore_all(&leases, nothing).unwrap();
    assert!(matches!(absent[..], [(_, Err(RestoreError::Absent { .. }))]), "{absent:?}");
    gpu.state.borrow_mut().fails = true;
    let refused = restore_all(&leases, std::slice::from_mut(&mut gpu)).unwrap();
    assert!(matches!(refused[..], [(_, Err(RestoreError::Gpu { .. }))]), "{refused:?}");
    assert_eq!(leases.devices().unwrap(), [UUID]);
}

#[test]
fn a_governor_restores_its_device_even_in_a_panic_and_without_its_lease_on_the_disk() {
    let settings = settings();
    let place = tempfile::tempdir().unwrap();
    let leases = LeaseDirectory(place.path().to_owned());
    let gpu = TestGpu::new(UUID);
    let acting = || {
        let device = &settings.devices[0];
        let mut governor = DeviceGovernor::new(gpu.clone(), device, &settings).unwrap();
        governor.act(leases.lock(UUID).unwrap(), device).unwrap();
        gpu.state.borrow_mut().limit = Some(900);
        assert_eq!(gpu.state.borrow().power_limit, 500_000);
        governor
    };
    let restored = || (gpu.state.borrow().limit, gpu.state.borrow().power_limit);
    let governor = acting();
    let owned = leases.lock(UUID).unwrap_err().to_string();
    assert!(owned.contains("is governed by process"), "{owned}");
    std::fs::remove_file(place.path().join("GPU-1.json")).unwrap();
    drop(governor);
    assert_eq!(restored(), (None, 700_000));

    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _governor = acting();
        panic!("in the middle of a period");
    }));
    assert!(panicked.is_err());
    assert_eq!(restored(), (None, 700_000));
    assert_eq!(leases.lock(UUID).unwrap().former().unwrap(), None::<Former>);
}
