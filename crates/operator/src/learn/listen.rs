//! The server that learners connect to: TLS with the webhook's certificate, or plain on loopback.

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

/// The time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Accepted connections that may wait to be served.
const WAITING: usize = 64;
/// A step lasts until the next resync, and resyncs are minutes apart at most.
const STEP_DEADLINE: Duration = Duration::from_secs(3600);

/// Where learners connect.
#[derive(Debug, Clone)]
pub struct LearnerPort {
    /// The address.
    pub address: SocketAddr,
    /// The token that learners must present.
    pub token: Option<Token>,
}

/// Why learners cannot be served at an address.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Without a token, every client that reaches the address could act.
    #[error(
        "--listen-learners {address} is not loopback: give --learner-token-file, or listen on \
         loopback"
    )]
    NoToken {
        /// The address.
        address: SocketAddr,
    },
    /// TLS needs the webhook's certificate.
    #[error(
        "--listen-learners {address} is not loopback and needs the webhook's certificate: leave \
         out --no-webhook, or listen on loopback"
    )]
    NoCertificate {
        /// The address.
        address: SocketAddr,
    },
}

impl LearnerPort {
    /// Refuses an address that is not loopback without a token and a certificate.
    pub fn check(&self, has_certificate: bool) -> Result<(), ListenError> {
        let address = self.address;
        match (address.ip().is_loopback(), &self.token, has_certificate) {
            (true, ..) | (false, Some(_), true) => Ok(()),
            (false, None, _) => Err(ListenError::NoToken { address }),
            (false, _, false) => Err(ListenError::NoCertificate { address }),
        }
    }
}

/// Serves learners as long as the process runs: plain on loopback, else with TLS.
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
        tracing::error!(%error, "the server of learners ended");
    }
}

type TlsStream = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;

/// Connections after their TLS handshake. The certificate may be replaced at any time.
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
                // A client without TLS, or that does not trust the certificate, gets no answer.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Leadership;
    use crate::webhook::Certificates;
    use homeostat_wire::{ClientConfig, EnvironmentClient, EnvironmentError};
    use k8s_openapi::jiff::Timestamp;

    const SECRET: &str = "a-secret-of-the-tests";

    /// Serves as for other machines, though on loopback, and calls as a learner of this config.
    async fn called(change: impl FnOnce(&mut ClientConfig) + Send + 'static) -> EnvironmentError {
        let made = Certificates::make(&["127.0.0.1".to_owned()], Timestamp::now(), None);
        let made = made.expect("made");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let others = "203.0.113.1:7710".parse().expect("an address of others");
        let port = LearnerPort { address: others, token: Token::new(SECRET).ok() };
        let leads = Leadership::of_a_single_replica();
        let learners = Learners::new(Some(Duration::from_secs(1)), leads);
        let certificate = CurrentCertificate::showing(&made).expect("they fit");
        tokio::spawn(serve_learners(listener, port, Arc::new(certificate), Arc::new(learners)));
        let call = move || {
            let mut config = ClientConfig {
                url: format!("https://{address}"),
                authorities: Some(made.authorities.into_bytes()),
                server_name: None,
                token: Token::new(SECRET).ok(),
                deadline: Duration::from_secs(10),
            };
            change(&mut config);
            let mut client = EnvironmentClient::new(&config).expect("a client");
            client.init("shop/checkout").expect_err("there is no such object")
        };
        tokio::task::spawn_blocking(call).await.expect("it does not panic")
    }

    #[tokio::test]
    async fn learners_of_other_machines_need_tls_and_the_token() {
        let known = called(|_| {}).await;
        assert!(matches!(known, EnvironmentError::NotFound(_)), "{known:?}");
        let unknown = called(|config| config.token = None).await;
        assert!(matches!(unknown, EnvironmentError::Denied(_)), "{unknown:?}");
        let clear = called(|config| config.url = config.url.replace("https", "http")).await;
        assert!(matches!(clear, EnvironmentError::Away(_)), "{clear:?}");
        let wary = called(|config| {
            let others = Certificates::make(&["127.0.0.1".to_owned()], Timestamp::now(), None);
            config.authorities = Some(others.expect("made").authorities.into_bytes());
        })
        .await;
        assert!(matches!(wary, EnvironmentError::Away(_)), "{wary:?}");
    }

    #[test]
    fn an_address_of_others_without_both_is_refused_with_the_way_out() {
        let check = |address: &str, token: Option<&str>, has_certificate: bool| {
            let token = token.and_then(|token| Token::new(token).ok());
            let port = LearnerPort { address: address.parse().expect("valid"), token };
            port.check(has_certificate).map_err(|error| error.to_string())
        };
        assert_eq!(check("127.0.0.1:7710", None, false), Ok(()));
        assert_eq!(check("0.0.0.0:7710", Some(SECRET), true), Ok(()));
        let refused = check("0.0.0.0:7710", None, true).expect_err("no token");
        assert!(refused.contains("--learner-token-file"), "{refused}");
        let refused = check("0.0.0.0:7710", Some(SECRET), false).expect_err("no certificate");
        assert!(refused.contains("--no-webhook"), "{refused}");
    }
}
