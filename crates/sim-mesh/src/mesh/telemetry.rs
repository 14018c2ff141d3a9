//! What monitoring reports: requests by type, use of resources by service, spans; and the counts that must add up.

use homeostat_core::{Fraction, SimDuration, SimTime};
use homeostat_des::{Histogram, Samples};
use homeostat_spans::{NewSpan, SpanKind, SpanStore};

use super::{Mesh, NONE};

/// Counts since time zero. Every request and every call that came in is over, or is still inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conservation {
    /// Requests of clients.
    pub requests_arrived: u64,
    /// Answered in time.
    pub requests_completed: u64,
    /// Answered after the client had given up.
    pub requests_timed_out: u64,
    /// Answered with an error: a call was refused.
    pub requests_failed: u64,
    /// Not answered yet.
    pub requests_open: u64,
    /// Calls, those of clients included.
    pub calls_made: u64,
    /// Calls whose answer has reached the caller.
    pub calls_answered: u64,
    /// Calls not answered yet.
    pub calls_open: u64,
    /// Answered calls that were refused by a full queue.
    pub calls_refused: u64,
}

impl Conservation {
    /// Whether nothing was lost.
    pub fn holds(&self) -> bool {
        let ended = self.requests_completed + self.requests_timed_out + self.requests_failed;
        self.requests_arrived == ended + self.requests_open
            && self.calls_made == self.calls_answered + self.calls_open
    }
}

/// Requests of one type since time zero.
#[derive(Debug, Clone, Default)]
pub struct RequestTotals {
    /// Arrived.
    pub arrived: u64,
    /// Failed or answered too late.
    pub dropped: u64,
    /// Latencies of all that were answered without an error.
    pub latency: Histogram,
}

/// Requests of one type in a window.
#[derive(Debug, Clone, Default)]
pub struct RequestWindow {
    /// Arrived.
    pub arrived: u64,
    /// Failed or answered too late.
    pub dropped: u64,
    /// Failed.
    pub failed: u64,
    /// Latencies of those answered without an error.
    pub latency: Samples,
}

/// One service in a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceWindow {
    /// Calls.
    pub arrived: u64,
    /// Calls refused by a full queue.
    pub refused: u64,
    /// Mean use by all replicas, in the units of limits: millicores, bytes per second, bytes.
    pub usage: [f64; 5],
}

/// An answered call as the simulator records it: the spans of both of its sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanRecord {
    /// Number of the trace, from one.
    pub trace: u64,
    /// Its own id.
    pub span: u64,
    /// The span of the caller; zero for a root.
    pub parent: u64,
    pub(super) operation: u32,
    pub(super) replica: u32,
    /// The replica that made the call, or [`NONE`] for a client.
    pub(super) caller: u32,
    /// When the call was made.
    pub called: SimTime,
    /// When it reached the replica.
    pub start: SimTime,
    /// When the answer was ready.
    pub end: SimTime,
    /// When the answer reached the caller.
    pub answered: SimTime,
    /// Whether it failed.
    pub is_error: bool,
    /// Whether no answer is waited for.
    pub is_background: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Types {
    totals: Vec<RequestTotals>,
    windows: Vec<RequestWindow>,
}

impl Types {
    pub(super) fn new(types: usize) -> Self {
        Self {
            totals: vec![RequestTotals::default(); types],
            windows: vec![RequestWindow::default(); types],
        }
    }

    pub(super) fn arrive(&mut self, kind: usize) {
        self.totals[kind].arrived += 1;
        self.windows[kind].arrived += 1;
    }

    pub(super) fn settle(&mut self, kind: usize, latency: SimDuration, failed: bool, late: bool) {
        let (total, window) = (&mut self.totals[kind], &mut self.windows[kind]);
        if failed || late {
            total.dropped += 1;
            window.dropped += 1;
        }
        window.failed += u64::from(failed);
        if !failed {
            total.latency.record(latency);
            window.latency.record(latency);
        }
    }
}

/// Clocks of spans start on the first of January 2026, so that they look like those of a real system.
const EPOCH_NS: u64 = 1_767_225_600_000_000_000;

impl Mesh {
    /// Requests of a type since time zero.
    pub fn totals(&self, request_type: usize) -> &RequestTotals {
        &self.types.totals[request_type]
    }

