//! The five calls on the side of the coordinator.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use homeostat_simppo::{
    AgentName, Coordination, CoordinationError, Coordinator, Guidance, Member, Refusal,
};
use tonic::{Request, Response, Status};

use crate::messages;
use crate::protocol::{self, coordination_server};

/// A coordinator that several threads talk to.
pub(crate) struct Shared {
    coordinator: Mutex<Coordinator>,
    start: Instant,
}

impl Shared {
    pub(crate) fn new(coordinator: Coordinator) -> Self {
        Self { coordinator: Mutex::new(coordinator), start: Instant::now() }
    }

    /// The coordinator, at this very moment.
    pub(crate) fn now(&self) -> MutexGuard<'_, Coordinator> {
        let mut coordinator = self.coordinator.lock().unwrap_or_else(PoisonError::into_inner);
        coordinator.advance(self.start.elapsed());
        coordinator
    }

    /// Calls as the member who is speaking.
    fn call<T>(
        &self,
        sent: Option<protocol::Member>,
        call: impl FnOnce(&mut Coordinator, &Member) -> Result<T, CoordinationError>,
    ) -> Result<Result<T, Refusal>, Status> {
        let mut coordinator = self.now();
        match messages::member(sent) {
            Ok(member) => answered(call(&mut coordinator, &member)),
            Err(refusal) => {
                coordinator.count_refused(&refusal);
                Ok(Err(refusal))
            }
        }
    }
}

/// A refusal is an answer; a coordinator in this process is never away.
fn answered<T>(outcome: Result<T, CoordinationError>) -> Result<Result<T, Refusal>, Status> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(CoordinationError::Refused(refusal)) => Ok(Err(refusal)),
        Err(other) => Err(Status::internal(other.to_string())),
    }
}

/// The service that tonic calls.
pub(crate) struct CoordinationService(pub(crate) Arc<Shared>);

#[tonic::async_trait]
impl coordination_server::Coordination for CoordinationService {
    async fn register(
        &self,
        request: Request<protocol::RegisterRequest>,
    ) -> Result<Response<protocol::RegisterReply>, Status> {
        use protocol::register_reply::Outcome;
        let protocol::RegisterRequest { name, incarnation } = request.into_inner();
        let mut coordinator = self.0.now();
        let outcome = match AgentName::new(&name) {
            Ok(name) => answered(coordinator.register(&name, incarnation))?,
            Err(refusal) => {
                coordinator.count_refused(&refusal);
                Err(refusal)
            }
        };
        let outcome = match outcome {
            Ok(membership) => Outcome::Membership((&membership).into()),
            Err(refusal) => Outcome::Refusal((&refusal).into()),
        };
        Ok(Response::new(protocol::RegisterReply { outcome: Some(outcome) }))
    }

    async fn heartbeat(
        &self,
        request: Request<protocol::MemberRequest>,
    ) -> Result<Response<protocol::EmptyReply>, Status> {
        let sent = request.into_inner().member;
        empty(self.0.call(sent, |coordinator, member| coordinator.heartbeat(member))?)
    }

    async fn observe(
        &self,
        request: Request<protocol::ObserveRequest>,
    ) -> Result<Response<protocol::GuidanceReply>, Status> {
        let mut sent = request.into_inner();
        let transition = messages::transition(&mut sent);
        guidance(
            self.0.call(sent.member, |coordinator, member| {
                coordinator.observe(member, &transition)
            })?,
        )
    }

    async fn global_state(
        &self,
        request: Request<protocol::MemberRequest>,
    ) -> Result<Response<protocol::GuidanceReply>, Status> {
        let sent = request.into_inner().member;
        guidance(self.0.call(sent, |coordinator, member| coordinator.global_state(member))?)
    }

    async fn deregister(
        &self,
        request: Request<protocol::MemberRequest>,
    ) -> Result<Response<protocol::EmptyReply>, Status> {
        let sent = request.into_inner().member;
        empty(self.0.call(sent, |coordinator, member| coordinator.deregister(member))?)
    }
}

fn empty(outcome: Result<(), Refusal>) -> Result<Response<protocol::EmptyReply>, Status> {
    let refusal = outcome.err().as_ref().map(Into::into);
    Ok(Response::new(protocol::EmptyReply { refusal }))
}

fn guidance(
    outcome: Result<Guidance, Refusal>,
) -> Result<Response<protocol::GuidanceReply>, Status> {
    use protocol::guidance_reply::Outcome;
    let outcome = match outcome {
        Ok(guidance) => Outcome::Guidance((&guidance).into()),
        Err(refusal) => Outcome::Refusal((&refusal).into()),
    };
    Ok(Response::new(protocol::GuidanceReply { outcome: Some(outcome) }))
}
