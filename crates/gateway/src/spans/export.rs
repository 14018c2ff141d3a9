//! Finished spans on their way to a collector.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::{BodyExt, Limited};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::otlp;
use super::request::Span;
use crate::gateway::Gateway;
use crate::metrics::ReasonLabel;
use crate::settings::SpanSettings;
use crate::upstream::{HttpClient, authorities};

const NOT_POISONED: &str = "no code panics while it holds this lock";

/// Spans of one message, roughly: those of a request stay together.
const BATCH: usize = 512;
/// A message that is not full is sent after this time.
const INTERVAL: Duration = Duration::from_secs(1);
/// Of one attempt to send a message.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Before each further attempt; a collector may ask for longer.
const BACK_OFF: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
const MAX_BACK_OFF: Duration = Duration::from_secs(30);
/// Answers of collectors are small; what is longer is not read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Spans that wait to be sent, up to a number; more are dropped and counted.
#[derive(Debug, Default)]
pub(crate) struct SpanQueue {
    random: RandomState,
    ids: AtomicU64,
    waiting: Mutex<Waiting>,
    max_waiting: AtomicUsize,
    arrived: Notify,
    sent: Counter,
    dropped: Family<ReasonLabel, Counter>,
}

#[derive(Debug, Default)]
struct Waiting {
    requests: VecDeque<(u128, Vec<Span>)>,
    spans: usize,
}

impl SpanQueue {
    /// With the counters of its metrics.
    pub(crate) fn new(sent: Counter, dropped: Family<ReasonLabel, Counter>) -> Self {
        Self { sent, dropped, ..Self::default() }
    }

    pub(crate) fn configure(&self, settings: &SpanSettings) {
        self.max_waiting.store(settings.max_waiting, Ordering::Relaxed);
    }

    /// An id that hardly any other span has.
    pub(crate) fn new_span_id(&self) -> u64 {
        loop {
            let id = self.random.hash_one(self.ids.fetch_add(1, Ordering::Relaxed));
            if id != 0 {
                return id;
            }
        }
    }

    pub(crate) fn new_trace_id(&self) -> u128 {
        u128::from(self.new_span_id()) << 64 | u128::from(self.new_span_id())
    }

    pub(crate) fn push(&self, trace_id: u128, spans: Vec<Span>) {
        let count = spans.len();
        let mut waiting = self.waiting.lock().expect(NOT_POISONED);
        if waiting.spans + count > self.max_waiting.load(Ordering::Relaxed) {
            drop(waiting);
            self.drop_spans("queue_full", count as u64);
            return;
        }
        waiting.spans += count;
        waiting.requests.push_back((trace_id, spans));
        drop(waiting);
        self.arrived.notify_one();
    }

    /// The spans of whole requests, at least one and about as many as wanted.
    pub(crate) fn take(&self, wanted: usize) -> Option<Vec<(u128, Span)>> {
        let mut waiting = self.waiting.lock().expect(NOT_POISONED);
        let mut taken = Vec::new();
        while taken.len() < wanted {
            let Some((trace_id, spans)) = waiting.requests.pop_front() else { break };
            waiting.spans -= spans.len();
            taken.extend(spans.into_iter().map(|span| (trace_id, span)));
        }
        (!taken.is_empty()).then_some(taken)
    }

    fn len(&self) -> usize {
        self.waiting.lock().expect(NOT_POISONED).spans
    }

    fn drop_spans(&self, reason: &'static str, count: u64) {
        self.dropped.get_or_create(&ReasonLabel { reason }).inc_by(count);
    }
}

/// Sends spans until `ending`, then what is left, each message once.
pub(crate) async fn keep_exporting(gateway: Arc<Gateway>, ending: watch::Receiver<bool>) {
    let queue = &gateway.spans;
    let mut exporter = Exporter { queue, client: None, is_failing: false, ending };
    loop {
        let mut ending = exporter.ending.clone();
        tokio::select! {
            () = queue.arrived.notified() => {}
            _ = ending.wait_for(|is_ending| *is_ending) => {}
        }
        if queue.len() < BATCH {
            exporter.wait(INTERVAL).await;
        }
        while let Some(batch) = queue.take(BATCH) {
            // Spans of before a reload that switched them off have nowhere to go.
            match gateway.settings().spans.endpoint.clone() {
                Some(endpoint) => exporter.send(&endpoint, batch).await,
                None => queue.drop_spans("no_endpoint", batch.len() as u64),
            }
        }
        if *exporter.ending.borrow() {
            return;
        }
    }
}

