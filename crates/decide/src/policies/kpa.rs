//! Knative's pod autoscaler: replicas follow the requests in the system, averaged over a
//! stable window, or over a short one when they surge (panic).
//!
//! Left out: the activator, which holds requests while there are no replicas, with its burst
//! capacity and the grace period before the last replica goes.

use std::collections::VecDeque;

use homeostat_core::{Fraction, Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};

use crate::snapshot_records::records;
use crate::timed_counts::TimedCounts;
use crate::{Error, Observation, Policy, Proposal, Reason, Result};

/// Settings of [`Kpa`], with Knative's defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KpaConfig {
    /// Requests in one replica at full use.
    pub concurrency: f64,
    /// Part of that which is aimed at.
    pub target_utilization: Fraction,
    /// Window of the normal average.
    pub stable_window: SimDuration,
    /// Window of the panic average, as a part of the stable one.
    pub panic_window: Fraction,
    /// Panic when the panic average asks for this many times the ready replicas.
    pub panic_threshold: f64,
    /// At most this many times the ready replicas in one decision.
    pub max_scale_up_rate: f64,
    /// At least one over this of the ready replicas in one decision.
    pub max_scale_down_rate: f64,
    /// A smaller number has to be asked for this long.
    pub scale_down_delay: SimDuration,
}

impl Default for KpaConfig {
    fn default() -> Self {
        Self {
            concurrency: 100.0,
            target_utilization: Fraction::from_percent(70),
            stable_window: SimDuration::from_secs(60),
            panic_window: Fraction::from_percent(10),
            panic_threshold: 2.0,
            max_scale_up_rate: 1000.0,
            max_scale_down_rate: 2.0,
            scale_down_delay: SimDuration::ZERO,
        }
    }
}

impl KpaConfig {
    /// For replicas that take this many requests at a time: one, for most functions.
    pub fn with_concurrency(concurrency: f64) -> Self {
        Self { concurrency, ..Self::default() }
    }

    /// Refuses windows of no length and rates that allow no change.
    pub fn build(self) -> Result<Kpa> {
        Error::unless_positive("concurrency", self.concurrency)?;
        Error::unless_positive("target_utilization", self.target_utilization.ratio())?;
        Error::unless_positive("stable_window", self.stable_window.seconds())?;
        let panic = self.panic_window;
        if panic == Fraction::ZERO || panic > Fraction::ONE {
            return Err(Error::setting("panic_window", "above 0% and at most 100%", panic));
        }
        for (setting, rate) in [
            ("panic_threshold", self.panic_threshold),
            ("max_scale_up_rate", self.max_scale_up_rate),
            ("max_scale_down_rate", self.max_scale_down_rate),
        ] {
            if !rate.is_finite() || rate <= 1.0 {
                return Err(Error::setting(setting, "a finite number above 1", rate));
            }
        }
        Ok(Kpa { config: self, memory: Memory::default() })
    }
}

/// Knative's pod autoscaler. It changes the number of replicas and nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct Kpa {
    config: KpaConfig,
    memory: Memory,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Memory {
    is_running: bool,
    windows: VecDeque<Window>,
    panicking_since: Option<SimTime>,
    /// The largest number asked for in this panic.
    panic_replicas: u32,
    asked: TimedCounts,
}

/// Mean concurrency of one observation.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Window {
    end: SimTime,
    length: SimDuration,
    concurrency: f64,
}

impl Kpa {
    /// Mean concurrency over the last `span`, each observation for as much of it as lies
    /// inside. The span is cut to what was observed, so that a start does not look idle.
    fn average(&self, now: SimTime, span: SimDuration) -> f64 {
        let (mut sum, mut seconds) = (0.0, 0.0);
        for window in &self.memory.windows {
            let age = now.saturating_since(window.end);
            let inside = (span - age).min(window.length).seconds();
            sum += window.concurrency * inside;
            seconds += inside;
        }
        if seconds > 0.0 { sum / seconds } else { 0.0 }
    }

    fn observe(&mut self, obs: &Observation) {
        let memory = &mut self.memory;
        let Observation { now, window: length, concurrency, .. } = *obs;
        // A window of no length would have no weight in any average.
        let length = length.max(SimDuration::from_nanos(1));
        memory.windows.push_back(Window { end: now, length, concurrency });
        let span = self.config.stable_window;
        while memory.windows.front().is_some_and(|window| window.end + span <= now) {
            memory.windows.pop_front();
        }
    }

