//! `homeostat trajectories collect`: takes episodes from operators over HTTP into a store, and offers them the
//! policies that were learned from it.
//!
//! An episode that is sent twice is stored once: it is known by workload, policy and time. It is on the
//! store's disk when the answer arrives, so that a sender may forget it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use homeostat_trajectories::{
    Error, Filter, Origin, RecordedTrajectory, Store, open_store, read_trajectories,
};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::output::print;

/// An episode has at most a thousand decisions.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Time for a handshake, and for reading a request.
const MAX_TIME: Duration = Duration::from_secs(30);
const MAX_CONNECTIONS: usize = 64;
const NOT_POISONED: &str = "no code panics while it holds this lock";

/// Takes episodes from operators (`homeostat operator run --collector URL`) into a store. With --policies it
/// also offers them the policies that `homeostat learn` writes: DIR/NAMESPACE/NAME.policy.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  homeostat trajectories collect --store shop.db --listen 127.0.0.1:8445\n  homeostat trajectories collect --store postgres://me@localhost/decisions --policies policies --listen 0.0.0.0:8445 --token-file token --tls-cert tls.crt --tls-key tls.key"
)]
pub(crate) struct CollectArguments {
    #[command(flatten)]
    store: crate::StoreOption,
    /// Address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8445")]
    listen: SocketAddr,
    /// File with the token that operators present; required unless ADDRESS is loopback.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the certificate chain, as PEM; required unless ADDRESS is loopback.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// File with its private key, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Listen beyond this machine without TLS: anyone on the way can read decisions and token.
    #[arg(long)]
    allow_plain: bool,
    /// Directory with the policies that are offered.
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
}

/// What the handlers share.
struct Collector {
    store: Mutex<Stored>,
    token: Option<String>,
    policies: Option<PathBuf>,
}

struct Stored {
    store: Box<dyn Store>,
    known: BTreeSet<Known>,
}

/// Workload, policy and time of an episode.
type Known = (String, String, i64);

type Answer = Response<Full<Bytes>>;

pub(crate) fn run(arguments: &CollectArguments) -> anyhow::Result<()> {
    let is_local = arguments.listen.ip().is_loopback();
    let token = arguments.token_file.as_deref().map(read_token).transpose()?;
    ensure!(
        is_local || token.is_some(),
        "{} can be reached by others, who could write decisions: give --token-file",
        arguments.listen
    );
    let tls = tls(arguments)?;
    ensure!(
        is_local || tls.is_some() || arguments.allow_plain,
        "{} can be reached by others, and nothing is encrypted: give --tls-cert and --tls-key, or --allow-plain \
         if the network is trusted",
        arguments.listen
    );
    let mut store = open_store(&arguments.store.store, true)?;
    let known = store.list(&Filter::default())?;
    let known = known.into_iter().map(|one| (one.workload, one.policy, one.recorded_ms)).collect();
    let collector = Arc::new(Collector {
        store: Mutex::new(Stored { store, known }),
        token,
        policies: arguments.policies.clone(),
    });
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(arguments.listen)
            .await
            .with_context(|| format!("cannot listen on {}", arguments.listen))?;
        print(&format!("listening on {}\n", listener.local_addr()?));
        serve(listener, tls, collector).await
    })
}

fn read_token(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path);
    let token = text.with_context(|| format!("cannot read {}", path.display()))?.trim().to_owned();
    ensure!(token.len() >= 16, "{}: a token needs at least 16 characters", path.display());
    Ok(token)
}

