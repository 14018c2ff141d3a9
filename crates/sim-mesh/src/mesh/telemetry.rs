//! What monitoring reports: requests by type, use of resources by service, spans; and the counts that must add up.

use homeostat_core::{Fraction, SimDuration, SimTime};
use homeostat_des::{Histogram, Samples};
use homeostat_spans::{NewSpan, SpanKind, SpanStore};

use super::Mesh;

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

/// A span as the simulator records it.
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
    /// When the call reached the replica.
    pub start: SimTime,
    /// When the answer was ready.
    pub end: SimTime,
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
        let operations: Vec<_> = topology
            .operations
            .iter()
            .map(|operation| {
                let service = &topology.services[operation.service as usize].name;
                (store.intern(service), store.intern(&operation.name))
            })
            .collect();
        for span in spans {
            let (service, operation) = operations[span.operation as usize];
            store.push(&NewSpan {
                trace_id: u128::from(span.trace),
                span_id: span.span,
                parent_id: span.parent,
                service,
                instance: replicas[span.replica as usize],
                operation,
                start_ns: EPOCH_NS + span.start.nanos(),
                end_ns: EPOCH_NS + span.end.nanos(),
                kind: SpanKind::Server,
                is_error: span.is_error,
                follows_from: span.is_background,
            });
        }
    }
}

impl SpanRecord {
    /// The replica that served the call.
    pub fn replica(&self) -> super::ReplicaId {
        super::ReplicaId(self.replica)
    }
}
