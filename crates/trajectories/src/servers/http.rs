//! A blocking client of one HTTP server, with limits on time and size.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::{Error, Result};

/// A server that does not answer within this time is away.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The list of a hundred thousand trajectories is some fifty megabytes.
const MAX_ANSWER_BYTES: usize = 512 * 1024 * 1024;

/// A client of one server.
pub(super) struct HttpClient {
    runtime: Runtime,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    authorization: Option<String>,
    shown: String,
}

impl HttpClient {
    /// Connects at the first request. `base` is `http://HOST:PORT`; the authorities of the system sign
    /// certificates.
    pub(super) fn new(base: String, authorization: Option<String>, shown: &str) -> Self {
        let mut roots = RootCertStore::empty();
        if base.starts_with("https:") {
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
        let runtime = Builder::new_current_thread().enable_all().build();
        Self {
            runtime: runtime
                .expect("a runtime without threads needs no more than a file descriptor"),
            client: Client::builder(TokioExecutor::new()).build(connector),
            base,
            authorization,
            shown: shown.to_owned(),
        }
    }

    /// The answer to a POST.
    pub(super) fn post(&self, path: &str, body: Vec<u8>) -> Result<Vec<u8>> {
        let away = |reason: String| Error::Unreachable { store: self.shown.clone(), reason };
        let uri: Uri = format!("{}{path}", self.base).parse().expect("an escaped path");
        let mut request = Request::post(uri).header(header::USER_AGENT, "homeostat");
        // Queries are forms; lines of points have no type.
        if path.starts_with("/query") {
            request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(Bytes::from(body))).expect("valid headers");
        let answer = async {
            let response = self.client.request(request).await.map_err(|error| causes(&error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
            Ok((status, body.map_err(|error| causes(&*error))?.to_bytes()))
        };
        let answered = self.runtime.block_on(async { tokio::time::timeout(TIMEOUT, answer).await });
        let timed_out = |_| Err(format!("no answer within {} s", TIMEOUT.as_secs()));
        let (status, body): (StatusCode, Bytes) =
            answered.unwrap_or_else(timed_out).map_err(away)?;
        if status.is_success() {
            return Ok(body.to_vec());
        }
        let beginning: String = String::from_utf8_lossy(&body).trim().chars().take(300).collect();
        let reason = format!("it answered {status}: {beginning}");
        // Only a client's error stays one when it is repeated.
        if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS {
            return Err(Error::Server { store: self.shown.clone(), reason });
        }
        Err(away(reason))
    }
}

/// An error with what caused it, in one line.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
