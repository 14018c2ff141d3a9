//! CUDA's driver interface, as much as is needed to run kernels and time them.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;

use libloading::Library;

use super::DriverError;

type Status = c_int;
type DevicePointer = u64;
/// A context, module, function or event of the driver.
type Handle = *mut c_void;

const NO_DEVICE: Status = 100;

/// `CU_DEVICE_ATTRIBUTE_...`
const CLOCK_RATE_KHZ: c_int = 13;
const MULTIPROCESSORS: c_int = 16;
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;

/// Declares the table of functions, which is filled by name.
macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn load(library: &Library) -> Result<Self, DriverError> {
                Ok(Self {
                    $($field: {
                        let missing = |_| DriverError::TooOld { library: LIBRARY, function: $name };
                        // SAFETY: the type is that of the function in NVIDIA's header `cuda.h`; names
                        // ending in _v2 are those that the header maps the plain names to.
                        *unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> $result>(
                            concat!($name, "\0").as_bytes(),
                        ) }.map_err(missing)?
                    },)*
                })
            }
        }
    };
}

const LIBRARY: &str = "libcuda.so.1";

functions! {
    init = "cuInit": fn(c_uint) -> Status;
    error_string = "cuGetErrorString": fn(Status, *mut *const c_char) -> Status;
    device_count = "cuDeviceGetCount": fn(*mut c_int) -> Status;
    device_get = "cuDeviceGet": fn(*mut c_int, c_int) -> Status;
    device_name = "cuDeviceGetName": fn(*mut c_char, c_int, c_int) -> Status;
    device_memory = "cuDeviceTotalMem_v2": fn(*mut usize, c_int) -> Status;
    device_attribute = "cuDeviceGetAttribute": fn(*mut c_int, c_int, c_int) -> Status;
    device_bus_id = "cuDeviceGetPCIBusId": fn(*mut c_char, c_int, c_int) -> Status;
    context_retain = "cuDevicePrimaryCtxRetain": fn(*mut Handle, c_int) -> Status;
    context_release = "cuDevicePrimaryCtxRelease_v2": fn(c_int) -> Status;
    context_set = "cuCtxSetCurrent": fn(Handle) -> Status;
    synchronize = "cuCtxSynchronize": fn() -> Status;
    module_load = "cuModuleLoadData": fn(*mut Handle, *const c_void) -> Status;
    module_unload = "cuModuleUnload": fn(Handle) -> Status;
    module_function = "cuModuleGetFunction": fn(*mut Handle, Handle, *const c_char) -> Status;
    allocate = "cuMemAlloc_v2": fn(*mut DevicePointer, usize) -> Status;
    free = "cuMemFree_v2": fn(DevicePointer) -> Status;
    copy_to_device = "cuMemcpyHtoD_v2": fn(DevicePointer, *const c_void, usize) -> Status;
    copy_to_host = "cuMemcpyDtoH_v2": fn(*mut c_void, DevicePointer, usize) -> Status;
    set = "cuMemsetD32_v2": fn(DevicePointer, c_uint, usize) -> Status;
    launch = "cuLaunchKernel": fn(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
    ) -> Status;
    event_create = "cuEventCreate": fn(*mut Handle, c_uint) -> Status;
    event_destroy = "cuEventDestroy_v2": fn(Handle) -> Status;
    event_record = "cuEventRecord": fn(Handle, Handle) -> Status;
    event_query = "cuEventQuery": fn(Handle) -> Status;
    event_elapsed = "cuEventElapsedTime": fn(*mut f32, Handle, Handle) -> Status;
}

/// `CUDA_ERROR_NOT_READY`
const NOT_READY: Status = 600;

/// The driver.
pub(crate) struct Cuda {
    functions: Functions,
    /// The functions are valid as long as it is open.
    _library: Library,
}

/// A card.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Device {
    handle: c_int,
    pub(crate) name: String,
    pub(crate) memory_bytes: usize,
    pub(crate) multiprocessors: u32,
    pub(crate) clock_mhz: u32,
    /// Its place in the machine, by which NVML knows it too.
    pub(crate) bus_id: String,
}

