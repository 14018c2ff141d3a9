//! The interfaces of NVIDIA's driver: CUDA to run kernels, NVML to read clocks and power.
//!
//! Both are opened at run time, so that the program builds and starts without them. Only these modules
//! call foreign functions. None of the functions that they name changes a clock, a power limit or any
//! other setting of a card.
#![expect(unsafe_code, reason = "foreign functions of the driver; each block says why it is sound")]

mod cuda;
mod nvml;

pub(crate) use cuda::{Argument, Buffer, Context, Cuda, Device, Kernel};
pub(crate) use nvml::{Nvml, NvmlDevice};

/// What the driver refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum DriverError {
    /// The library is absent.
    #[error(
        "there is no CUDA driver on this machine ({reason}): install NVIDIA's driver, so that `nvidia-smi` lists the \
         card, or run this on the machine that has the card"
    )]
    NoDriver { reason: String },
    /// The library is too old.
    #[error("{library} has no function {function}: install a newer driver")]
    TooOld { library: &'static str, function: &'static str },
    /// The driver runs and has no card.
    #[error(
        "the CUDA driver finds no GPU: check that `nvidia-smi` lists one, and CUDA_VISIBLE_DEVICES"
    )]
    NoDevice,
    /// A number beyond the cards of this machine.
    #[error("there is no GPU {index}: this machine has {count}, counted from 0")]
    UnknownDevice { index: u32, count: u32 },
    /// A card that the kernels are not made for.
    #[error(
        "{name} has compute capability {major}.{minor}: 7.0 or more is needed (V100 and later)"
    )]
    TooOldDevice { name: String, major: i32, minor: i32 },
    /// A call failed.
    #[error("the CUDA driver failed to {what}: {reason}")]
    Failed { what: &'static str, reason: String },
}
