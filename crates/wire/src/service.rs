//! The four calls on the side of the coordinator.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use homeostat_simppo::{CoordinationError, Coordinator, Member, Refusal};
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::messages;
use crate::protocol::coordination::v2::{self as protocol, coordination_server};

/// A coordinator that several threads talk to.
pub(crate) struct Shared {
    coordinator: Mutex<Coordinator>,
    start: Instant,
    /// Steps that the platform has played, for those who wait for one to end.
    steps: watch::Sender<u64>,
}

impl Shared {
    pub(crate) fn new(coordinator: Coordinator) -> Self {
        let steps = watch::Sender::new(coordinator.status().step);
        Self { coordinator: Mutex::new(coordinator), start: Instant::now(), steps }
    }

    /// Calls the coordinator at this very moment.
    pub(crate) fn call<T>(&self, call: impl FnOnce(&mut Coordinator) -> T) -> T {
        let mut coordinator: MutexGuard<'_, Coordinator> =
            self.coordinator.lock().unwrap_or_else(PoisonError::into_inner);
        coordinator.advance(self.start.elapsed());
        let answer = call(&mut coordinator);
        let step = coordinator.status().step;
        self.steps.send_if_modified(|last| std::mem::replace(last, step) != step);
        answer
    }

    /// Counts what was refused before it reached the coordinator.
    fn checked<T>(&self, message: Result<T, Refusal>) -> Result<T, Refusal> {
        message.inspect_err(|refusal| self.call(|coordinator| coordinator.count_refused(refusal)))
    }

    /// Calls as the member who is speaking.
    fn call_as<T>(
        &self,
        sent: Option<protocol::Member>,
        call: impl FnOnce(&mut Coordinator, &Member) -> Result<T, CoordinationError>,
    ) -> Result<Result<T, Refusal>, Status> {
        match self.checked(messages::member(sent)) {
            Ok(member) => answered(self.call(|coordinator| call(coordinator, &member))),
            Err(refusal) => Ok(Err(refusal)),
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
        let outcome = match self.0.checked(messages::registration(request.into_inner())) {
            Ok((name, registration)) => {
                answered(self.0.call(|coordinator| coordinator.register(&name, &registration)))?
            }
            Err(refusal) => Err(refusal),
        };
        let outcome = match outcome {
            Ok(membership) => Outcome::Membership((&membership).into()),
            Err(refusal) => Outcome::Refusal((&refusal).into()),
        };
        Ok(Response::new(protocol::RegisterReply { outcome: Some(outcome) }))
    }

    async fn observe(
        &self,
        request: Request<protocol::MemberRequest>,
    ) -> Result<Response<protocol::ObserveReply>, Status> {
        use protocol::observe_reply::Outcome;
        let sent = request.into_inner().member;
        let outcome = self.0.call_as(sent, |coordinator, member| coordinator.observe(member))?;
        let outcome = match outcome {
            Ok(seen) => Outcome::Seen(protocol::Seen { observation: seen.map(Into::into) }),
            Err(refusal) => Outcome::Refusal((&refusal).into()),
        };
        Ok(Response::new(protocol::ObserveReply { outcome: Some(outcome) }))
    }

    async fn act(
        &self,
        request: Request<protocol::ActRequest>,
    ) -> Result<Response<protocol::ActReply>, Status> {
        use protocol::act_reply::Outcome;
        let protocol::ActRequest { member, step, action } = request.into_inner();
        // Before the action, so that the step it completes is not missed.
        let mut steps = self.0.steps.subscribe();
        let mut outcome = match self.0.checked(messages::action(action)) {
            Ok(action) => self.0.call_as(member.clone(), |coordinator, member| {
                coordinator.submit(member, step, &action)?;
                coordinator.outcome(member, step)
            })?,
            Err(refusal) => Err(refusal),
        };
        while let Ok(None) = outcome {
            let closed = |_| Status::unavailable("the coordinator ends");
            steps.changed().await.map_err(closed)?;
            outcome = self
                .0
                .call_as(member.clone(), |coordinator, member| coordinator.outcome(member, step))?;
        }
        let outcome = match outcome {
            Ok(outcome) => outcome.map(|outcome| Outcome::Step(outcome.into())),
            Err(refusal) => Some(Outcome::Refusal((&refusal).into())),
        };
        Ok(Response::new(protocol::ActReply { outcome }))
    }

    async fn deregister(
        &self,
        request: Request<protocol::MemberRequest>,
    ) -> Result<Response<protocol::EmptyReply>, Status> {
        let sent = request.into_inner().member;
        let outcome = self.0.call_as(sent, |coordinator, member| coordinator.deregister(member))?;
        let refusal = outcome.err().as_ref().map(Into::into);
        Ok(Response::new(protocol::EmptyReply { refusal }))
    }
}
