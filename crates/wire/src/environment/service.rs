//! The three calls on the side of the environments.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::Environments;
use super::messages::{from_opening, from_stepped, to_action, to_status};
use crate::protocol::environment::v1::{
    InitReply, InitRequest, ResetReply, ResetRequest, StepReply, StepRequest, environment_server,
};

/// The service that tonic calls.
pub(super) struct EnvironmentService<E>(pub(super) Arc<E>);

#[tonic::async_trait]
impl<E: Environments> environment_server::Environment for EnvironmentService<E> {
    async fn init(&self, request: Request<InitRequest>) -> Result<Response<InitReply>, Status> {
        let name = request.into_inner().environment;
        let opening = self.0.init(&name).await.map_err(|error| to_status(&error))?;
        Ok(Response::new(from_opening(opening)))
    }

    async fn reset(&self, request: Request<ResetRequest>) -> Result<Response<ResetReply>, Status> {
        let ResetRequest { session, seed } = request.into_inner();
        let state = self.0.reset(&session, seed).await.map_err(|error| to_status(&error))?;
        Ok(Response::new(ResetReply { state }))
    }

    async fn step(&self, request: Request<StepRequest>) -> Result<Response<StepReply>, Status> {
        let StepRequest { session, action } = request.into_inner();
        let stepped = match to_action(action) {
            Ok(action) => self.0.step(&session, action).await,
            Err(error) => Err(error),
        };
        Ok(Response::new(from_stepped(stepped.map_err(|error| to_status(&error))?)))
    }
}
