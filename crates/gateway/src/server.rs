//! Listens, accepts connections, reads settings again, and shuts down in good order.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use crate::budgets::{BudgetFile, UsedBudgets};
use crate::gateway::Gateway;
use crate::settings::{Listen, Settings};
use crate::spans::export;
use crate::stalled::{SharedStream, WriteTimeout};
use crate::{budgets, health, proxy, upstream};

/// How often files are looked at for changes.
const WATCH: Duration = Duration::from_secs(1);
/// For the spans that are left at the end.
const LAST_SPANS: Duration = Duration::from_secs(3);
/// Request line and headers are no longer than this.
const MAX_HEAD: usize = 64 * 1024;

/// A gateway that listens.
pub struct Server {
    gateway: Arc<Gateway>,
    clients: TcpListener,
    admin: TcpListener,
    tls: watch::Sender<Option<Arc<ServerConfig>>>,
    /// The settings file, if they come from one, and the signal to read it again.
    file: Option<(PathBuf, Signal)>,
    budget_file: Option<PathBuf>,
}

impl Server {
    /// Listens, and asks the upstreams what they serve.
    pub async fn bind(settings: Settings, file: Option<PathBuf>) -> anyhow::Result<Self> {
        // Before anybody can know the process: without a handler the signal would end it.
        let hang_up = signal(SignalKind::hangup()).context("cannot handle SIGHUP")?;
        let file = file.map(|file| (file, hang_up));
        let Listen { address, admin, .. } = settings.listen;
        let tls = watch::Sender::new(read_tls(&settings.listen)?);
        let budget_file = settings.budget_file.clone();
        let gateway = Gateway::new(settings)?;
        if let Some(path) = &budget_file {
            let before = UsedBudgets::read(path)?.unwrap_or_default();
            gateway.admission.restore(&before);
            // A file that cannot be written is found now, and not by a restart.
            before.write(path)?;
        }
        let clients = listen(address, "listen.address").await?;
        let admin = listen(admin, "listen.admin").await?;
        health::check_all(&gateway).await;
        Ok(Self { gateway, clients, admin, tls, file, budget_file })
    }

    /// Where clients connect: with port 0 in the settings the system chose one.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.clients.local_addr()
    }

    /// Where metrics are.
    pub fn admin_address(&self) -> std::io::Result<SocketAddr> {
        self.admin.local_addr()
    }

    /// Serves until `stop` ends, then lets requests finish. Returns how many were cut off.
    pub async fn run(self, stop: impl Future<Output = ()>) -> usize {
        let Self { gateway, clients, admin, tls, file, budget_file } = self;
        let (stopping, is_stopping) = watch::channel(false);
        let mut tasks = vec![
            tokio::spawn(health::keep_checking(gateway.clone())),
            tokio::spawn(serve_admin(admin, gateway.clone(), is_stopping.clone())),
        ];
        let budget_file = budget_file.map(|path| Arc::new(BudgetFile::new(path)));
        if let Some(file) = &budget_file {
            tasks.push(tokio::spawn(budgets::keep_saving(gateway.clone(), file.clone())));
        }
        let (ending, is_ending) = watch::channel(false);
        let exporting = tokio::spawn(export::keep_exporting(gateway.clone(), is_ending));
        let reloading = tokio::spawn(keep_reading(gateway.clone(), file, tls.clone()));
        let max_connections = gateway.settings().listen.max_connections;
        let places = Arc::new(Semaphore::new(max_connections));
        let accept = accept(clients, gateway.clone(), &tls, places.clone(), is_stopping);
        tokio::select! {
            () = accept => {}
            () = stop => {}
        }
        // The listener is closed: a balancer sends new connections elsewhere.
        reloading.abort();
        stopping.send_replace(true);
        let drain = gateway.settings().timeouts.drain;
        let all = u32::try_from(max_connections).unwrap_or(u32::MAX);
        tracing::info!("shutting down; requests have {} s to finish", drain.as_secs_f64());
        let is_drained = tokio::time::timeout(drain, places.acquire_many(all)).await.is_ok();
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        if let Some(file) = &budget_file
            && let Err(error) = file.save(&gateway)
        {
            tracing::error!("budgets are forgotten: {error:#}");
        }
        ending.send_replace(true);
        if tokio::time::timeout(LAST_SPANS, exporting).await.is_err() {
            tracing::warn!("the collector of spans did not take the last ones in time");
        }
        if is_drained { 0 } else { max_connections - places.available_permits() }
    }
}

