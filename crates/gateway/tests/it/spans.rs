//! OpenTelemetry spans, as a collector gets them and as `homeostat spans` reads them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use homeostat_spans::read::{Format, read_spans};
use homeostat_spans::{
    AnalysisOptions, CriticalPaths, OperationReport, SpanDefects, SpanLimits, SpanStore, TimeRange,
};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::setup::{Running, Scripted, chat, read_request};

/// A receiver of OTLP over HTTP.
struct Collector {
    settings: String,
    bodies: Arc<Mutex<Vec<u8>>>,
    requests: Arc<Mutex<Vec<Instant>>>,
    is_hanging: Arc<AtomicBool>,
}

/// Taken, and of it one span refused: field 1 (partial success) with field 1 (rejected spans).
const ONE_REJECTED: &[u8] = &[0x0a, 0x02, 0x08, 0x01];

impl Collector {
    /// Answers its first requests like this, and all later ones with success.
    async fn start(first: &'static [(u16, &'static [u8])]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let settings = format!("[spans]\nendpoint = \"http://{address}/v1/traces\"\n");
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let is_hanging = Arc::new(AtomicBool::new(false));
        let of_task = (bodies.clone(), requests.clone(), is_hanging.clone());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (bodies, requests, is_hanging) = of_task.clone();
                tokio::spawn(async move {
                    while let Ok(Some((head, body))) = read_request(&mut stream).await {
                        assert!(head.starts_with("post /v1/traces "), "{head}");
                        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
                        let number = requests.lock().unwrap().len();
                        requests.lock().unwrap().push(Instant::now());
                        while is_hanging.load(Ordering::SeqCst) {
                            tokio::time::sleep(Duration::from_millis(10)).await;
                        }
                        let (status, answer) = first.get(number).copied().unwrap_or((200, b""));
                        if status == 200 {
                            bodies.lock().unwrap().extend(body);
                        }
                        let length = answer.len();
                        let head =
                            format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n");
                        let _ = stream.write_all(&[head.as_bytes(), answer].concat()).await;
                    }
                });
            }
        });
        Self { settings, bodies, requests, is_hanging }
    }

    /// What the spans say of the requests, by operation.
    fn critical_paths(&self) -> Vec<OperationReport> {
        let bodies = self.bodies.lock().unwrap().clone();
        let mut store = SpanStore::new(SpanLimits::default());
        read_spans(&mut &bodies[..], Some(Format::Otlp), &mut store).unwrap();
        let options = AnalysisOptions::default();
        let (mut paths, defects) = CriticalPaths::analyse(&mut store, &options, &[TimeRange::ALL]);
        // The root of a trace that a client began is with the client.
        let traces_without_root = defects.traces_without_root;
        assert_eq!(defects, SpanDefects { traces_without_root, ..SpanDefects::default() });
        paths.remove(0).operations
    }

    fn has(&self, text: &str) -> bool {
        self.bodies.lock().unwrap().windows(text.len()).any(|window| window == text.as_bytes())
    }
}

const SENT: &str = "homeostat_gateway_spans_sent_total";

#[tokio::test]
async fn the_critical_path_of_a_request_shows_its_wait_and_its_upstream() {
    let (upstream, collector) = (Scripted::start().await, Collector::start(&[]).await);
    let settings = format!("{}{}", collector.settings, upstream.settings("a", 1));
    let gateway = Arc::new(Running::start(&settings).await);
    let mut clients = tokio::task::JoinSet::new();
    for prompt in ["hold", "answer 9"] {
        let own = gateway.clone();
        clients.spawn(async move { own.chat(prompt, ",\"stream\":true").await });
        upstream.until_seen(1).await;
    }
    gateway.until("homeostat_gateway_waiting_requests{model=\"m\"}", 1.0).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    upstream.release.add_permits(1);
    clients.join_all().await;
    gateway.until(SENT, 6.0).await;
    let operations = collector.critical_paths();
    let [operation] = &operations[..] else { panic!("{operations:?}") };
    assert_eq!(operation.service, "homeostat-gateway");
    assert_eq!((&operation.operation[..], operation.requests), ("POST /v1/chat/completions", 2));
    let total = |name: &str| {
        let step = operation.steps.iter().find(|step| step.operation == name);
        step.unwrap_or_else(|| panic!("{name}: {operation:?}")).self_ms
    };
    // One held its slot for 0.3 s, and the other waited as long for it: means of two requests.
    assert!(total("queue") > 100.0 && total("chat m") > 100.0, "{operation:?}");
    for attribute in [
        "gen_ai.request.model",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "homeostat.predicted_output_tokens",
        "homeostat.time_to_first_token",
        "http.response.status_code",
    ] {
        assert!(collector.has(attribute), "{attribute}");
    }
}

