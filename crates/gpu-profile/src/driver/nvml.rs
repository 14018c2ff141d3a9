//! NVIDIA's management library, only to read.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};

use libloading::Library;

const LIBRARY: &str = "libnvidia-ml.so.1";

/// `NVML_CLOCK_SM`
const CLOCK_SM: c_int = 1;

type Status = c_int;
type Handle = *mut c_void;

/// The library. Every reading is optional: without NVML a profile has nominal clocks and no power.
pub(crate) struct Nvml {
    library: Library,
}

/// A card as NVML knows it.
pub(crate) struct NvmlDevice<'a> {
    nvml: &'a Nvml,
    handle: Handle,
}

type ReadNumber = unsafe extern "C" fn(Handle, *mut c_uint) -> Status;
type ReadClock = unsafe extern "C" fn(Handle, c_int, *mut c_uint) -> Status;

impl Nvml {
    /// Opens the library; none if it is absent or does not start.
    pub(crate) fn open() -> Option<Self> {
        // SAFETY: the initialisers of the library have no requirements.
        let library = unsafe { Library::new(LIBRARY) }.ok()?;
        // SAFETY: the type is that of the function in NVIDIA's header `nvml.h`.
        let init = unsafe { library.get::<unsafe extern "C" fn() -> Status>(b"nvmlInit_v2\0") };
        // SAFETY: it may be called at any time.
        let status = unsafe { init.ok()?() };
        (status == 0).then_some(Self { library })
    }

    /// The card at this place of the machine.
    pub(crate) fn device(&self, bus_id: &str) -> Option<NvmlDevice<'_>> {
        type Find = unsafe extern "C" fn(*const c_char, *mut Handle) -> Status;
        let bus_id = CString::new(bus_id).ok()?;
        let mut handle = std::ptr::null_mut();
        let name = b"nvmlDeviceGetHandleByPciBusId_v2\0";
        // SAFETY: the type is that of the function in NVIDIA's header `nvml.h`.
        let find = unsafe { self.library.get::<Find>(name) }.ok()?;
        // SAFETY: the text ends with a zero; it writes one handle.
        let status = unsafe { find(bus_id.as_ptr(), &mut handle) };
        (status == 0).then_some(NvmlDevice { nvml: self, handle })
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        type Shutdown = unsafe extern "C" fn() -> Status;
        // SAFETY: the type is that of the function in NVIDIA's header `nvml.h`.
        if let Ok(shutdown) = unsafe { self.library.get::<Shutdown>(b"nvmlShutdown\0") } {
            // SAFETY: it was started once, and no device, which borrows it, is left.
            unsafe { shutdown() };
        }
    }
}

impl NvmlDevice<'_> {
    /// The SM clock now, MHz.
    pub(crate) fn clock_mhz(&self) -> Option<u32> {
        self.clock(b"nvmlDeviceGetClockInfo\0")
    }

    /// The highest SM clock, MHz.
    pub(crate) fn max_clock_mhz(&self) -> Option<u32> {
        self.clock(b"nvmlDeviceGetMaxClockInfo\0")
    }

    /// The power now, W.
    pub(crate) fn power_w(&self) -> Option<f64> {
        let mut milliwatts = 0;
        let name = b"nvmlDeviceGetPowerUsage\0";
        // SAFETY: the type is that of the function in NVIDIA's header `nvml.h`.
        let read = unsafe { self.nvml.library.get::<ReadNumber>(name) }.ok()?;
        // SAFETY: the handle is that of a card; it writes one number.
        let status = unsafe { read(self.handle, &mut milliwatts) };
        (status == 0).then(|| f64::from(milliwatts) / 1e3)
    }

    fn clock(&self, function: &[u8]) -> Option<u32> {
        let mut megahertz = 0;
        // SAFETY: both functions have this type in NVIDIA's header `nvml.h`.
        let read = unsafe { self.nvml.library.get::<ReadClock>(function) }.ok()?;
        // SAFETY: the handle is that of a card; it writes one number.
        let status = unsafe { read(self.handle, CLOCK_SM, &mut megahertz) };
        (status == 0).then_some(megahertz)
    }
}
