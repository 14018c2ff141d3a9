//! Carries out leases: gives devices back as they were.

use std::fmt;

use crate::gpu::{Gpu, GpuError};
use crate::lease::{Former, LeaseDirectory, LeaseError, LockedDevice};

/// Devices with leases, and what became of each.
pub type RestoredDevices = Vec<(String, Result<Restored, RestoreError>)>;

/// What became of a lease.
#[derive(Debug)]
pub enum Restored {
    /// The device is as it was before.
    Done,
    /// The clocks are unlocked; what the power limit was is not known.
    ClocksOnly,
    /// The machine was started again since: nothing of the lease is left in the device.
    OtherBoot,
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "restored",
            Self::ClocksOnly => {
                "clocks unlocked; its lease could not be read: compare the power limit with `nvidia-smi -q -d POWER`"
            }
            Self::OtherBoot => "nothing to restore: the machine was started again since",
        })
    }
}

/// Why a device is not as it was.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It has an owner, or its lease is out of reach.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The device refused. The lease stays.
    #[error(
        "{uuid} is not restored: {source}; then run `homeostat governor restore` again, or `nvidia-smi -i {uuid} -rgc`"
    )]
    Gpu {
        /// The device.
        uuid: String,
        /// Why.
        source: GpuError,
    },
    /// The device is not there. The lease stays.
    #[error(
        "{uuid} has a lease and is not among the GPUs: bring it back, or remove {uuid}.json from the directory of leases"
    )]
    Absent {
        /// The device.
        uuid: String,
    },
}

/// Gives a device back as its lease says.
pub fn carry_out(former: &Former, gpu: &mut impl Gpu) -> Result<Restored, GpuError> {
    match former {
        Former::Unreadable(_) => gpu.unlock().map(|()| Restored::ClocksOnly),
        Former::Lease(lease) => {
            let unlocked = gpu.unlock();
            // Both, even if one fails.
            let power = lease.power_limit_mw.map_or(Ok(()), |limit| gpu.set_power_limit(limit));
            unlocked.and(power).map(|()| Restored::Done)
        }
    }
}

/// Carries out the lease of a device and removes it; nothing without a lease.
fn restore(
    locked: &LockedDevice,
    gpu: Option<&mut impl Gpu>,
) -> Result<Option<Restored>, RestoreError> {
    let Some(former) = locked.former()? else { return Ok(None) };
    if let Former::Lease(lease) = &former
        && !lease.owner.is_of_this_boot()
    {
        locked.clear()?;
        return Ok(Some(Restored::OtherBoot));
    }
    let uuid = locked.uuid().to_owned();
    let Some(gpu) = gpu else { return Err(RestoreError::Absent { uuid }) };
    let restored = carry_out(&former, gpu);
    let restored = restored.map_err(|source| RestoreError::Gpu { uuid, source })?;
    locked.clear()?;
    Ok(Some(restored))
}

/// Restores the device of every abandoned lease. Devices with an owner are an error, and left alone.
pub fn restore_all(
    leases: &LeaseDirectory,
    gpus: &mut [impl Gpu],
) -> Result<RestoredDevices, LeaseError> {
    let one = |uuid: String| {
        let gpu = gpus.iter_mut().find(|gpu| gpu.uuid() == uuid);
        let restored = match leases.lock(&uuid) {
            Ok(locked) => restore(&locked, gpu),
            Err(error) => Err(error.into()),
        };
        Some((uuid, restored.transpose()?))
    };
    Ok(leases.devices()?.into_iter().filter_map(one).collect())
}
