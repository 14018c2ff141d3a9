//! The measurements: each kernel at several sizes, at the clocks that the card has.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::driver::{Argument, Context, Cuda, Device, DriverError, Kernel, Nvml, NvmlDevice};
use crate::kernels::{BLOCK, FLOPS_PER_TURN, TILE, TILE_DEPTH, module};

/// One operator at one size.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measured {
    /// Kind of operator, or the name of the kernel where it is none of a model.
    pub(crate) operator: &'static str,
    /// The size, in words.
    pub(crate) shape: String,
    pub(crate) flops: f64,
    pub(crate) bytes: f64,
    /// Mean time of a launch.
    pub(crate) seconds: f64,
    /// Mean SM clock while it ran.
    pub(crate) clock_mhz: f64,
    /// Mean power while it ran.
    pub(crate) power_w: Option<f64>,
}

/// All measurements of a card.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Profile {
    pub(crate) device: Device,
    /// Whether clocks were read; else they are the nominal ones.
    pub(crate) reads_clocks: bool,
    /// Highest SM clock.
    pub(crate) max_clock_mhz: f64,
    /// Power before the first kernel.
    pub(crate) idle_w: Option<f64>,
    pub(crate) measured: Vec<Measured>,
}

/// Rows, columns and depth of the products: m tokens times a weight matrix of k x n.
const PRODUCTS: [[u32; 3]; 8] = [
    [64, 768, 768],
    [128, 1024, 1024],
    [128, 3072, 768],
    [512, 1024, 1024],
    [512, 4096, 1024],
    [512, 2560, 2560],
    [512, 10240, 2560],
    [4096, 4096, 4096],
];

/// Numbers that `scale` reads and writes.
const SCALES: [usize; 4] = [1 << 16, 1 << 20, 1 << 24, 1 << 28];

/// Time before each measurement in which the card reaches its clock.
const WARM_UP: Duration = Duration::from_millis(200);

/// Profiles a card. It reads clocks and power and changes neither.
pub(crate) fn profile(
    cuda: &Cuda,
    device: Device,
    time: Duration,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Profile> {
    let nvml = Nvml::open();
    let sensor = nvml.as_ref().and_then(|nvml| nvml.device(&device.bus_id));
    let reads_clocks = sensor.as_ref().is_some_and(|sensor| sensor.clock_mhz().is_some());
    let nominal = f64::from(device.clock_mhz);
    let highest = sensor.as_ref().and_then(NvmlDevice::max_clock_mhz).map(f64::from);
    let idle_w = sensor.as_ref().and_then(NvmlDevice::power_w);
    let context = cuda.context(&device)?;
    let kernels = context.module(&module())?;
    let bench = Bench { context: &context, sensor: sensor.as_ref(), nominal, time };
    let mut measured = Vec::new();

    say("launch");
    let empty = kernels.kernel("empty")?;
    let launch = || empty.launch([1, 1], [32, 1], &[]);
    measured.push(bench.run("launch", "empty kernel".to_owned(), [0.0, 0.0], &launch)?);

    say("multiply_add");
    let blocks = device.multiprocessors * 16;
    let sums = context.buffer((blocks * BLOCK) as usize)?;
    let multiply_add = kernels.kernel("multiply_add")?;
    const TURNS: u32 = 4096;
    let arguments = [Argument::Buffer(&sums), Argument::Number(TURNS)];
    let launch = || multiply_add.launch([blocks, 1], [BLOCK, 1], &arguments);
    let threads = f64::from(blocks * BLOCK);
    let (flops, bytes) = (threads * f64::from(TURNS) * FLOPS_PER_TURN, 4.0 * threads);
    let shape = format!("{threads} threads, {TURNS} turns");
    measured.push(bench.run("multiply_add", shape, [flops, bytes], &launch)?);

    // A third of the memory at most, as others may use the card: two buffers of four-byte numbers.
    let most = device.memory_bytes / 3 / 8;
    let length = SCALES.iter().copied().filter(|length| *length <= most).max().unwrap_or(0);
    let (source, target) = (context.buffer(length)?, context.buffer(length)?);
    let scale = kernels.kernel("scale")?;
    check_scale(&context, &scale)?;
    for length in SCALES.into_iter().filter(|length| *length <= most) {
        say(&format!("elementwise, {length} numbers"));
        let quads = (length / 4) as u32;
        let arguments =
            [Argument::Buffer(&source), Argument::Buffer(&target), Argument::Number(quads)];
        let launch = || scale.launch([quads.div_ceil(BLOCK), 1], [BLOCK, 1], &arguments);
        let (flops, bytes) = (2.0 * length as f64, 8.0 * length as f64);
        let shape = format!("{length} numbers");
        measured.push(bench.run("elementwise", shape, [flops, bytes], &launch)?);
    }
    drop((source, target));

    let product = kernels.kernel("matrix_product")?;
    check_product(&context, &product)?;
    for [m, n, k] in PRODUCTS {
        say(&format!("dot, {m} x {k} times {k} x {n}"));
        let size = |rows: u32, columns: u32| rows as usize * columns as usize;
        let (a, b, c) =
            (context.buffer(size(m, k))?, context.buffer(size(k, n))?, context.buffer(size(m, n))?);
        let arguments = product_arguments([&a, &b, &c], n, k);
        let launch = || product.launch([n / TILE, m / TILE], [16, 16], &arguments);
        let flops = 2.0 * f64::from(m) * f64::from(n) * f64::from(k);
        let bytes = 4.0 * (size(m, k) + size(k, n) + size(m, n)) as f64;
        let shape = format!("{m} x {k} times {k} x {n}");
        measured.push(bench.run("dot", shape, [flops, bytes], &launch)?);
    }
    let seen = measured.iter().map(|one| one.clock_mhz).fold(0.0, f64::max);
    let max_clock_mhz = highest.unwrap_or(nominal).max(seen);
    Ok(Profile { reads_clocks, max_clock_mhz, idle_w, measured, device: device.clone() })
}

fn product_arguments<'a>(
    [a, b, c]: [&'a crate::driver::Buffer<'a>; 3],
    n: u32,
    k: u32,
) -> [Argument<'a>; 5] {
    debug_assert!(n.is_multiple_of(TILE) && k.is_multiple_of(TILE_DEPTH), "{n} x {k}");
    [
        Argument::Buffer(a),
        Argument::Buffer(b),
        Argument::Buffer(c),
        Argument::Number(n),
        Argument::Number(k),
    ]
}

