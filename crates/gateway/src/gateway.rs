//! What all connections share, and its settings, which can change while it runs.

use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use homeostat_core::SimTime;

use crate::admission::{Admission, Now};
use crate::metrics::Metrics;
use crate::prediction::Lengths;
use crate::scheduler::Scheduler;
use crate::settings::Settings;
use crate::spans::SpanQueue;
use crate::upstream::{BadUpstream, Upstream};

const NOT_POISONED: &str = "no code panics while it holds this lock";

/// One gateway.
pub struct Gateway {
    /// Requests that wait, and upstreams.
    pub scheduler: Arc<Scheduler>,
    /// Expected lengths.
    pub lengths: Arc<Lengths>,
    /// Keys.
    pub admission: Admission,
    /// Counters.
    pub metrics: Metrics,
    /// Spans of finished requests.
    pub(crate) spans: Arc<SpanQueue>,
    settings: RwLock<Arc<Settings>>,
    start: Instant,
    requests: AtomicU64,
    /// Seconds that requests waited lately, weighted towards the latest.
    recent_wait: Mutex<f64>,
}

impl Gateway {
    /// Nothing has come yet.
    pub fn new(settings: Settings) -> Result<Arc<Self>, BadUpstream> {
        let metrics = Metrics::new(unix_seconds());
        let spans = SpanQueue::new(metrics.spans_sent.clone(), metrics.spans_dropped.clone());
        let gateway = Arc::new(Self {
            scheduler: Scheduler::new(settings.order, settings.max_waiting),
            lengths: Lengths::new(settings.prediction.clone()),
            admission: Admission::default(),
            metrics,
            spans: Arc::new(spans),
            settings: RwLock::new(Arc::new(settings.clone())),
            start: Instant::now(),
            requests: AtomicU64::new(0),
            recent_wait: Mutex::new(0.0),
        });
        gateway.configure(settings)?;
        Ok(gateway)
    }

    /// Takes over new settings; after an error the old ones stay.
    pub fn configure(&self, settings: Settings) -> Result<(), BadUpstream> {
        let before = self.scheduler.upstreams();
        let connect = settings.timeouts.connect;
        let is_same_connect = self.settings().timeouts.connect == connect;
        let upstream = |settings: &crate::settings::Upstream| {
            let same = before.iter().find(|upstream| upstream.settings == *settings);
            match same.filter(|_| is_same_connect) {
                Some(same) => Ok(same.clone()),
                None => Upstream::new(settings.clone(), connect).map(Arc::new),
            }
        };
        let upstreams = settings.upstreams.iter().map(upstream).collect::<Result<_, _>>()?;
        self.scheduler.configure(settings.order, settings.max_waiting, upstreams);
        self.lengths.configure(settings.prediction.clone());
        self.admission.configure(&settings.keys);
        self.spans.configure(&settings.spans);
        *self.settings.write().expect(NOT_POISONED) = Arc::new(settings);
        Ok(())
    }

    /// The settings of this moment.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.read().expect(NOT_POISONED).clone()
    }

    /// The time for limits and ranks.
    pub fn now(&self) -> Now {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Now { monotonic: SimTime::from_nanos(nanos), unix_s: unix_seconds() as u64 }
    }

    /// An id that no other request of this process has, and hardly one of another.
    pub(crate) fn next_request_id(&self) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write_u64(number);
        hasher.write_u128(self.start.elapsed().as_nanos());
        hasher.write_u32(std::process::id());
        format!("req-{:016x}{:08x}", hasher.finish(), number as u32)
    }

    pub(crate) fn waited(&self, seconds: f64) {
        let mut recent = self.recent_wait.lock().expect(NOT_POISONED);
        *recent += 0.1 * (seconds - *recent);
    }

    /// What a request would wait if it came now, by those before it; a time to come back.
    pub(crate) fn retry_after(&self) -> std::time::Duration {
        let recent = *self.recent_wait.lock().expect(NOT_POISONED);
        std::time::Duration::from_secs_f64(recent.clamp(1.0, 60.0))
    }
}

fn unix_seconds() -> f64 {
    // A clock before 1970 counts as 1970: only budgets per day read it.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
