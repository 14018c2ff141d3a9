//! The HTTP servers of the operator: admission reviews, health and metrics with TLS, and health,
//! metrics and the log level on loopback without TLS.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use k8s_openapi::api::core::v1::Pod;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use crate::controllers::{Context, now};
use crate::supervisor::{Health, Heartbeat};
use crate::telemetry::SILENT_AFTER;
use crate::webhook::{CurrentCertificate, review};

/// The maximum size of a request body; an admission review contains a whole pod.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// The time limit of a handshake and of reading a request.
const MAX_TIME: Duration = Duration::from_secs(15);
/// The maximum number of concurrent connections; others wait.
const MAX_CONNECTIONS: usize = 256;
/// A server on which every place is taken for this long accepts no probe either.
pub(crate) const SERVER_DEADLINE: Duration = Duration::from_secs(120);

/// Changes the log level if there is a new one; returns the current level.
pub type LogLevel = Arc<dyn Fn(Option<&str>) -> Result<String, String> + Send + Sync>;

/// What the request handlers need.
pub struct Served {
    /// What the controllers share.
    pub ctx: Arc<Context>,
    /// The certificate of the TLS side.
    pub certificate: Arc<CurrentCertificate>,
    /// Reads and changes the log level, on loopback only.
    pub log_level: LogLevel,
    /// Whether every task of the process works.
    pub health: Arc<Health>,
}

/// The side on which a request arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Tls,
    Loopback,
}

/// Serves without TLS; for loopback only.
pub async fn serve_plain(listener: TcpListener, served: Arc<Served>, heartbeat: Heartbeat) {
    let serve = move |stream| answer(TokioIo::new(stream), served.clone(), Side::Loopback);
    accept(listener, heartbeat, serve).await;
}

/// Serves with TLS.
pub async fn serve_tls(listener: TcpListener, served: Arc<Served>, heartbeat: Heartbeat) {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows the default versions")
        .with_no_client_auth()
        .with_cert_resolver(served.certificate.clone());
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let serve = move |stream| {
        let (acceptor, served) = (acceptor.clone(), served.clone());
        async move {
            // A handshake that fails is the client's problem, and the connection is closed.
            if let Ok(Ok(stream)) = tokio::time::timeout(MAX_TIME, acceptor.accept(stream)).await {
                answer(TokioIo::new(stream), served, Side::Tls).await;
            }
        }
    };
    accept(listener, heartbeat, serve).await;
}

async fn accept<F, Fut>(listener: TcpListener, heartbeat: Heartbeat, serve: F)
where
    F: Fn(TcpStream) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    let places = Arc::new(tokio::sync::Semaphore::new(MAX_CONNECTIONS));
    loop {
        let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
        match heartbeat.wait(listener.accept()).await {
            Ok((stream, _)) => {
                let serve = serve.clone();
                tokio::spawn(async move {
                    serve(stream).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn answer<S>(stream: TokioIo<S>, served: Arc<Served>, side: Side)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let served = served.clone();
        async move { Ok::<_, Infallible>(route(request, &served, side).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_TIME)
        .serve_connection(stream, service);
    // A broken connection is the client's problem.
    let _ = connection.await;
}

type Answer = Response<Full<Bytes>>;

fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    let plain = header::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}

async fn route(request: Request<Incoming>, served: &Served, side: Side) -> Answer {
    let path = request.uri().path().to_owned();
    match (request.method(), &path[..]) {
        (&Method::GET, "/healthz") => match served.health.failure() {
            None => text(StatusCode::OK, "ok\n"),
            Some(failure) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{failure}\n")),
        },
        (&Method::GET, "/readyz") => ready(served),
        (&Method::GET, "/metrics") => {
            let mut answer = text(StatusCode::OK, served.ctx.telemetry.text());
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            answer
                .headers_mut()
                .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
            answer
        }
        (&Method::POST, "/mutate") if side == Side::Tls => match body(request).await {
            Ok(body) => admit(&body, served),
            Err(refused) => refused,
        },
        (&Method::GET, "/loglevel") if side == Side::Loopback => log_level(served, None),
        (&Method::PUT, "/loglevel") if side == Side::Loopback => match body(request).await {
            Ok(body) => log_level(served, Some(&String::from_utf8_lossy(&body))),
            Err(refused) => refused,
        },
        _ => {
            let known = "GET /healthz, /readyz, /metrics; PUT /loglevel on loopback\n";
            text(StatusCode::NOT_FOUND, known)
        }
    }
}

async fn body(request: Request<Incoming>) -> Result<Bytes, Answer> {
    let body = Limited::new(request.into_body(), MAX_BYTES).collect();
    match tokio::time::timeout(MAX_TIME, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => {
            Err(text(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long or incomplete\n"))
        }
        Err(_) => Err(text(StatusCode::REQUEST_TIMEOUT, "the body took too long\n")),
    }
}

fn ready(served: &Served) -> Answer {
    let mut missing = Vec::new();
    if !served.ctx.are_caches_ready() {
        missing.push("objects and pods have not been listed yet".to_owned());
    }
    let silence = served.ctx.telemetry.silence();
    if silence > SILENT_AFTER {
        missing.push(format!("the API server has not answered for {}s", silence.as_secs()));
    }
    if !served.certificate.is_known() && served.ctx.webhook.is_some() {
        missing.push("the webhook has no certificate yet".to_owned());
    }
    if missing.is_empty() {
        text(StatusCode::OK, "ok\n")
    } else {
        text(StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", missing.join("; ")))
    }
}

fn log_level(served: &Served, wanted: Option<&str>) -> Answer {
    match (served.log_level)(wanted.map(str::trim)) {
        Ok(level) => text(StatusCode::OK, format!("{level}\n")),
        Err(why) => text(StatusCode::BAD_REQUEST, format!("{why}\n")),
    }
}

/// Admits every pod, and changes the size of some. A malformed review is answered with an error, which
/// the API server ignores, as the webhook configuration says.
fn admit(body: &[u8], served: &Served) -> Answer {
    let telemetry = &served.ctx.telemetry;
    let review_of: Result<AdmissionReview<Pod>, _> = serde_json::from_slice(body);
    let request: AdmissionRequest<Pod> =
        match review_of.ok().and_then(|review| review.try_into().ok()) {
            Some(request) => request,
            None => {
                telemetry.admitted("malformed");
                return text(StatusCode::BAD_REQUEST, "not an AdmissionReview of a pod\n");
            }
        };
    let objects = served.ctx.objects.state();
    let objects = objects.iter().filter_map(|object| object.0.as_ref().ok());
    let mut response = AdmissionResponse::from(&request);
    match review(&request, objects, now()) {
        Some(changes) => {
            let changes = serde_json::Value::Array(changes);
            let patch = serde_json::from_value(changes).expect("these are patch operations");
            response = response.with_patch(patch).expect("a patch is JSON");
            telemetry.admitted("sized");
        }
        None => telemetry.admitted("unchanged"),
    }
    let review = serde_json::to_vec(&response.into_review()).expect("a review is JSON");
    let mut answer = text(StatusCode::OK, review);
    let json = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}