async fn listen(address: SocketAddr, key: &str) -> anyhow::Result<TcpListener> {
    let hint = || format!("cannot listen on {address}: choose another {key}");
    TcpListener::bind(address).await.with_context(hint)
}

fn read_tls(listen: &Listen) -> anyhow::Result<Option<Arc<ServerConfig>>> {
    let Some((certificate, key)) = &listen.tls else { return Ok(None) };
    let chain = upstream::certificates(certificate).map_err(anyhow::Error::msg);
    let chain =
        chain.with_context(|| format!("read listen.certificate {}", certificate.display()))?;
    let private = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("read listen.key {}", key.display()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows the default versions")
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .context("use listen.certificate with listen.key")?;
    Ok(Some(Arc::new(config)))
}

/// Reads the settings again when their file or the certificate changes, and on SIGHUP.
async fn keep_reading(
    gateway: Arc<Gateway>,
    file: Option<(PathBuf, Signal)>,
    tls: watch::Sender<Option<Arc<ServerConfig>>>,
) {
    let Some((file, mut hang_up)) = file else { return };
    let mut seen = modified(&file, &gateway.settings());
    loop {
        let is_forced = tokio::select! {
            _ = hang_up.recv() => true,
            () = tokio::time::sleep(WATCH) => false,
        };
        let now = modified(&file, &gateway.settings());
        if now == seen && !is_forced {
            continue;
        }
        seen = now;
        match reread(&gateway, &file, &tls) {
            Ok(()) => {
                gateway.metrics.reloads.inc();
                tracing::info!("new settings of {} in use", file.display());
                health::check_all(&gateway).await;
            }
            Err(error) => {
                gateway.metrics.failed_reloads.inc();
                tracing::error!("the settings stay as they are: {error:#}");
            }
        }
    }
}

fn modified(file: &Path, settings: &Settings) -> Vec<Option<SystemTime>> {
    let tls =
        settings.listen.tls.iter().flat_map(|(certificate, key)| [certificate.as_path(), key]);
    let time = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    std::iter::once(file).chain(tls).map(time).collect()
}

fn reread(
    gateway: &Gateway,
    file: &Path,
    tls: &watch::Sender<Option<Arc<ServerConfig>>>,
) -> anyhow::Result<()> {
    let mut settings = Settings::read(file)?;
    let config = read_tls(&settings.listen)?;
    let before = gateway.settings().listen.clone();
    if (settings.listen.address, settings.listen.admin) != (before.address, before.admin)
        || settings.listen.max_connections != before.max_connections
        || settings.listen.tls.is_some() != before.tls.is_some()
    {
        tracing::warn!(
            "[listen] has changed: its addresses, max_connections and whether there is TLS are read at start only"
        );
        let now = std::mem::replace(&mut settings.listen, before);
        settings.listen.tls = settings.listen.tls.and(now.tls);
    }
    gateway.configure(settings)?;
    if tls.borrow().is_some() && config.is_some() {
        tls.send_replace(config);
    }
    Ok(())
}

async fn accept(
    listener: TcpListener,
    gateway: Arc<Gateway>,
    tls: &watch::Sender<Option<Arc<ServerConfig>>>,
    places: Arc<Semaphore>,
    is_stopping: watch::Receiver<bool>,
) {
    loop {
        let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: one may be free in a moment.
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let connection = Connection {
            gateway: gateway.clone(),
            tls: tls.borrow().clone().map(TlsAcceptor::from),
            is_stopping: is_stopping.clone(),
            place,
        };
        tokio::spawn(connection.serve(stream));
    }
}

struct Connection {
    gateway: Arc<Gateway>,
    tls: Option<TlsAcceptor>,
    is_stopping: watch::Receiver<bool>,
    place: OwnedSemaphorePermit,
}

impl Connection {
    async fn serve(self, stream: TcpStream) {
        let Self { gateway, tls, is_stopping, place } = self;
        let timeouts = gateway.settings().timeouts;
        // Fails only for a connection that is gone.
        let _ = stream.set_nodelay(true);
        let shared = SharedStream::new(stream);
        let stream = WriteTimeout::new(shared.clone(), timeouts.client);
        gateway.metrics.connections.inc();
        match tls {
            None => serve_http(stream, &shared, &gateway, is_stopping).await,
            // Large, and for some only.
            Some(acceptor) => {
                Box::pin(async {
                    let handshake = tokio::time::timeout(timeouts.request, acceptor.accept(stream));
                    // A handshake that fails is the client's problem.
                    if let Ok(Ok(stream)) = handshake.await {
                        serve_http(stream, &shared, &gateway, is_stopping).await;
                    }
                })
                .await;
            }
        }
        gateway.metrics.connections.dec();
        drop(place);
    }
}

async fn serve_http<S>(
    stream: S,
    shared: &SharedStream,
    gateway: &Arc<Gateway>,
    is_stopping: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limit = gateway.settings().timeouts.request;
    let answer = |request| {
        let gateway = gateway.clone();
        // In a box: the connection keeps the place of what answers, also while a stream goes on.
        Box::pin(async move { Ok::<_, Infallible>(proxy::handle(gateway, request).await) })
    };
    let serving = serve_requests(stream, answer, limit, is_stopping);
    #[cfg(target_os = "linux")]
    tokio::select! {
        // First what it has sent, then whether it has left.
        biased;
        () = serving => {}
        // Whatever is on its way is cancelled, as far as the upstream.
        () = shared.closed() => {}
    }
    #[cfg(not(target_os = "linux"))]
    serving.await;
}

async fn serve_requests<S, F, Fut, B>(
    stream: S,
    answer: F,
    limit: Duration,
    mut is_stopping: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>) -> Fut,
    Fut: Future<Output = Result<Response<B>, Infallible>>,
    B: Body<Data = Bytes, Error = Infallible> + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limit)
        .max_header_size(MAX_HEAD)
        // hyper would keep a buffer of 8 kB to notice that a client leaves; `closed` needs none.
        .half_close(cfg!(target_os = "linux"))
        .serve_connection(TokioIo::new(stream), service_fn(answer));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // A broken connection is the client's problem.
        _ = connection.as_mut() => return,
        _ = is_stopping.wait_for(|is_stopping| *is_stopping) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// Connections to the admin address at once; a scraper needs one.