struct Exporter<'a> {
    queue: &'a SpanQueue,
    /// For the endpoint that it was made for.
    client: Option<(Uri, HttpClient)>,
    is_failing: bool,
    ending: watch::Receiver<bool>,
}

/// Why a message was not taken.
struct NotTaken {
    reason: String,
    /// Whether and after how long it may be.
    retry: Option<Duration>,
}

impl Exporter<'_> {
    /// Less when the gateway ends.
    async fn wait(&mut self, time: Duration) {
        tokio::select! {
            () = sleep(time) => {}
            _ = self.ending.wait_for(|is_ending| *is_ending) => {}
        }
    }

    async fn send(&mut self, endpoint: &Uri, batch: Vec<(u128, Span)>) {
        let count = batch.len() as u64;
        let body = otlp::encode(batch.into_iter());
        let mut back_off = BACK_OFF.into_iter();
        loop {
            let reason = match self.attempt(endpoint, &body).await {
                Ok((rejected, reason)) => {
                    let rejected = rejected.min(count);
                    self.queue.sent.inc_by(count - rejected);
                    if rejected > 0 {
                        self.queue.drop_spans("rejected", rejected);
                        tracing::warn!(%endpoint, "the collector rejected {rejected} spans: {reason}");
                    }
                    if std::mem::take(&mut self.is_failing) {
                        tracing::info!(%endpoint, "the collector takes spans again");
                    }
                    return;
                }
                Err(NotTaken { reason, retry }) => {
                    if let Some(wait) = retry.filter(|_| !*self.ending.borrow())
                        && let Some(own) = back_off.next()
                    {
                        self.wait(own.max(wait).min(MAX_BACK_OFF)).await;
                        continue;
                    }
                    reason
                }
            };
            self.queue.drop_spans("not_sent", count);
            // A collector that is down for hours is worth one line, not thousands.
            if !std::mem::replace(&mut self.is_failing, true) {
                tracing::warn!(%endpoint, "the collector takes no spans, which are dropped: {reason}");
            }
            return;
        }
    }

    /// How many spans were rejected of a message that was taken, and why.
    async fn attempt(&mut self, endpoint: &Uri, body: &[u8]) -> Result<(u64, String), NotTaken> {
        let client = match &self.client {
            Some((own, client)) if own == endpoint => client.clone(),
            _ => {
                let client = authorities(endpoint, None)
                    .and_then(|roots| HttpClient::new(endpoint, roots, TIMEOUT))
                    .map_err(|reason| NotTaken { reason, retry: None })?;
                self.client.insert((endpoint.clone(), client)).1.clone()
            }
        };
        let mut headers = HeaderMap::new();
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        headers.insert(header::CONTENT_TYPE, protobuf);
        let again = |reason| NotTaken { reason, retry: Some(Duration::ZERO) };
        let exchange = async {
            let asked = client.request(Method::POST, endpoint.path(), &headers, body).await;
            let response = asked.map_err(|error| again(format!("it {error}")))?;
            let status = response.status();
            let wait = response.headers().get(header::RETRY_AFTER);
            let wait = wait.and_then(|wait| wait.to_str().ok()?.parse().ok());
            let answer = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
            let answer = answer.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            if status.is_success() {
                return Ok(otlp::rejected(&answer));
            }
            // Those of which OTLP says that a client may try again.
            let is_retriable = matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            );
            let retry = is_retriable.then(|| Duration::from_secs(wait.unwrap_or(0)));
            Err(NotTaken { reason: format!("it answered {status}"), retry })
        };
        let late = |_| Err(again(format!("it did not answer within {} s", TIMEOUT.as_secs_f64())));
        timeout(TIMEOUT, exchange).await.unwrap_or_else(late)
    }
}
