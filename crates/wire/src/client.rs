//! A coordinator at the other end of a network.

use std::future::Future;
use std::time::Duration;

use homeostat_env::Action;
use homeostat_simppo::{
    AgentName, Coordination, CoordinationError, Member, Membership, Registration, SeatObservation,
    StepOutcome,
};
use tokio::runtime::Runtime;
use tonic::{Code, Response, Status};

use crate::Result;
use crate::channel::{ClientConfig, GuardedChannel, MAX_ANSWER, connect};
use crate::environment::messages::from_action;
use crate::listening::chain;
use crate::messages;
use crate::protocol::coordination::v2::{self as protocol, coordination_client};

/// A coordinator at the other end of a network. Every call ends within its deadline.
pub struct CoordinationClient {
    grpc: coordination_client::CoordinationClient<GuardedChannel>,
    deadline: Duration,
    runtime: Runtime,
}

impl CoordinationClient {
    /// A client that connects with its first call, and again whenever that is needed. An address
    /// of another machine needs TLS and a token.
    pub fn new(config: &ClientConfig) -> Result<Self> {
        let (runtime, channel) = connect("coordination", config)?;
        let grpc = coordination_client::CoordinationClient::new(channel)
            .max_decoding_message_size(MAX_ANSWER);
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
        registration: &Registration,
    ) -> Result<Membership, CoordinationError> {
        let request = protocol::RegisterRequest {
            name: name.to_string(),
            incarnation: registration.incarnation,
            function: registration.function.clone().unwrap_or_default(),
        };
        let mut grpc = self.grpc.clone();
        messages::membership(self.wait(grpc.register(request))?.outcome)
    }

    fn observe(&mut self, member: &Member) -> Result<Option<SeatObservation>, CoordinationError> {
        let request = protocol::MemberRequest { member: Some(member.into()) };
        let mut grpc = self.grpc.clone();
        messages::seen(self.wait(grpc.observe(request))?.outcome)
    }

    fn act(
        &mut self,
        member: &Member,
        step: u64,
        action: &Action,
    ) -> Result<StepOutcome, CoordinationError> {
        let request = protocol::ActRequest {
            member: Some(member.into()),
            step,
            action: Some(from_action(action)),
        };
        let mut grpc = self.grpc.clone();
        messages::step_outcome(self.wait(grpc.act(request))?.outcome)
    }

    fn deregister(&mut self, member: &Member) -> Result<(), CoordinationError> {
        let request = protocol::MemberRequest { member: Some(member.into()) };
        let mut grpc = self.grpc.clone();
        messages::nothing(self.wait(grpc.deregister(request))?.refusal)
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
