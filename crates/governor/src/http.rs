//! A client for small answers, with limits on time and size.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The metrics of a gateway with a thousand models are a few megabytes.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// A client with its connections.
#[derive(Debug)]
pub struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    timeout: Duration,
}

impl HttpClient {
    /// Connects at the first request. The authorities of the system sign certificates.
    pub fn new(timeout: Duration, has_tls: bool) -> Self {
        let mut roots = RootCertStore::empty();
        if has_tls {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider knows the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(4))
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self { client, timeout }
    }

    /// The answer to a GET, or why there is none, in words that name the address.
    pub async fn get(&self, uri: &Uri) -> Result<String, String> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = uri.clone();
        let answer = async {
            let response = self.client.request(request).await.map_err(|error| causes(&error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| causes(&*error))?.to_bytes();
            let text = String::from_utf8_lossy(&body).into_owned();
            if status.is_success() {
                return Ok(text);
            }
            let beginning: String = text.chars().take(200).collect();
            Err(format!("it answered {status}: {}", beginning.trim()))
        };
        let answered = tokio::time::timeout(self.timeout, answer).await;
        let answered = answered.unwrap_or_else(|_| {
            Err(format!("it did not answer within {} s", self.timeout.as_secs_f64()))
        });
        answered.map_err(|problem| format!("GET {}: {problem}", without_query(uri)))
    }
}

/// Queries are long and in the settings.
fn without_query(uri: &Uri) -> String {
    uri.to_string().split('?').next().unwrap_or_default().to_owned()
}

/// An error with what caused it, in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
