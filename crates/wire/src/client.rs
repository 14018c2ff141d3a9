//! A coordinator at the other end of a network.

use std::future::Future;
use std::time::Duration;

use homeostat_simppo::{
    AgentName, Coordination, CoordinationError, Guidance, Member, Membership, Transition,
};
use tokio::runtime::Runtime;
use tonic::codegen::InterceptedService;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Response, Status};

use crate::messages;
use crate::protocol::{self, coordination_client};
use crate::security::{TOKEN_HEADER, is_loopback, refuse_exposed};
use crate::server::chain;
use crate::{Error, Result, Token};

/// Bytes of one answer.
const MOST_ANSWER: usize = 64 * 1024;

/// Where the coordinator is and how to talk to it.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// `http://` or `https://`, host and port.
    pub url: String,
    /// Certificates to trust, in PEM; needed for `https://`.
    pub authorities: Option<Vec<u8>>,
    /// The name in the coordinator's certificate, if it is not the host of the URL.
    pub server_name: Option<String>,
    /// What the coordinator asks for.
    pub token: Option<Token>,
    /// How long a call may take, the way there included.
    pub deadline: Duration,
}

/// A coordinator at the other end of a network. Every call ends within its deadline.
pub struct CoordinationClient {
    grpc: coordination_client::CoordinationClient<InterceptedService<Channel, ShowToken>>,
    deadline: Duration,
    runtime: Runtime,
}

impl CoordinationClient {
    /// A client that connects with its first call, and again whenever that is needed. An address
    /// of another machine needs TLS and a token.
    pub fn new(config: &ClientConfig) -> Result<Self> {
        let wrong =
            |reason: &str| Error::Url { url: config.url.clone(), reason: reason.to_owned() };
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
            // A machine that vanished without a word is noticed, and the next call connects anew.
            .http2_keep_alive_interval(config.deadline * 2)
            .keep_alive_timeout(config.deadline * 2)
            .keep_alive_while_idle(true);
        if has_tls {
            let authorities = config.authorities.as_ref().ok_or_else(|| Error::Tls {
                reason: "https:// needs certificates to trust: give the file of the \
                         coordinator's authority with --tls-ca"
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
        // A thread of its own keeps the connection alive between calls.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("coordination")
            .enable_all()
            .build()
            .map_err(|error| Error::Start { reason: error.to_string() })?;
        let channel = {
            let _inside = runtime.enter();
            endpoint.connect_lazy()
        };
        let show_token = ShowToken(config.token.as_ref().map(Token::header));
        let grpc = coordination_client::CoordinationClient::with_interceptor(channel, show_token)
            .max_decoding_message_size(MOST_ANSWER);
        Ok(Self { grpc, deadline: config.deadline, runtime })
    }

    fn wait<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, CoordinationError> {
        let deadline = self.deadline;
        let outcome = self.runtime.block_on(async { tokio::time::timeout(deadline, call).await });
        match outcome {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(failure(&status)),
            Err(_) => {
                Err(CoordinationError::Away { reason: format!("no answer within {deadline:?}") })
            }
        }
    }
}

impl Coordination for CoordinationClient {
    fn register(
        &mut self,
        name: &AgentName,
        incarnation: u64,
    ) -> Result<Membership, CoordinationError> {
        let request = protocol::RegisterRequest { name: name.to_string(), incarnation };
        let mut grpc = self.grpc.clone();
        messages::membership(self.wait(grpc.register(request))?.outcome)
    }

    fn heartbeat(&mut self, member: &Member) -> Result<(), CoordinationError> {
        let request = protocol::MemberRequest { member: Some(member.into()) };
        let mut grpc = self.grpc.clone();
        messages::nothing(self.wait(grpc.heartbeat(request))?.refusal)
    }

    fn observe(
        &mut self,
        member: &Member,
        transition: &Transition,
    ) -> Result<Guidance, CoordinationError> {
        let request = protocol::ObserveRequest {
            member: Some(member.into()),
            sequence: transition.sequence,
            state: transition.state.clone(),
            action: transition.action,
            reward: transition.reward,
        };
        let mut grpc = self.grpc.clone();
        messages::guidance(self.wait(grpc.observe(request))?.outcome)
    }

    fn global_state(&mut self, member: &Member) -> Result<Guidance, CoordinationError> {
        let request = protocol::MemberRequest { member: Some(member.into()) };
        let mut grpc = self.grpc.clone();
        messages::guidance(self.wait(grpc.global_state(request))?.outcome)
    }

    fn deregister(&mut self, member: &Member) -> Result<(), CoordinationError> {
        let request = protocol::MemberRequest { member: Some(member.into()) };
        let mut grpc = self.grpc.clone();
        messages::nothing(self.wait(grpc.deregister(request))?.refusal)
    }
}

/// Adds the token to every request.
#[derive(Clone)]
struct ShowToken(Option<MetadataValue<Ascii>>);

impl Interceptor for ShowToken {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert(TOKEN_HEADER, token.clone());
        }
        Ok(request)
    }
}

/// Whether trying again may help.
fn failure(status: &Status) -> CoordinationError {
    let reason = match std::error::Error::source(status) {
        Some(source) => chain(source),
        None => status.message().to_owned(),
    };
    let is_final = match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => true,
        // Something answers there, and it is no coordinator of this version.
        Code::Unimplemented => true,
        // rustls has no type here that could be asked for instead.
        _ => reason.contains("invalid peer certificate"),
    };
    if is_final { CoordinationError::Denied { reason } } else { CoordinationError::Away { reason } }
}
