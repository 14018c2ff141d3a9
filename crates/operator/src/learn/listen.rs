//! Where learners connect: with TLS by the webhook's certificate, or in the clear on loopback.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use homeostat_wire::{ServeConfig, Token, serve_environments};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};

use super::learners::Learners;
use crate::webhook::CurrentCertificate;

/// Who does not finish a handshake in this time is let go.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections that may wait to be taken up.
const WAITING: usize = 64;
/// A step takes until the next look, and looks are minutes apart at most.
const STEP_DEADLINE: Duration = Duration::from_secs(3600);

/// Where learners connect.
#[derive(Debug, Clone)]
pub struct LearnerPort {
    /// The address.
    pub address: SocketAddr,
    /// What learners must know.
    pub token: Option<Token>,
}

/// Why learners cannot be listened to.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Whoever reaches it could act.
    #[error(
        "--listen-learners {address} can be reached by others: give --learner-token-file, or \
         listen on loopback"
    )]
    NoToken {
        /// The address.
        address: SocketAddr,
    },
    /// The certificate is that of the webhook.
    #[error(
        "--listen-learners {address} can be reached by others and needs the webhook's \
         certificate: leave out --no-webhook, or listen on loopback"
    )]
    NoCertificate {
        /// The address.
        address: SocketAddr,
    },
}

impl LearnerPort {
    /// Refuses an address that others reach, without a token or a certificate.
    pub fn check(&self, has_certificate: bool) -> Result<(), ListenError> {
        let address = self.address;
        match (address.ip().is_loopback(), &self.token, has_certificate) {
            (true, ..) | (false, Some(_), true) => Ok(()),
            (false, None, _) => Err(ListenError::NoToken { address }),
            (false, _, false) => Err(ListenError::NoCertificate { address }),
        }
    }
}

/// Serves learners for as long as the program runs: in the clear on loopback, else with TLS.
pub async fn serve_learners(
    listener: TcpListener,
    port: LearnerPort,
    certificate: Arc<CurrentCertificate>,
    learners: Arc<Learners>,
) {
    let config = ServeConfig { token: port.token, deadline: STEP_DEADLINE };
    let forever = std::future::pending();
    let served = if port.address.ip().is_loopback() {
        serve_environments(learners, &config, TcpListenerStream::new(listener), forever).await
    } else {
        let streams = with_tls(listener, certificate);
        serve_environments(learners, &config, streams, forever).await
    };
    if let Err(error) = served {
        tracing::error!(%error, "learners are not listened to any longer");
    }
}

type TlsStream = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;

/// Connections that have shaken hands. The certificate may be replaced at any time.
fn with_tls(
    listener: TcpListener,
    certificate: Arc<CurrentCertificate>,
) -> ReceiverStream<io::Result<TlsStream>> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows the default versions")
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (sender, receiver) = tokio::sync::mpsc::channel(WAITING);
    tokio::spawn(async move {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a learner's connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Ok(place) = sender.clone().reserve_owned().await else { return };
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that speaks no TLS, or does not trust us, is its own problem.
                if let Ok(Ok(stream)) =
                    tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await
                {
                    place.send(Ok(stream));
                }
            });
        }
    });
    ReceiverStream::new(receiver)
}
