//! What the replicas of one target have used, all of them together.

use std::collections::BTreeMap;

use homeostat_core::{Bytes, Persist, Result as CoreResult, SimTime, Snapshot};

use super::buckets::HistogramBuckets;
use super::decaying_histogram::{DecayingCheckpoint, DecayingHistogram};
use super::memory_peaks::MemoryPeaks;
use super::policy::VpaConfig;
use crate::replica_key::ReplicaKey;
use crate::snapshot_records::records;
use crate::{Allocation, ReplicaSample, Result};

/// Least weight of a CPU sample, however small the request.
const MIN_SAMPLE_WEIGHT: f64 = 0.1;

/// Bucket weight below which a bucket is empty: a thousandth of the least sample.
const EPSILON: f64 = 1e-3 * MIN_SAMPLE_WEIGHT;

/// What Kubernetes stores of a history: histograms in few digits, and no memory windows.
#[derive(Debug, Clone, PartialEq)]
pub struct VpaCheckpoint {
    /// CPU histogram.
    pub cpu: DecayingCheckpoint,
    /// Memory histogram.
    pub memory: DecayingCheckpoint,
    /// First and last CPU sample.
    pub span: Option<(SimTime, SimTime)>,
    /// Number of CPU samples.
    pub samples: u64,
}

/// Histograms of one target, and the memory windows of its replicas.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UsageHistory {
    pub(super) cpu: DecayingHistogram,
    pub(super) memory: DecayingHistogram,
    /// First and last CPU sample.
    span: Option<(SimTime, SimTime)>,
    samples: u64,
    replicas: BTreeMap<ReplicaKey, MemoryPeaks>,
}

impl UsageHistory {
    pub(super) fn new(config: &VpaConfig) -> Result<Self> {
        Ok(Self {
            cpu: DecayingHistogram::new(HistogramBuckets::cpu(), EPSILON, config.half_life)?,
            memory: DecayingHistogram::new(HistogramBuckets::memory(), EPSILON, config.half_life)?,
            span: None,
            samples: 0,
            replicas: BTreeMap::new(),
        })
    }

    /// How much the history can be trusted: days of it, or days' worth of samples if fewer.
    pub(super) fn confidence(&self, config: &VpaConfig) -> f64 {
        let Some((first, last)) = self.span else { return 0.0 };
        let days = last.saturating_since(first).seconds() / config.confidence_day.seconds();
        days.min(self.samples as f64 / config.confidence_samples)
    }

    /// Takes in what replicas used.
    pub(super) fn observe(
        &mut self,
        config: &VpaConfig,
        now: SimTime,
        allocation: &Allocation,
        oom_kills: u32,
        samples: &[ReplicaSample],
    ) {
        self.expire(config, now);
        let mut before = std::mem::take(&mut self.replicas);
        // An observation does not say who was killed. Who used the most is the likeliest, and
        // may be gone by now, so kills come before the replicas that are left.
        self.add_kills(config, now, allocation.memory, oom_kills, &mut before);
        // A request is a weight: what was seen while it was large says more (Kubernetes' rule).
        let weight = allocation.cpu.cores().max(MIN_SAMPLE_WEIGHT);
        for (key, sample) in ReplicaKey::of(samples) {
            let mut peaks = before.remove(&key).unwrap_or_default();
            if let Some(cores) = sample.cpu_cores.filter(|cores| cores.is_finite()) {
                self.cpu.add(cores, weight, now);
                self.samples += 1;
                let first = self.span.map_or(now, |(first, _)| first);
                self.span = Some((first, now));
            }
            if let Some(usage) = sample.memory {
                peaks.add_usage(&mut self.memory, now, config.memory_interval, usage);
            }
            self.replicas.insert(key, peaks);
        }
    }

    pub(super) fn checkpoint(&self) -> VpaCheckpoint {
        VpaCheckpoint {
            cpu: self.cpu.checkpoint(),
            memory: self.memory.checkpoint(),
            span: self.span,
            samples: self.samples,
        }
    }

    /// Replaces the history by a checkpoint's. On an error nothing changes.
    pub(super) fn restore_checkpoint(&mut self, checkpoint: &VpaCheckpoint) -> Result<()> {
        let mut restored = self.clone();
        restored.cpu.restore_checkpoint(&checkpoint.cpu)?;
        restored.memory.restore_checkpoint(&checkpoint.memory)?;
        let VpaCheckpoint { span, samples, .. } = *checkpoint;
        *self = Self { span, samples, replicas: BTreeMap::new(), ..restored };
        Ok(())
    }

    /// Clears the history of a target without observations in all of its memory windows.
    fn expire(&mut self, config: &VpaConfig, now: SimTime) {
        let windows = config.memory_interval * u64::from(config.memory_intervals);
        if self.span.is_some_and(|(_, last)| last + windows <= now) {
            *self = Self::new(config).expect("the settings were accepted before");
        }
    }

    fn add_kills(
        &mut self,
        config: &VpaConfig,
        now: SimTime,
        limit: Bytes,
        kills: u32,
        replicas: &mut BTreeMap<ReplicaKey, MemoryPeaks>,
    ) {
        let mut by_peak: Vec<_> = replicas.values_mut().collect();
        by_peak.sort_by_key(|peaks| std::cmp::Reverse(peaks.largest()));
        let mut unseen = MemoryPeaks::default();
        if by_peak.is_empty() {
            by_peak.push(&mut unseen);
        }
        for peaks in by_peak.into_iter().take(kills as usize) {
            let used = limit.max(peaks.peak);
            let need = (used * config.oom_bump_ratio).max(used + config.oom_least_bump);
            peaks.add_oom_need(&mut self.memory, now, config.memory_interval, need);
        }
    }
}

impl Persist for UsageHistory {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.cpu.save(&format!("{name}/cpu"), out);
        self.memory.save(&format!("{name}/memory"), out);
        let span = self.span.map(|(first, last)| [first.nanos(), last.nanos()]);
        out.put_u64(&format!("{name}/span"), span.into_iter().flatten().collect::<Vec<_>>());
        out.put_u64(&format!("{name}/samples"), [self.samples]);
        let words = self.replicas.iter().flat_map(|(key, peaks)| {
            let [started, ordinal] = key.words();
            // A window never ends at time zero, so zero can mean none.
            let end = peaks.window_end.map_or(0, SimTime::nanos);
            [started, ordinal, end, peaks.peak.bytes(), peaks.oom_peak.bytes()]
        });
        out.put_u64(&format!("{name}/replicas"), words.collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.cpu.load(&format!("{name}/cpu"), from)?;
        self.memory.load(&format!("{name}/memory"), from)?;
        let span = records(from, &format!("{name}/span"))?;
        self.span = span
            .first()
            .map(|[first, last]| (SimTime::from_nanos(*first), SimTime::from_nanos(*last)));
        self.samples = from.u64s(&format!("{name}/samples"), 1)?[0];
        self.replicas = records(from, &format!("{name}/replicas"))?
            .iter()
            .map(|[started, ordinal, end, peak, oom_peak]| {
                let peaks = MemoryPeaks {
                    window_end: (*end > 0).then(|| SimTime::from_nanos(*end)),
                    peak: Bytes::new(*peak),
                    oom_peak: Bytes::new(*oom_peak),
                };
                (ReplicaKey::from_words(*started, *ordinal), peaks)
            })
            .collect();
        Ok(())
    }
}
