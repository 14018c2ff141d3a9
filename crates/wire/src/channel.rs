//! The way to a server, with TLS and a token where others could listen.

use std::time::Duration;

use tokio::runtime::Runtime;
use tonic::codegen::InterceptedService;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use crate::listening::chain;
use crate::security::{TOKEN_HEADER, is_loopback, refuse_exposed};
use crate::{Error, Result, Token};

/// Bytes of one answer.
pub(crate) const MAX_ANSWER: usize = 64 * 1024;

/// Where a server is and how to talk to it.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// `http://` or `https://`, host and port.
    pub url: String,
    /// Certificates to trust, in PEM; needed for `https://`.
    pub authorities: Option<Vec<u8>>,
    /// The name in the server's certificate, if it is not the host of the URL.
    pub server_name: Option<String>,
    /// What the server asks for.
    pub token: Option<Token>,
    /// How long a call may take, the way there included.
    pub deadline: Duration,
}

/// A connection that shows the token with every request.
pub(crate) type GuardedChannel = InterceptedService<Channel, ShowToken>;

/// A connection, and the thread of its own that keeps it alive between calls.
pub(crate) fn connect(name: &str, config: &ClientConfig) -> Result<(Runtime, GuardedChannel)> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(name)
        .enable_all()
        .build()
        .map_err(|error| Error::Start { reason: error.to_string() })?;
    let channel = {
        let _inside = runtime.enter();
        channel(config)?
    };
    Ok((runtime, channel))
}

/// A connection that is made with the first call, and again whenever that is needed. An address
/// of another machine needs TLS and a token.
fn channel(config: &ClientConfig) -> Result<GuardedChannel> {
    let wrong = |reason: &str| Error::Url { url: config.url.clone(), reason: reason.to_owned() };
    let endpoint =
        Endpoint::from_shared(config.url.clone()).map_err(|error| wrong(&chain(&error)))?;
    let uri = endpoint.uri().clone();
    let host = uri.host().ok_or_else(|| wrong("it names no host"))?;
    if uri.port().is_none() {
        return Err(wrong("it names no port"));
    }
    let has_tls = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(wrong("it begins with neither http:// nor https://")),
    };
    refuse_exposed(&config.url, is_loopback(host), has_tls, config.token.is_some())?;
    let mut endpoint = endpoint
        .connect_timeout(config.deadline)
        .timeout(config.deadline)
        .tcp_nodelay(true)
        // A peer that vanished is noticed, and the next call connects again.
        .http2_keep_alive_interval(config.deadline * 2)
        .keep_alive_timeout(config.deadline * 2)
        .keep_alive_while_idle(true);
    if has_tls {
        let authorities = config.authorities.as_ref().ok_or_else(|| Error::Tls {
            reason: "https:// needs certificates to trust: give the file of the \
                     server's authority with --tls-ca"
                .to_owned(),
        })?;
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities));
        if let Some(name) = &config.server_name {
            tls = tls.domain_name(name);
        }
        endpoint = endpoint.tls_config(tls).map_err(|error| Error::Tls {
            reason: format!("the certificates to trust are not usable: {}", chain(&error)),
        })?;
    }
    let show_token = ShowToken(config.token.as_ref().map(Token::header));
    Ok(InterceptedService::new(endpoint.connect_lazy(), show_token))
}

/// Adds the token to every request.
#[derive(Clone)]
pub(crate) struct ShowToken(Option<MetadataValue<Ascii>>);

impl Interceptor for ShowToken {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert(TOKEN_HEADER, token.clone());
        }
        Ok(request)
    }
}
