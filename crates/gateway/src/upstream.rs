//! A server behind the gateway: its connections, and the requests to it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Deserialize;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::settings;

/// The list of models of a server is no longer than this.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;
/// Idle connections are closed before most servers close them: one that closes just then would fail
/// a request.
const KEEP_IDLE: Duration = Duration::from_secs(4);

/// A server and its connections.
#[derive(Debug)]
pub struct Upstream {
    /// How it is reached.
    pub settings: settings::Upstream,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    authorization: Option<HeaderValue>,
    failures: AtomicU32,
}

/// Why the authority of an upstream cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("read the certificates of upstream {upstream} from {path}: {reason}")]
pub struct BadAuthority {
    upstream: String,
    path: String,
    reason: String,
}

impl Upstream {
    /// Connects at the first request.
    pub fn new(settings: settings::Upstream, connect: Duration) -> Result<Self, BadAuthority> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(connect));
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider knows the default versions")
            .with_root_certificates(authorities(&settings)?)
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(KEEP_IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector);
        let authorization = settings.api_key.as_ref().map(|key| {
            let text = format!("Bearer {key}");
            let mut value =
                HeaderValue::from_str(&text).expect("settings allow printable ASCII only");
            value.set_sensitive(true);
            value
        });
        Ok(Self { settings, client, authorization, failures: AtomicU32::new(0) })
    }

    /// Whether the other one is the same server, perhaps with other limits.
    pub fn is_same_server(&self, other: &Self) -> bool {
        self.settings.name == other.settings.name && self.settings.url == other.settings.url
    }

    /// Sends a request and waits for the head of its answer.
    pub async fn send(
        &self,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri(path);
        *request.headers_mut() = headers;
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json);
        self.authorize(&mut request);
        self.client.request(request).await
    }

    /// The models that it serves, or why it is not healthy.
    pub async fn list_models(&self, limit: Duration) -> Result<BTreeSet<String>, String> {
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.uri_mut() = self.uri("/models");
        self.authorize(&mut request);
        let list = async {
            let response = self.client.request(request).await.map_err(|error| causes(&error))?;
            if !response.status().is_success() {
                return Err(format!("GET /models answered {}", response.status()));
            }
            let body = Limited::new(response.into_body(), MAX_LIST_BYTES).collect().await;
            let body = body.map_err(|error| causes(&*error))?.to_bytes();
            let list: ModelList = serde_json::from_slice(&body)
                .map_err(|error| format!("GET /models is no list of models: {error}"))?;
            Ok(list.data.into_iter().map(|model| model.id).collect())
        };
        tokio::time::timeout(limit, list).await.unwrap_or_else(|_| {
            Err(format!("GET /models did not answer within {} s", limit.as_secs_f64()))
        })
    }

    /// Counts a failure; returns how many there were in a row.
    pub fn failed(&self) -> u32 {
        self.failures.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Ends a row of failures.
    pub fn succeeded(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    fn uri(&self, path: &str) -> Uri {
        let mut parts = self.settings.url.clone().into_parts();
        let base = self.settings.url.path().trim_end_matches('/');
        let path = format!("{base}{path}");
        parts.path_and_query = Some(path.parse().expect("a path of the API after a valid one"));
        Uri::from_parts(parts).expect("only the path of a valid URL has changed")
    }

    fn authorize(&self, request: &mut Request<Full<Bytes>>) {
        if let Some(value) = &self.authorization {
            request.headers_mut().insert(header::AUTHORIZATION, value.clone());
        }
    }
}

#[derive(Deserialize)]
struct ModelList {
    data: Vec<ModelEntry>,
}

#[derive(Deserialize)]
struct ModelEntry {
    id: String,
}

/// The file's, else those of the system; plain HTTP needs none.
fn authorities(settings: &settings::Upstream) -> Result<RootCertStore, BadAuthority> {
    let mut roots = RootCertStore::empty();
    if settings.url.scheme_str() != Some("https") {
        return Ok(roots);
    }
    let Some(path) = &settings.ca_file else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        return Ok(roots);
    };
    let refused = |reason: String| BadAuthority {
        upstream: settings.name.clone(),
        path: path.display().to_string(),
        reason,
    };
    for certificate in certificates(path).map_err(refused)? {
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    Ok(roots)
}

/// All certificates of a PEM file; at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        Err("it has no certificate in PEM".to_owned())
    } else {
        Ok(certificates)
    }
}

/// An error with what caused it, in one line.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