/// The primary context of a card, current in the thread that made it.
pub(crate) struct Context<'a> {
    cuda: &'a Cuda,
    device: &'a Device,
    /// A context is current in one thread.
    _thread: PhantomData<*const ()>,
}

/// Compiled kernels.
pub(crate) struct Module<'a> {
    context: &'a Context<'a>,
    handle: Handle,
}

/// One kernel.
pub(crate) struct Kernel<'a> {
    module: &'a Module<'a>,
    handle: Handle,
}

/// Memory of a card, in numbers of four bytes.
pub(crate) struct Buffer<'a> {
    context: &'a Context<'a>,
    pointer: DevicePointer,
    length: usize,
}

/// An argument of a kernel.
pub(crate) enum Argument<'a> {
    Buffer(&'a Buffer<'a>),
    Number(u32),
}

#[cfg(test)]
impl Device {
    pub(crate) fn for_tests(name: &str, memory_bytes: usize) -> Self {
        Self {
            handle: 0,
            name: name.to_owned(),
            memory_bytes,
            multiprocessors: 100,
            clock_mhz: 1980,
            bus_id: String::new(),
        }
    }
}

impl Cuda {
    /// Opens the driver.
    pub(crate) fn open() -> Result<Self, DriverError> {
        let absent = |error: libloading::Error| DriverError::NoDriver { reason: error.to_string() };
        // SAFETY: the initialisers of the driver's library have no requirements.
        let library = unsafe { Library::new(LIBRARY) }.map_err(absent)?;
        let functions = Functions::load(&library)?;
        let this = Self { functions, _library: library };
        // SAFETY: it may be called at any time; the only flag defined is zero.
        match unsafe { (this.functions.init)(0) } {
            NO_DEVICE => Err(DriverError::NoDevice),
            status => this.check(status, "start").map(|()| this),
        }
    }

    /// A card by its number.
    pub(crate) fn device(&self, index: u32) -> Result<Device, DriverError> {
        let f = &self.functions;
        let mut count = 0;
        // SAFETY: it writes one number through the pointer.
        self.check(unsafe { (f.device_count)(&mut count) }, "count devices")?;
        let count = u32::try_from(count).unwrap_or(0);
        if count == 0 {
            return Err(DriverError::NoDevice);
        }
        if index >= count {
            return Err(DriverError::UnknownDevice { index, count });
        }
        let mut handle = 0;
        // SAFETY: it writes one number, and the index is below the count.
        self.check(unsafe { (f.device_get)(&mut handle, index as c_int) }, "find the device")?;
        let name = self.text(|text, length| {
            // SAFETY: it writes at most `length` characters, with a zero at the end.
            unsafe { (f.device_name)(text, length, handle) }
        })?;
        let bus_id = self.text(|text, length| {
            // SAFETY: as above.
            unsafe { (f.device_bus_id)(text, length, handle) }
        })?;
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: it writes one number, for a device that exists.
            let status = unsafe { (f.device_attribute)(&mut value, which, handle) };
            self.check(status, "read an attribute").map(|()| value)
        };
        let (major, minor) = (attribute(CAPABILITY_MAJOR)?, attribute(CAPABILITY_MINOR)?);
        if major < 7 {
            return Err(DriverError::TooOldDevice { name, major, minor });
        }
        let mut memory_bytes = 0;
        // SAFETY: it writes one number, for a device that exists.
        let status = unsafe { (f.device_memory)(&mut memory_bytes, handle) };
        self.check(status, "read the size of the memory")?;
        Ok(Device {
            handle,
            memory_bytes,
            multiprocessors: attribute(MULTIPROCESSORS)?.unsigned_abs(),
            clock_mhz: attribute(CLOCK_RATE_KHZ).unwrap_or(0).unsigned_abs() / 1000,
            name,
            bus_id,
        })
    }

    /// Makes the primary context of a card current in this thread.
    pub(crate) fn context<'a>(&'a self, device: &'a Device) -> Result<Context<'a>, DriverError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: it writes one handle, for a device that exists.
        let status = unsafe { (self.functions.context_retain)(&mut handle, device.handle) };
        self.check(status, "open the device")?;
        let context = Context { cuda: self, device, _thread: PhantomData };
        // SAFETY: the handle is that of a context, which is released when `context` is dropped.
        self.check(unsafe { (self.functions.context_set)(handle) }, "use the device")?;
        Ok(context)
    }

    fn text(&self, fill: impl Fn(*mut c_char, c_int) -> Status) -> Result<String, DriverError> {
        let mut bytes = [0_u8; 128];
        // One less than there is: the last one stays zero.
        let status = fill(bytes.as_mut_ptr().cast(), bytes.len() as c_int - 1);
        self.check(status, "read a name")?;
        let text = CStr::from_bytes_until_nul(&bytes).expect("the last byte is zero");
        Ok(text.to_string_lossy().into_owned())
    }

    fn check(&self, status: Status, what: &'static str) -> Result<(), DriverError> {
        if status == 0 {
            return Ok(());
        }
        let mut text = std::ptr::null();
        // SAFETY: it writes a pointer to a text that lives as long as the library, or null.
        unsafe { (self.functions.error_string)(status, &mut text) };
        let reason = if text.is_null() {
            format!("error {status}")
        } else {
            // SAFETY: it is not null, and ends with a zero.
            let text = unsafe { CStr::from_ptr(text) };
            format!("{} (error {status})", text.to_string_lossy())
        };
        Err(DriverError::Failed { what, reason })
    }
}