/// What measures with.
struct Bench<'a> {
    context: &'a Context<'a>,
    sensor: Option<&'a NvmlDevice<'a>>,
    nominal: f64,
    time: Duration,
}

impl Bench<'_> {
    fn run(
        &self,
        operator: &'static str,
        shape: String,
        [flops, bytes]: [f64; 2],
        launch: &dyn Fn() -> Result<(), DriverError>,
    ) -> anyhow::Result<Measured> {
        let failed = || format!("failed to measure {operator} with {shape}");
        let (mut clocks, mut powers) = (Vec::new(), Vec::new());
        // How many launches take about a twentieth of the time; warms up, too.
        let mut count = 1_u32;
        let started = Instant::now();
        while started.elapsed() < WARM_UP {
            let timed = self.launches(count, launch, &mut || {}).with_context(failed)?;
            let one = timed / f64::from(count);
            let wanted = self.time.as_secs_f64() / 20.0 / one.max(1e-7);
            // Queues of the driver are finite: more launches than that wait in the call.
            count = (wanted as u32).clamp(1, 20_000);
        }
        let started = Instant::now();
        let mut batches = Vec::new();
        while started.elapsed() < self.time || batches.len() < 5 {
            let mut sample = || {
                if let Some(sensor) = self.sensor {
                    clocks.extend(sensor.clock_mhz().map(f64::from));
                    powers.extend(sensor.power_w());
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            let timed = self.launches(count, launch, &mut sample).with_context(failed)?;
            batches.push(timed / f64::from(count));
        }
        batches.sort_by(f64::total_cmp);
        let mean = |values: &[f64]| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        Ok(Measured {
            operator,
            shape,
            flops,
            bytes,
            seconds: batches[batches.len() / 2],
            clock_mhz: mean(&clocks).unwrap_or(self.nominal),
            power_w: mean(&powers),
        })
    }

    fn launches(
        &self,
        count: u32,
        launch: &dyn Fn() -> Result<(), DriverError>,
        waiting: &mut dyn FnMut(),
    ) -> Result<f64, DriverError> {
        let all = || (0..count).try_for_each(|_| launch());
        self.context.time(all, waiting)
    }
}

/// A kernel that computes something else is not worth a measurement.
fn check_scale(context: &Context, scale: &Kernel) -> anyhow::Result<()> {
    let numbers: Vec<f32> = (0..1024_u16).map(f32::from).collect();
    let (source, target) = (context.buffer(1024)?, context.buffer(1024)?);
    source.write(&numbers)?;
    let arguments = [Argument::Buffer(&source), Argument::Buffer(&target), Argument::Number(256)];
    scale.launch([1, 1], [BLOCK, 1], &arguments)?;
    context.synchronize()?;
    let expected: Vec<f32> = numbers.iter().map(|number| 2.0 * number + 1.0).collect();
    if target.read(1024)? != expected {
        bail!("the kernel `scale` computes wrong results on this card");
    }
    Ok(())
}

fn check_product(context: &Context, product: &Kernel) -> anyhow::Result<()> {
    let [m, n, k] = [128_usize, 192, 48];
    // Small whole numbers: every sum is exact in any order.
    let fill = |length: usize, period: usize| -> Vec<f32> {
        (0..length).map(|place| (place % period) as f32 - 3.0).collect()
    };
    let (a, b) = (fill(m * k, 7), fill(k * n, 11));
    let buffers = [context.buffer(m * k)?, context.buffer(k * n)?, context.buffer(m * n)?];
    buffers[0].write(&a)?;
    buffers[1].write(&b)?;
    let [first, second, third] = &buffers;
    let arguments = product_arguments([first, second, third], n as u32, k as u32);
    product.launch([n as u32 / TILE, m as u32 / TILE], [16, 16], &arguments)?;
    context.synchronize()?;
    let found = buffers[2].read(m * n)?;
    for row in 0..m {
        for column in 0..n {
            let expected: f32 = (0..k).map(|i| a[row * k + i] * b[i * n + column]).sum();
            let got = found[row * n + column];
            if got != expected {
                bail!(
                    "the kernel `matrix_product` computes {got} instead of {expected} in row {row}, column {column} on \
                     this card"
                );
            }
        }
    }
    Ok(())
}