const MAX_ADMIN_CONNECTIONS: usize = 64;

async fn serve_admin(
    listener: TcpListener,
    gateway: Arc<Gateway>,
    is_stopping: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(MAX_ADMIN_CONNECTIONS));
    loop {
        let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (gateway, stopping) = (gateway.clone(), is_stopping.clone());
        tokio::spawn(async move {
            let timeouts = gateway.settings().timeouts;
            let answer = |request: Request<Incoming>| {
                let answer = admin(&gateway, &request, *stopping.borrow());
                async move { Ok::<_, Infallible>(answer) }
            };
            let stream = WriteTimeout::new(stream, timeouts.client);
            // Probes are answered until the process ends.
            let (_open, never) = watch::channel(false);
            serve_requests(stream, answer, timeouts.request, never).await;
            drop(place);
        });
    }
}

fn admin(
    gateway: &Gateway,
    request: &Request<Incoming>,
    is_stopping: bool,
) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/healthz") => (StatusCode::OK, "ok\n".to_owned()),
        (&Method::GET, "/readyz") if is_stopping => {
            (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n".to_owned())
        }
        (&Method::GET, "/readyz") => match gateway.scheduler.is_ready() {
            true => (StatusCode::OK, "ok\n".to_owned()),
            false => (StatusCode::SERVICE_UNAVAILABLE, "no upstream is healthy\n".to_owned()),
        },
        (&Method::GET, "/metrics") => (StatusCode::OK, gateway.metrics.text(&gateway.scheduler)),
        _ => (StatusCode::NOT_FOUND, "GET /metrics, /healthz or /readyz\n".to_owned()),
    };
    let is_metrics = request.uri().path() == "/metrics";
    let kind = match is_metrics {
        true => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        false => "text/plain; charset=utf-8",
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