impl Context<'_> {
    /// Memory for numbers of four bytes, all of them one.
    pub(crate) fn buffer(&self, length: usize) -> Result<Buffer<'_>, DriverError> {
        let f = &self.cuda.functions;
        let mut pointer = 0;
        // SAFETY: it writes one address; the context is current.
        let status = unsafe { (f.allocate)(&mut pointer, length * size_of::<f32>()) };
        self.cuda.check(status, "allocate memory")?;
        let buffer = Buffer { context: self, pointer, length };
        // SAFETY: the memory has room for this many words.
        let status = unsafe { (f.set)(pointer, 1.0_f32.to_bits(), length) };
        self.cuda.check(status, "fill memory")?;
        Ok(buffer)
    }

    /// Compiles PTX.
    pub(crate) fn module(&self, ptx: &str) -> Result<Module<'_>, DriverError> {
        let text = CString::new(ptx).expect("PTX has no zeros");
        let mut handle = std::ptr::null_mut();
        let load = self.cuda.functions.module_load;
        // SAFETY: the text ends with a zero and lives until the call returns.
        let status = unsafe { load(&mut handle, text.as_ptr().cast()) };
        self.cuda.check(status, "compile the kernels")?;
        Ok(Module { context: self, handle })
    }

    /// Waits until everything that was launched has ended, and reports what went wrong in it.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the context is current.
        let status = unsafe { (self.cuda.functions.synchronize)() };
        self.cuda.check(status, "run a kernel")
    }

    /// Runs `launches` and measures their seconds on the card; `waiting` is called again and again until
    /// they end.
    pub(crate) fn time(
        &self,
        launches: impl FnOnce() -> Result<(), DriverError>,
        mut waiting: impl FnMut(),
    ) -> Result<f64, DriverError> {
        let (start, end) = (Event::new(self)?, Event::new(self)?);
        start.record()?;
        launches()?;
        end.record()?;
        while !end.is_done()? {
            waiting();
        }
        let mut milliseconds = 0.0;
        // SAFETY: it writes one number; both events were recorded and have happened.
        let status = unsafe {
            (self.cuda.functions.event_elapsed)(&mut milliseconds, start.handle, end.handle)
        };
        self.cuda.check(status, "measure time")?;
        Ok(f64::from(milliseconds) / 1e3)
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: it was retained once. Nothing refers to it any more: what borrows it is gone.
        unsafe { (self.cuda.functions.context_release)(self.device.handle) };
    }
}

impl Module<'_> {
    /// A kernel by its name.
    pub(crate) fn kernel(&self, name: &str) -> Result<Kernel<'_>, DriverError> {
        let text = CString::new(name).expect("names have no zeros");
        let mut handle = std::ptr::null_mut();
        let cuda = self.context.cuda;
        // SAFETY: it writes one handle; the module is loaded and the name ends with a zero.
        let status =
            unsafe { (cuda.functions.module_function)(&mut handle, self.handle, text.as_ptr()) };
        cuda.check(status, "find a kernel")?;
        Ok(Kernel { module: self, handle })
    }
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        // SAFETY: it was loaded once, and its kernels, which borrow it, are gone.
        unsafe { (self.context.cuda.functions.module_unload)(self.handle) };
    }
}

