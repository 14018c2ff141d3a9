//! Resource usage of pods, as the metrics server reports it: an aggregated API fed by the
//! kubelet's `/metrics/resource`, so that all autoscalers read the same numbers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::authority::Authority;
use crate::cluster::{Cluster, client_of};
use crate::own_machine::NODE_ADDRESS;
use crate::real_node::KUBELET_READ_ONLY_PORT;

/// Arguments with which an API server hands questions on to others, and finds them without a
/// kube-proxy.
pub(crate) fn aggregation_arguments(directory: &Path) -> Vec<String> {
    let directory = directory.join("front-proxy");
    fs::create_dir_all(&directory).expect("a directory");
    let authority = Authority::new(&directory);
    authority.issue("client", "front-proxy", &[], &[]);
    let file = |name: &str| directory.join(name).display().to_string();
    vec![
        format!("--requestheader-client-ca-file={}", file("ca.crt")),
        "--requestheader-allowed-names=front-proxy".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        format!("--proxy-client-cert-file={}", file("client.crt")),
        format!("--proxy-client-key-file={}", file("client.key")),
        "--enable-aggregator-routing=true".to_owned(),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
    ]
}

/// Serves `metrics.k8s.io` until the program ends, reading the kubelet in every interval.
pub(crate) async fn serve_metrics_api(cluster: &Cluster, interval: Duration) {
    cluster.authority().issue("metrics", "metrics", &[], &[NODE_ADDRESS]);
    let certificate = cluster.file("metrics.crt");
    let certificate = CertificateDer::from_pem_file(certificate).expect("it was issued");
    let key = PrivateKeyDer::from_pem_file(cluster.file("metrics.key")).expect("it was issued");
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("they belong together");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = std::net::TcpListener::bind((NODE_ADDRESS, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();

    let usage = Arc::new(Usage::default());
    let scraped = usage.clone();
    std::thread::spawn(move || {
        loop {
            scraped.scrape();
            std::thread::sleep(interval);
        }
    });
    let kubeconfig = cluster.admin_kubeconfig();
    // On a thread of its own: it answers for as long as the program runs.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            accept(listener, acceptor, usage, client_of(&kubeconfig).await).await;
        });
    });
    register(&cluster.client().await, port).await;
}

/// CPU seconds that a container used, bytes that it holds, and when that was, in seconds.
#[derive(Clone, Copy, Default)]
struct Sample {
    cpu_seconds: f64,
    bytes: f64,
    at: f64,
}

/// Namespace, pod and container.
type Place = (String, String, String);

#[derive(Default)]
struct Usage {
    /// The last two samples of each container that runs.
    samples: Mutex<BTreeMap<Place, (Option<Sample>, Sample)>>,
}

impl Usage {
    fn scrape(&self) {
        let Some(text) = kubelet_says("/metrics/resource") else { return };
        let mut now: BTreeMap<Place, Sample> = BTreeMap::new();
        for line in text.lines() {
            let Some((name, labels, value, at)) = read_line(line) else { continue };
            let label = |wanted: &str| labels.get(wanted).cloned().unwrap_or_default();
            let place = (label("namespace"), label("pod"), label("container"));
            let sample = now.entry(place).or_default();
            match name {
                "container_cpu_usage_seconds_total" => {
                    sample.cpu_seconds = value;
                    sample.at = at;
                }
                "container_memory_working_set_bytes" => sample.bytes = value,
                _ => {}
            }
        }
        now.retain(|_, sample| sample.at > 0.0);
        let mut samples = self.samples.lock().expect("no thread panics while it holds the lock");
        let before = std::mem::take(&mut *samples);
        *samples = now
            .into_iter()
            .map(|(place, sample)| {
                let last = before.get(&place).map(|(_, last)| *last);
                (place, (last.filter(|last| last.at < sample.at), sample))
            })
            .collect();
    }

    /// The metrics of a pod; none before two samples.
    fn of(&self, namespace: &str, pod: &str) -> Option<Value> {
        let samples = self.samples.lock().expect("no thread panics while it holds the lock");
        let mut containers = Vec::new();
        let mut taken = None;
        for ((_, _, container), (last, sample)) in
            samples.iter().filter(|((at, name, _), _)| at == namespace && name == pod)
        {
            let last = (*last)?;
            let seconds = sample.at - last.at;
            let cores = (sample.cpu_seconds - last.cpu_seconds).max(0.0) / seconds;
            containers.push(json!({ "name": container, "usage": {
                "cpu": format!("{:.0}n", cores * 1e9),
                "memory": format!("{:.0}Ki", sample.bytes / 1024.0),
            }}));
            taken = Some((sample.at, seconds));
        }
        let (at, seconds) = taken?;
        let timestamp = Timestamp::from_millisecond((at * 1e3) as i64).ok()?;
        Some(json!({
            "metadata": { "name": pod, "namespace": namespace },
            "timestamp": timestamp.to_string(), "window": format!("{seconds:.3}s"),
            "containers": containers,
        }))
    }
}