    /// The 99th percentile of a type's latency since time zero.
    pub fn p99(&self, request_type: usize) -> Option<SimDuration> {
        self.types.totals[request_type].latency.quantile(Fraction::from_percent(99))
    }

    /// Requests of each type since this was last called.
    pub fn close_request_windows(&mut self) -> Vec<RequestWindow> {
        let types = self.types.windows.len();
        std::mem::replace(&mut self.types.windows, vec![RequestWindow::default(); types])
    }

    /// What happened in each service since this was last called, over a window of this length.
    pub fn close_service_windows(&mut self, length: SimDuration) -> Vec<ServiceWindow> {
        let mut used: Vec<[f64; 5]> =
            self.services.iter().map(|service| service.used_before).collect();
        for number in 0..self.replicas.len() as u32 {
            let replica = &self.replicas[number as usize];
            if replica.phase == super::replicas::Phase::Gone {
                continue;
            }
            let service = replica.service as usize;
            let own = self.used_by(number);
            used[service].iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
        let nanos = length.nanos().max(1) as f64;
        // Core-nanoseconds and bytes per nanosecond become millicores and bytes per second.
        let scales = [1e3, 1e9, 1.0, 1e9, 1e9];
        let mut windows = Vec::with_capacity(used.len());
        for (service, used) in self.services.iter_mut().zip(used) {
            let usage = std::array::from_fn(|resource| {
                (used[resource] - service.reported[resource]) / nanos * scales[resource]
            });
            windows.push(ServiceWindow {
                arrived: service.arrived - service.reported_arrived,
                refused: service.refused - service.reported_refused,
                usage,
            });
            service.reported = used;
            (service.reported_arrived, service.reported_refused) =
                (service.arrived, service.refused);
        }
        windows
    }

    /// The counts that must add up.
    pub fn conservation(&self) -> Conservation {
        let (requests_open, calls_open) = self.open();
        Conservation { requests_open, calls_open, ..self.conservation }
    }

    /// From now on, spans are recorded of one request in so many; zero for none.
    pub fn record_every(&mut self, requests: u32) {
        self.setup.record_every = requests;
    }

    /// Takes the spans recorded since this was last called.
    pub fn take_spans(&mut self) -> Vec<SpanRecord> {
        std::mem::take(&mut self.spans)
    }

    /// Adds spans to a store, as readers of files do.
    pub fn store_spans(&self, spans: &[SpanRecord], store: &mut SpanStore) {
        let replicas: Vec<_> = (0..self.replicas.len() as u32)
            .map(|number| store.intern(&self.replica_name(super::ReplicaId(number))))
            .collect();
        let topology = self.topology();
        // The side of the caller is named by what it calls: calls of two services must not look alike.
        let operations: Vec<_> = topology
            .operations
            .iter()
            .map(|operation| {
                let service = &topology.services[operation.service as usize].name;
                let call = store.intern(&format!("{service}/{}", operation.name));
                (store.intern(service), store.intern(&operation.name), call)
            })
            .collect();
        let services: Vec<_> =
            topology.services.iter().map(|service| store.intern(&service.name)).collect();
        for span in spans {
            let (service, operation, call) = operations[span.operation as usize];
            // The two sides have an id each; clients of the application record nothing.
            let (server_id, client_id) = (2 * span.span, 2 * span.span + 1);
            let has_client = span.caller != NONE && !span.is_background;
            let server = NewSpan {
                trace_id: u128::from(span.trace),
                span_id: server_id,
                parent_id: if has_client { client_id } else { 2 * span.parent },
                service,
                instance: replicas[span.replica as usize],
                operation,
                start_ns: EPOCH_NS + span.start.nanos(),
                end_ns: EPOCH_NS + span.end.nanos(),
                kind: SpanKind::Server,
                is_error: span.is_error,
                follows_from: span.is_background,
            };
            if has_client {
                store.push(&NewSpan {
                    span_id: client_id,
                    parent_id: 2 * span.parent,
                    service: services[self.replicas[span.caller as usize].service as usize],
                    operation: call,
                    instance: replicas[span.caller as usize],
                    start_ns: EPOCH_NS + span.called.nanos(),
                    end_ns: EPOCH_NS + span.answered.nanos(),
                    kind: SpanKind::Client,
                    ..server
                });
            }
            store.push(&server);
        }
    }
}

impl SpanRecord {
    /// The replica that served the call.
    pub fn replica(&self) -> super::ReplicaId {
        super::ReplicaId(self.replica)
    }
}
