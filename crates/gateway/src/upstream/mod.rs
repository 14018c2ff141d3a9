//! A server behind the gateway, and the requests to it.

mod client;
mod connection;
mod framing;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Response, Uri, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Bytes;
use serde::Deserialize;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

pub(crate) use self::client::{HttpClient, UpstreamBody};
pub(crate) use self::connection::Failure;
use crate::settings;

/// The list of models of a server is no longer than this.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;

/// A server and its connections.
#[derive(Debug)]
pub struct Upstream {
    /// How it is reached.
    pub settings: settings::Upstream,
    client: HttpClient,
    authorization: Option<HeaderValue>,
    failures: AtomicU32,
}

/// Why an upstream cannot be used with its settings.
#[derive(Debug, thiserror::Error)]
#[error("use the upstream {upstream}: {reason}")]
pub struct BadUpstream {
    upstream: String,
    reason: String,
}

impl Upstream {
    /// Connects at the first request.
    pub fn new(settings: settings::Upstream, connect: Duration) -> Result<Self, BadUpstream> {
        let client = authorities(&settings.url, settings.ca_file.as_deref())
            .and_then(|roots| HttpClient::new(&settings.url, roots, connect))
            .map_err(|reason| BadUpstream { upstream: settings.name.clone(), reason })?;
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

    /// Sends a request and waits for the head of its answer. Dropping the answer cancels the request.
    pub(crate) async fn send(
        &self,
        path: &str,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<UpstreamBody>, Failure> {
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        self.authorize(&mut headers);
        self.client.request(Method::POST, &self.path(path), &headers, &body).await
    }

    /// The models that it serves, or why it is not healthy.
    pub async fn list_models(&self, limit: Duration) -> Result<BTreeSet<String>, String> {
        let mut headers = HeaderMap::new();
        self.authorize(&mut headers);
        let path = self.path("/models");
        let list = async {
            let asked = self.client.request(Method::GET, &path, &headers, &[]).await;
            let response = asked.map_err(|error| format!("it {error}"))?;
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

    fn path(&self, path: &str) -> String {
        format!("{}{path}", self.settings.url.path().trim_end_matches('/'))
    }

    fn authorize(&self, headers: &mut HeaderMap) {
        if let Some(value) = &self.authorization {
            headers.insert(header::AUTHORIZATION, value.clone());
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
pub(crate) fn authorities(url: &Uri, file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if url.scheme_str() != Some("https") {
        return Ok(roots);
    }
    let Some(path) = file else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        return Ok(roots);
    };
    let refused = |reason| format!("read certificates from {}: {reason}", path.display());
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
