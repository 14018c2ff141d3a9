//! The loop: every period it reads latencies, decides for each device, and publishes what happened.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use homeostat_core::SimTime;
use homeostat_decide::Pause;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal as UnixSignal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::governor::DeviceGovernor;
use crate::gpu::{Gpu, GpuError};
use crate::lease::LeaseDirectory;
use crate::metrics::Metrics;
use crate::nvml::Driver;
use crate::restore::{RestoreError, restore_all};
use crate::server::{Published, serve};
use crate::settings::{DeviceSettings, Settings};
use crate::signal::Signal;
use crate::source::Source;
use crate::status::{DecisionLine, DeviceStatus, Status};

/// What the command line adds to settings.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// Whether decisions are carried out.
    pub act: bool,
    /// Whether decisions are printed that say the same as the one before.
    pub every_decision: bool,
}

/// A device with what is known of it.
struct Governed<G: Gpu> {
    governor: DeviceGovernor<G>,
    status: DeviceStatus,
    failing_since: Option<SimTime>,
}

/// Governs until a signal ends it; then, and after an error, every device is as it was.
pub async fn run(settings: &Settings, options: RunOptions) -> anyhow::Result<()> {
    // Before anything changes: without a handler a signal would end the process.
    let mut stop = StopSignals::new()?;
    let listener = TcpListener::bind(settings.address).await.with_context(|| {
        format!("cannot listen on {}: choose another listen.address", settings.address)
    })?;
    let address = listener.local_addr().context("the address is unknown")?;
    let driver = Driver::open()?;
    let governed = start(settings, &driver, options.act)?;
    let (publish, published) = watch::channel(Arc::default());
    tokio::spawn(serve(listener, published));
    announce(address, options.act);
    govern(settings, options, governed, &mut stop, &publish).await
}

fn announce(address: SocketAddr, act: bool) {
    match act {
        true => tracing::info!("clocks are governed; metrics and status on {address}"),
        false => tracing::info!(
            "dry run, nothing is changed (--act changes clocks); metrics and status on {address}"
        ),
    }
}

/// Opens the devices of the settings, and takes them over if the governor acts.
fn start<'nvml>(
    settings: &Settings,
    driver: &'nvml Driver,
    act: bool,
) -> anyhow::Result<Vec<Governed<crate::nvml::NvmlGpu<'nvml>>>> {
    let leases = LeaseDirectory(settings.lease_directory.clone());
    if act {
        restore_abandoned(&leases, driver)?;
    } else if let abandoned @ [_, ..] = leases.devices()?.as_slice() {
        let devices = abandoned.join(", ");
        tracing::warn!(
            "there are leases on {devices}: if their governor is gone, `homeostat governor restore` restores them"
        );
    }
    let mut governed: Vec<Governed<_>> = Vec::new();
    for (device, gpu) in open_devices(&settings.devices, driver)? {
        let (uuid, name) = (gpu.uuid().to_owned(), gpu.name().to_owned());
        let failed = || format!("cannot govern {uuid} ({name})");
        let mut governor = DeviceGovernor::new(gpu, device, settings).with_context(failed)?;
        if act {
            let locked = leases.lock(&uuid)?;
            governor.act(locked, device).with_context(failed)?;
        }
        let status = DeviceStatus { gpu: uuid, name, decision: None, error: None };
        governed.push(Governed { governor, status, failing_since: None });
    }
    Ok(governed)
}