/// One line of the exposition format: name, labels, value and time.
fn read_line(line: &str) -> Option<(&str, BTreeMap<String, String>, f64, f64)> {
    let (name, rest) = line.split_once('{')?;
    let (labels, rest) = rest.split_once('}')?;
    let label = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    };
    let labels = labels.split(',').filter_map(label).collect();
    let mut numbers = rest.split_whitespace().map(|number| number.parse::<f64>().ok());
    let value = numbers.next()??;
    let milliseconds = numbers.next()??;
    Some((name, labels, value, milliseconds / 1e3))
}

fn kubelet_says(path: &str) -> Option<String> {
    let mut stream = TcpStream::connect((NODE_ADDRESS, KUBELET_READ_ONLY_PORT)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: kubelet\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

async fn accept(
    listener: std::net::TcpListener,
    acceptor: TlsAcceptor,
    usage: Arc<Usage>,
    client: Client,
) {
    listener.set_nonblocking(true).expect("a socket");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (acceptor, usage, client) = (acceptor.clone(), usage.clone(), client.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request: Request<Incoming>| {
                let (usage, client) = (usage.clone(), client.clone());
                async move { Ok::<_, Infallible>(answer(&request, &usage, &client).await) }
            });
            // A client that went away is no problem.
            let connection = hyper::server::conn::http1::Builder::new();
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: &Request<Incoming>,
    usage: &Usage,
    client: &Client,
) -> Response<Full<Bytes>> {
    let parts: Vec<&str> = request.uri().path().trim_matches('/').split('/').collect();
    let body = match parts[..] {
        ["apis", "metrics.k8s.io", "v1beta1"] => Some(json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1",
            "resources": [{ "name": "pods", "singularName": "", "namespaced": true,
                "kind": "PodMetrics", "verbs": ["get", "list"] }],
        })),
        ["apis", "metrics.k8s.io", "v1beta1", "pods"] => {
            list(usage, Api::all(client.clone()), request.uri().query()).await
        }
        ["apis", "metrics.k8s.io", "v1beta1", "namespaces", namespace, "pods"] => {
            let pods = Api::namespaced(client.clone(), namespace);
            list(usage, pods, request.uri().query()).await
        }
        _ => None,
    };
    let status = if body.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    let body = body.unwrap_or_else(|| json!({ "kind": "Status", "status": "Failure" }));
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .expect("a response")
}

async fn list(usage: &Usage, pods: Api<Pod>, query: Option<&str>) -> Option<Value> {
    let fields = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let selector = fields.into_iter().find(|(name, _)| name == "labelSelector");
    let params = selector
        .map_or_else(ListParams::default, |(_, selector)| ListParams::default().labels(&selector));
    let pods = pods.list(&params).await.ok()?;
    let items: Vec<Value> = pods
        .iter()
        .filter_map(|pod| usage.of(&pod.namespace().unwrap_or_default(), &pod.name_any()))
        .collect();
    Some(json!({
        "kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {}, "items": items,
    }))
}

/// Registers the metrics API with the API server, and waits until it is available.
async fn register(client: &Client, port: u16) {
    let name = "metrics";
    let namespace = "kube-system";
    let service: Service = serde_json::from_value(json!({
        "metadata": { "name": name }, "spec": { "ports": [{ "port": 443, "targetPort": port }] },
    }))
    .expect("valid");
    let endpoints: Endpoints = serde_json::from_value(json!({
        "metadata": { "name": name },
        "subsets": [{ "addresses": [{ "ip": NODE_ADDRESS }], "ports": [{ "port": port }] }],
    }))
    .expect("valid");
    let api: APIService = serde_json::from_value(json!({
        "metadata": { "name": "v1beta1.metrics.k8s.io" },
        "spec": {
            "group": "metrics.k8s.io", "version": "v1beta1", "insecureSkipTLSVerify": true,
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": { "name": name, "namespace": namespace },
        },
    }))
    .expect("valid");
    let params = PostParams::default();
    let services = Api::namespaced(client.clone(), namespace);
    services.create(&params, &service).await.expect("created");
    let all = Api::namespaced(client.clone(), namespace);
    all.create(&params, &endpoints).await.expect("created");
    let apis: Api<APIService> = Api::all(client.clone());
    apis.create(&params, &api).await.expect("created");
    for _ in 0..300 {
        let request = http::Request::get("/apis/metrics.k8s.io/v1beta1/pods").body(Vec::new());
        if client.request_text(request.expect("a request")).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the API server does not find the metrics API within half a minute");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kubelet_is_read_with_its_time() {
        let line = r#"container_cpu_usage_seconds_total{container="app",namespace="shop",pod="a-1"} 12.5 1700000000250"#;
        let (name, labels, value, at) = read_line(line).expect("a line");
        assert_eq!(
            (name, value, at),
            ("container_cpu_usage_seconds_total", 12.5, 1_700_000_000.25)
        );
        assert_eq!(labels["pod"], "a-1");
        assert!(read_line("# HELP container_cpu_usage_seconds_total").is_none());
    }
}