fn tls(arguments: &CollectArguments) -> anyhow::Result<Option<TlsAcceptor>> {
    let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) else {
        return Ok(None);
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("{} is no certificate", certificate.display()))?;
    ensure!(!chain.is_empty(), "{} is no certificate", certificate.display());
    let key = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("{} is no private key", key.display()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("the certificate and the key do not belong together")?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    collector: Arc<Collector>,
) -> anyhow::Result<()> {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let place = places.clone().acquire_owned().await?;
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, perhaps: connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (tls, collector) = (tls.clone(), collector.clone());
        tokio::spawn(async move {
            connection(stream, tls, collector).await;
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, collector: Arc<Collector>) {
    match tls {
        None => answer(TokioIo::new(stream), collector).await,
        // A handshake that fails is the client's problem, and the connection is closed.
        Some(tls) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(MAX_TIME, tls.accept(stream)).await {
                answer(TokioIo::new(stream), collector).await;
            }
        }
    }
}

async fn answer<S>(stream: TokioIo<S>, collector: Arc<Collector>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let collector = collector.clone();
        async move { Ok::<_, Infallible>(route(request, collector).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_TIME)
        .serve_connection(stream, service);
    // A broken connection is the client's problem.
    let _ = connection.await;
}

async fn route(request: Request<Incoming>, collector: Arc<Collector>) -> Answer {
    let path = request.uri().path().to_owned();
    if path == "/healthz" {
        return text(StatusCode::OK, "ok\n");
    }
    if !collector.is_allowed(&request) {
        return text(StatusCode::UNAUTHORIZED, "the token is missing or wrong\n");
    }
    match (request.method(), path.strip_prefix("/v1/policies/")) {
        (&Method::GET, Some(object)) => collector.policy(object),
        (&Method::POST, None) if path == "/v1/trajectories" => match body(request).await {
            // Stores block: a disk, or a server of their own.
            Ok(body) => tokio::task::spawn_blocking(move || collector.put(&body))
                .await
                .unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, "it failed\n")),
            Err(refused) => refused,
        },
        _ => text(
            StatusCode::NOT_FOUND,
            "POST /v1/trajectories, GET /v1/policies/NAMESPACE/NAME, GET /healthz\n",
        ),
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

impl Collector {
    fn is_allowed(&self, request: &Request<Incoming>) -> bool {
        let Some(token) = &self.token else { return true };
        let given = request.headers().get(header::AUTHORIZATION);
        let given = given.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        given.is_some_and(|given| is_equal(given, token.as_bytes()))
    }

    fn put(&self, body: &[u8]) -> Answer {
        let mut all: Vec<RecordedTrajectory> = Vec::new();
        let read = read_trajectories(&mut &body[..], &mut |one| {
            one.check()?;
            all.push(one);
            Ok(())
        });
        if let Err(error) = read {
            return text(StatusCode::BAD_REQUEST, format!("{error}\n"));
        }
        let mut stored = self.store.lock().expect(NOT_POISONED);
        for one in &all {
            let Origin { workload, policy, recorded_ms, .. } = &one.origin;
            let key = (workload.clone(), policy.clone(), *recorded_ms);
            if stored.known.contains(&key) {
                continue;
            }
            match stored.store.put(one) {
                Ok(()) => {
                    stored.known.insert(key);
                }
                Err(error @ (Error::WrongLength { .. } | Error::NotStorable { .. })) => {
                    return text(StatusCode::BAD_REQUEST, format!("{error}\n"));
                }
                // It may be possible later: the sender keeps the episode.
                Err(error) => {
                    return text(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n"));
                }
            }
        }
        text(StatusCode::OK, "stored\n")
    }

    fn policy(&self, object: &str) -> Answer {
        let none = || text(StatusCode::NOT_FOUND, "there is no policy for this object\n");
        let is_name = |name: &str| {
            let is_part =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            !name.is_empty() && !name.starts_with('.') && name.chars().all(is_part)
        };
        let names = object.split_once('/').filter(|(space, name)| is_name(space) && is_name(name));
        let (Some((namespace, name)), Some(policies)) = (names, &self.policies) else {
            return none();
        };
        let path = policies.join(namespace).join(format!("{name}.policy"));
        match std::fs::read(path) {
            Ok(bytes) => {
                let mut answer = text(StatusCode::OK, bytes);
                let kind = header::HeaderValue::from_static("application/octet-stream");
                answer.headers_mut().insert(header::CONTENT_TYPE, kind);
                answer
            }
            Err(_) => none(),
        }
    }
}

/// Takes as long for a wrong byte at the beginning as for one at the end.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    let plain = header::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}