fn restore_abandoned(leases: &LeaseDirectory, driver: &Driver) -> anyhow::Result<()> {
    if leases.devices()?.is_empty() {
        return Ok(());
    }
    let mut gpus: Vec<_> = driver.gpus()?.into_iter().filter_map(Result::ok).collect();
    for (uuid, restored) in restore_all(leases, &mut gpus)? {
        match restored {
            Ok(restored) => {
                tracing::warn!("a governor left {uuid} without restoring it: {restored}")
            }
            // An owner of a device of these settings is an error later.
            Err(RestoreError::Lease(error)) => tracing::warn!("{error}"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The GPU of each device of the settings.
pub fn open_devices<'s, 'nvml>(
    devices: &'s [DeviceSettings],
    driver: &'nvml Driver,
) -> anyhow::Result<Vec<(&'s DeviceSettings, crate::nvml::NvmlGpu<'nvml>)>> {
    let mut gpus: Vec<Option<Result<_, GpuError>>> = driver.gpus()?.into_iter().map(Some).collect();
    let describe = |gpus: &[Option<Result<crate::nvml::NvmlGpu<'_>, GpuError>>]| {
        let one = |(index, gpu): (usize, &Option<Result<crate::nvml::NvmlGpu<'_>, GpuError>>)| {
            match gpu {
                Some(Ok(gpu)) => Some(format!("{index} = {} ({})", gpu.uuid(), gpu.name())),
                Some(Err(error)) => Some(format!("{index}: {error}")),
                None => None,
            }
        };
        gpus.iter().enumerate().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    let known = describe(&gpus);
    let mut opened: Vec<(&DeviceSettings, crate::nvml::NvmlGpu<'_>)> = Vec::new();
    for device in devices {
        let wanted = device.gpu.as_str();
        let index = match wanted.parse::<usize>() {
            Ok(index) => Some(index),
            Err(_) => gpus.iter().position(
                |gpu| matches!(gpu, Some(Ok(gpu)) if gpu.uuid().eq_ignore_ascii_case(wanted)),
            ),
        };
        let is_taken = |uuid: &str| uuid.eq_ignore_ascii_case(wanted);
        match index.and_then(|index| gpus.get_mut(index)) {
            Some(place @ Some(Ok(_))) => {
                let gpu = place.take().and_then(Result::ok).expect("just matched");
                opened.push((device, gpu));
            }
            Some(Some(Err(error))) => bail!("devices.gpu = {wanted}: {error}"),
            Some(None) => {
                bail!("devices.gpu = {wanted}: another [[devices]] is the same GPU; name each once")
            }
            None if opened.iter().any(|(_, gpu)| is_taken(gpu.uuid())) => {
                bail!("devices.gpu = {wanted}: another [[devices]] is the same GPU; name each once")
            }
            None if known.is_empty() => bail!("devices.gpu = {wanted}: the driver lists no GPU"),
            None => bail!("devices.gpu = {wanted}: there is no such GPU; there are {known}"),
        }
    }
    Ok(opened)
}

async fn govern<G: Gpu>(
    settings: &Settings,
    options: RunOptions,
    mut governed: Vec<Governed<G>>,
    stop: &mut StopSignals,
    publish: &watch::Sender<Arc<Published>>,
) -> anyhow::Result<()> {
    let source = Source::new(&settings.source, &settings.objectives);
    let slos = settings.objectives.iter().map(|objective| (objective.percentile, objective.slo));
    let mut signal = Signal::new(settings.window, settings.stale_after, slos.collect());
    let metrics = Metrics::new(options.act);
    // It never jumps, whatever happens to the clock on the wall.
    let started = Instant::now();
    let now = || {
        let nanos = started.elapsed().as_nanos();
        SimTime::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    };
    let mut ticks = tokio::time::interval(settings.period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ended = Ok(());
    while ended.is_ok() {
        let read = tokio::select! {
            biased;
            () = stop.wait() => break,
            read = async {
                ticks.tick().await;
                source.read(&settings.objectives).await
            } => read,
        };
        let now = now();
        let last_error = signal.last_error().map(str::to_owned);
        signal.record(now, read);
        if signal.last_error() != last_error.as_deref() {
            match signal.last_error() {
                Some(error) => tracing::warn!("latencies cannot be read: {error}"),
                None => tracing::info!("latencies can be read again"),
            }
        }
        let pause = read_pause(&settings.pause_file);
        for one in &mut governed {
            let stepped = one.governor.step(now, &signal, &settings.objectives, pause);
            match stepped {
                Ok(step) => {
                    one.failing_since = None;
                    one.status.error = None;
                    let is_acting = one.governor.is_acting();
                    metrics.record_step(&one.status.gpu, &step, is_acting);
                    let line = DecisionLine::new(unix_seconds(), &one.status.gpu, &step, is_acting);
                    let last = one.status.decision.as_ref();
                    if options.every_decision || last.is_none_or(|last| line.is_news_after(last)) {
                        print_line(&line);
                    }
                    one.status.decision = Some(line);
                }
                Err(error) => {
                    metrics.record_gpu_error(&one.status.gpu);
                    ended = one.failed(now, &error, settings);
                }
            }
            if ended.is_err() {
                break;
            }
        }
        let age = signal.age(now);
        metrics.record_signal(&signal, age);
        let status = Status {
            acting: options.act,
            paused: pause.map(|pause| pause.to_string()),
            signal_age_s: age.map(|age| age.seconds()),
            source_failures: signal.failures(),
            source_error: signal.last_error().map(str::to_owned),
            devices: governed.iter().map(|one| one.status.clone()).collect(),
        };
        let status = serde_json::to_string(&status).expect("a status is plain data");
        publish.send_replace(Arc::new(Published { metrics: metrics.text(), status }));
    }
    give_back(governed, ended)
}

impl<G: Gpu> Governed<G> {
    /// An error if the device has not answered for too long.
    fn failed(
        &mut self,
        now: SimTime,
        error: &GpuError,
        settings: &Settings,
    ) -> anyhow::Result<()> {
        let text = error.to_string();
        if self.status.error.as_ref() != Some(&text) {
            tracing::warn!("{}: {text}", self.status.gpu);
        }
        self.status.error = Some(text);
        let failing = now.saturating_since(*self.failing_since.get_or_insert(now));
        if failing < settings.give_up && !matches!(error, GpuError::Lost { .. }) {
            return Ok(());
        }
        let gpu = &self.status.gpu;
        Err(anyhow!("{error}").context(format!("gave up on {gpu} and restored every other device")))
    }
}

fn give_back<G: Gpu>(governed: Vec<Governed<G>>, ended: anyhow::Result<()>) -> anyhow::Result<()> {
    let mut ended = ended;
    for mut one in governed {
        let is_acting = one.governor.is_acting();
        match one.governor.give_back() {
            Ok(()) if is_acting => tracing::info!("{} is restored", one.status.gpu),
            Ok(()) => {}
            Err(error) => {
                tracing::error!("{error}");
                ended = ended.and(Err(error.into()));
            }
        }
    }
    ended
}

/// What the file pauses; without it nothing.
fn read_pause(file: &Path) -> Option<Pause> {
    match std::fs::read_to_string(file) {
        Ok(text) => Some(match text.trim() {
            "in" => Pause::In,
            "out" => Pause::Out,
            _ => Pause::All,
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        // It is there, whatever it says.
        Err(_) => Some(Pause::All),
    }
}

/// A reader that has gone away is no reason to leave devices alone.
fn print_line(line: &DecisionLine) {
    let text = serde_json::to_string(line).expect("a decision is plain data");
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The signals that end a governor: of systemd, of Ctrl-C, of a terminal that is closed.
struct StopSignals([UnixSignal; 4]);

impl StopSignals {
    fn new() -> anyhow::Result<Self> {
        let of = |kind| signal(kind).context("cannot handle signals");
        Ok(Self([
            of(SignalKind::terminate())?,
            of(SignalKind::interrupt())?,
            of(SignalKind::hangup())?,
            of(SignalKind::quit())?,
        ]))
    }

    async fn wait(&mut self) {
        let [terminate, interrupt, hang_up, quit] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv() => {}
            _ = quit.recv() => {}
        }
    }
}
