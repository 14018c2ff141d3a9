//! An environment at the other end of a network.

use std::time::Duration;

use homeostat_env::Action;
use tokio::runtime::Runtime;
use tonic::{Response, Status};

use super::messages::{from_action, from_status, to_opening, to_stepped};
use super::{EnvironmentError, Opening, Stepped};
use crate::Result;
use crate::channel::{ClientConfig, GuardedChannel, MAX_ANSWER, connect};
use crate::protocol::environment::v1::environment_client::EnvironmentClient as Calls;
use crate::protocol::environment::v1::{InitRequest, ResetRequest, StepRequest};

/// An environment at the other end of a network. Every call ends within its deadline, which a
/// workload on Kubernetes may use up: it answers once it has looked again.
pub struct EnvironmentClient {
    grpc: Calls<GuardedChannel>,
    deadline: Duration,
    runtime: Runtime,
}

impl EnvironmentClient {
    /// A client that connects with its first call, and again whenever that is needed. An address
    /// of another machine needs TLS and a token.
    pub fn new(config: &ClientConfig) -> Result<Self> {
        let (runtime, channel) = connect("environment", config)?;
        let grpc = Calls::new(channel).max_decoding_message_size(MAX_ANSWER);
        Ok(Self { grpc, deadline: config.deadline, runtime })
    }

    /// Opens a session.
    pub fn init(&mut self, environment: &str) -> Result<Opening, EnvironmentError> {
        let request = InitRequest { environment: environment.to_owned() };
        let mut grpc = self.grpc.clone();
        to_opening(self.wait(grpc.init(request))?)
    }

    /// Begins an episode; the first state.
    pub fn reset(
        &mut self,
        session: &str,
        seed: Option<u64>,
    ) -> Result<Vec<f32>, EnvironmentError> {
        let request = ResetRequest { session: session.to_owned(), seed };
        let mut grpc = self.grpc.clone();
        Ok(self.wait(grpc.reset(request))?.state)
    }

    /// Acts, and waits for what it leads to.
    pub fn step(&mut self, session: &str, action: &Action) -> Result<Stepped, EnvironmentError> {
        let request =
            StepRequest { session: session.to_owned(), action: Some(from_action(action)) };
        let mut grpc = self.grpc.clone();
        Ok(to_stepped(self.wait(grpc.step(request))?))
    }

    fn wait<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, EnvironmentError> {
        let deadline = self.deadline;
        match self.runtime.block_on(async { tokio::time::timeout(deadline, call).await }) {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(from_status(&status)),
            Err(_) => Err(EnvironmentError::Away(format!("no answer within {deadline:?}"))),
        }
    }
}