    /// Enters, prolongs or ends panic.
    fn note_surge(&mut self, now: SimTime, is_surge: bool) {
        let memory = &mut self.memory;
        if is_surge {
            memory.panicking_since = Some(now);
        } else if memory
            .panicking_since
            .is_some_and(|since| since + self.config.stable_window < now)
        {
            memory.panicking_since = None;
            memory.panic_replicas = 0;
        }
    }
}

impl Policy for Kpa {
    fn name(&self) -> &str {
        "kpa"
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let now = obs.now;
        let ready = obs.serving();
        if !self.memory.is_running {
            self.memory.is_running = true;
            // History is lost at a start: what runs stays until there is some again.
            if ready > 1 {
                self.memory.panicking_since = Some(now);
                self.memory.panic_replicas = ready;
            }
        }
        let proposal = Proposal::keep(&obs.allocation);
        if !obs.concurrency.is_finite() || obs.concurrency < 0.0 {
            return proposal.because(Reason::TelemetryMissing { figure: "concurrency" });
        }
        self.observe(obs);

        let config = &self.config;
        let target = config.concurrency * config.target_utilization.ratio();
        let ready = f64::from(ready.max(1));
        let most = (config.max_scale_up_rate * ready).ceil();
        let least = (ready / config.max_scale_down_rate).floor();
        let stable = self.average(now, config.stable_window);
        let panic_span = SimDuration::from_nanos(
            (config.panic_window.ratio() * config.stable_window.nanos() as f64) as u64,
        );
        let panic = self.average(now, panic_span);
        let for_stable = (stable / target).ceil();
        let for_panic = (panic / target).ceil();
        let is_surge = for_panic / ready >= config.panic_threshold;
        let delay = config.scale_down_delay;

        self.note_surge(now, is_surge);
        let memory = &mut self.memory;
        let mut replicas = for_stable.max(least).min(most) as u32;
        let mut reasons = Vec::new();
        if memory.panicking_since.is_some() {
            let panic_replicas = for_panic.max(least).min(most) as u32;
            replicas = replicas.max(panic_replicas).max(memory.panic_replicas);
            memory.panic_replicas = replicas;
            reasons.push(Reason::Panicking { replicas });
        }
        reasons.insert(0, Reason::Concurrency { stable, panic, target, replicas });
        if delay > SimDuration::ZERO {
            memory.asked.forget(now, delay);
            memory.asked.push(now, replicas);
            let delayed = memory.asked.within(now, delay).fold(replicas, u32::max);
            if delayed > replicas {
                reasons.push(Reason::ScaleDownDelayed { replicas: delayed, delay });
            }
            replicas = delayed;
        }
        Proposal { replicas: f64::from(replicas), reasons, ..proposal }
    }
}

impl Persist for Kpa {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let memory = &self.memory;
        out.put_u8(&format!("{name}/running"), [u8::from(memory.is_running)]);
        let times = memory.windows.iter().flat_map(|w| [w.end.nanos(), w.length.nanos()]);
        out.put_u64(&format!("{name}/windows"), times.collect::<Vec<_>>());
        let concurrency: Vec<_> = memory.windows.iter().map(|w| w.concurrency).collect();
        out.put_f64(&format!("{name}/concurrency"), concurrency);
        let since: Vec<_> = memory.panicking_since.map(SimTime::nanos).into_iter().collect();
        out.put_u64(&format!("{name}/panicking_since"), since);
        out.put_u64(&format!("{name}/panic_replicas"), [u64::from(memory.panic_replicas)]);
        memory.asked.save(&format!("{name}/asked"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        let memory = &mut self.memory;
        memory.is_running = from.u8s(&format!("{name}/running"), 1)?[0] != 0;
        let times = records(from, &format!("{name}/windows"))?;
        let concurrency = from.f64s(&format!("{name}/concurrency"), times.len())?;
        memory.windows = times
            .iter()
            .zip(concurrency)
            .map(|([end, length], concurrency)| Window {
                end: SimTime::from_nanos(*end),
                length: SimDuration::from_nanos(*length),
                concurrency: *concurrency,
            })
            .collect();
        let since = from.any_u64s(&format!("{name}/panicking_since"))?;
        memory.panicking_since = since.first().copied().map(SimTime::from_nanos);
        memory.panic_replicas = from.u64s(&format!("{name}/panic_replicas"), 1)?[0] as u32;
        memory.asked.load(&format!("{name}/asked"), from)
    }
}