#[tokio::test]
async fn a_trace_of_the_client_goes_on_to_the_upstream_through_every_attempt() {
    let (upstream, collector) = (Scripted::start().await, Collector::start(&[]).await);
    let more = "[retries]\nmax = 1\n[health]\nfailures = 99\n";
    let settings = format!("{more}{}{}", collector.settings, upstream.settings("a", 1));
    let gateway = Running::start(&settings).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let header = format!("traceparent: 00-{trace}-b7ad6b7169203331-01\r\ntracestate: v=1\r\n");
    let path = "/v1/chat/completions";
    assert_eq!(gateway.post(path, &chat("status 503", ""), &header).await.status, 503);
    // A request, two waits and two attempts.
    gateway.until(SENT, 5.0).await;
    let operations = collector.critical_paths();
    assert_eq!((operations[0].requests, operations[0].errors), (1, 1));
    let heads = upstream.heads.lock().unwrap().clone();
    let parent = |head: &String| {
        assert!(head.contains("tracestate: v=1"), "{head}");
        head.lines().find_map(|line| line.strip_prefix("traceparent: ")).unwrap().to_owned()
    };
    let parents: Vec<String> = heads.iter().map(parent).collect();
    assert!(
        parents.iter().all(|parent| parent.starts_with(&format!("00-{trace}-"))),
        "{parents:?}"
    );
    assert!(parents[0] != parents[1] && !parents[0].contains("b7ad6b7169203331"), "{parents:?}");
    assert!(collector.has("homeostat.retries"));
    // The client has decided against this one: it goes on as it came.
    let unsampled = header.replace("-01\r\n", "-00\r\n");
    assert_eq!(gateway.post(path, &chat("answer 1", ""), &unsampled).await.status, 200);
    let last = upstream.heads.lock().unwrap().last().cloned().unwrap();
    assert!(last.contains(&format!("traceparent: 00-{trace}-b7ad6b7169203331-00")), "{last}");
    drop(gateway.stop);
    gateway.ended.await.unwrap();
    assert_eq!(collector.critical_paths()[0].requests, 1);
}

#[tokio::test]
async fn a_collector_that_hangs_costs_spans_and_no_request() {
    let (upstream, collector) = (Scripted::start().await, Collector::start(&[]).await);
    collector.is_hanging.store(true, Ordering::SeqCst);
    let settings = format!("{}max_waiting = 9\n{}", collector.settings, upstream.settings("a", 4));
    let gateway = Running::start(&settings).await;
    assert_eq!(gateway.chat("answer 1", "").await.status, 200);
    while collector.requests.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The first one is with the collector, three wait, and there is no room for four more.
    let start = Instant::now();
    for _ in 0..7 {
        assert_eq!(gateway.chat("answer 1", "").await.status, 200);
    }
    // Less than the collector is waited for.
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    gateway.until("homeostat_gateway_spans_dropped_total{reason=\"queue_full\"}", 12.0).await;
    collector.is_hanging.store(false, Ordering::SeqCst);
    gateway.until(SENT, 12.0).await;
}

#[tokio::test]
async fn a_collector_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    let upstream = Scripted::start().await;
    let collector = Collector::start(&[(503, b""), (200, ONE_REJECTED), (400, b"")]).await;
    let settings = format!("{}{}", collector.settings, upstream.settings("a", 4));
    let gateway = Running::start(&settings).await;
    let dropped =
        |reason: &str| format!("homeostat_gateway_spans_dropped_total{{reason=\"{reason}\"}}");
    gateway.chat("answer 1", "").await;
    gateway.until(SENT, 2.0).await;
    gateway.until(&dropped("rejected"), 1.0).await;
    gateway.chat("answer 1", "").await;
    gateway.until(&dropped("not_sent"), 3.0).await;
    gateway.chat("answer 1", "").await;
    // What is left at the end is sent without delay.
    drop(gateway.stop);
    gateway.ended.await.unwrap();
    let times = collector.requests.lock().unwrap().clone();
    assert_eq!(times.len(), 4);
    assert!(times[1] - times[0] > Duration::from_millis(900), "a second before the next attempt");
    assert_eq!(collector.critical_paths()[0].requests, 2);
}
