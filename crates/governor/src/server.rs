//! Serves what the loop has published last: metrics, status, health.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// Connections at once; a scraper needs one.
const MAX_CONNECTIONS: usize = 64;
/// A connection that does nothing for this long, or takes longer to read its answer, is closed.
const MAX_IDLE: Duration = Duration::from_secs(30);

/// What can be asked for.
#[derive(Debug, Clone, Default)]
pub struct Published {
    /// Of Prometheus.
    pub metrics: String,
    /// JSON.
    pub status: String,
}

/// Answers until the process ends.
pub async fn serve(listener: TcpListener, published: watch::Receiver<Arc<Published>>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let published = published.clone();
        tokio::spawn(async move {
            let answer = |request: Request<Incoming>| {
                let answer = answer(&request, &published.borrow());
                async move { Ok::<_, Infallible>(answer) }
            };
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(MAX_IDLE)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service_fn(answer));
            // A broken connection is the client's problem.
            let _ = tokio::time::timeout(MAX_IDLE, connection).await;
            drop(place);
        });
    }
}

fn answer(request: &Request<Incoming>, published: &Published) -> Response<Full<Bytes>> {
    let openmetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let (status, kind, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => (StatusCode::OK, openmetrics, published.metrics.clone()),
        (&Method::GET, "/status") => (StatusCode::OK, "application/json", published.status.clone()),
        (&Method::GET, "/healthz") => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        _ => {
            let text = "GET /metrics, /status or /healthz\n".to_owned();
            (StatusCode::NOT_FOUND, "text/plain", text)
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