impl Kernel<'_> {
    /// Launches the kernel without waiting for it.
    ///
    /// Arguments must be those that the kernel declares, and its accesses must lie within the buffers; the
    /// driver reports some accesses outside, on [`Context::synchronize`].
    pub(crate) fn launch(
        &self,
        grid: [u32; 2],
        block: [u32; 2],
        arguments: &[Argument],
    ) -> Result<(), DriverError> {
        let values: Vec<u64> = arguments
            .iter()
            .map(|argument| match argument {
                Argument::Buffer(buffer) => buffer.pointer,
                // Little-endian: the first four bytes are the number.
                Argument::Number(number) => u64::from(*number),
            })
            .collect();
        let mut pointers: Vec<*mut c_void> =
            values.iter().map(|value| std::ptr::from_ref(value).cast_mut().cast()).collect();
        let cuda = self.module.context.cuda;
        // SAFETY: the function is loaded. The driver copies each argument from its pointer before it
        // returns, at most eight bytes each, and does not write there. Memory of the card is not memory of
        // this process: no access of a kernel can break Rust's rules.
        let status = unsafe {
            (cuda.functions.launch)(
                self.handle,
                grid[0],
                grid[1],
                1,
                block[0],
                block[1],
                1,
                0,
                std::ptr::null_mut(),
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        cuda.check(status, "launch a kernel")
    }
}

impl Buffer<'_> {
    /// Copies numbers to the start of the buffer.
    pub(crate) fn write(&self, numbers: &[f32]) -> Result<(), DriverError> {
        assert!(numbers.len() <= self.length, "more numbers than the buffer has");
        let cuda = self.context.cuda;
        let source = numbers.as_ptr().cast();
        // SAFETY: the source has this many bytes, and so has the buffer.
        let status =
            unsafe { (cuda.functions.copy_to_device)(self.pointer, source, size_of_val(numbers)) };
        cuda.check(status, "copy to the device")
    }

    /// The first numbers of the buffer, once all kernels have ended.
    pub(crate) fn read(&self, count: usize) -> Result<Vec<f32>, DriverError> {
        assert!(count <= self.length, "more numbers than the buffer has");
        let mut numbers = vec![0.0_f32; count];
        let cuda = self.context.cuda;
        let target = numbers.as_mut_ptr().cast();
        // SAFETY: the target has this many bytes, and so has the buffer; any bits are an f32.
        let status = unsafe {
            (cuda.functions.copy_to_host)(target, self.pointer, count * size_of::<f32>())
        };
        cuda.check(status, "copy from the device").map(|()| numbers)
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: it was allocated once. Freeing waits for kernels that use it.
        unsafe { (self.context.cuda.functions.free)(self.pointer) };
    }
}

struct Event<'a> {
    context: &'a Context<'a>,
    handle: Handle,
}

impl<'a> Event<'a> {
    fn new(context: &'a Context<'a>) -> Result<Self, DriverError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: it writes one handle; the context is current.
        let status = unsafe { (context.cuda.functions.event_create)(&mut handle, 0) };
        context.cuda.check(status, "make an event")?;
        Ok(Self { context, handle })
    }

    fn record(&self) -> Result<(), DriverError> {
        let cuda = self.context.cuda;
        // SAFETY: the event exists; the stream is the default one.
        let status = unsafe { (cuda.functions.event_record)(self.handle, std::ptr::null_mut()) };
        cuda.check(status, "record an event")
    }

    fn is_done(&self) -> Result<bool, DriverError> {
        let cuda = self.context.cuda;
        // SAFETY: the event exists.
        match unsafe { (cuda.functions.event_query)(self.handle) } {
            NOT_READY => Ok(false),
            status => cuda.check(status, "run a kernel").map(|()| true),
        }
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made once.
        unsafe { (self.context.cuda.functions.event_destroy)(self.handle) };
    }
}
