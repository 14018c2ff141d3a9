//! The five calls on the side of the coordinator, and what keeps them from being too many, too
//! large, too late or from a stranger.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use homeostat_simppo::{
    AgentName, Coordination, CoordinationError, Coordinator, Guidance, Member, Refusal,
};
use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::{Code, Request, Response, Status};

use crate::messages;
use crate::protocol::{self, coordination_server};
use crate::security::{TOKEN_HEADER, Token};

/// Requests that may be worked on at once, over all connections.
const MOST_REQUESTS: usize = 1024;

/// A coordinator that several threads talk to.
pub(crate) struct Shared {
    coordinator: Mutex<Coordinator>,
    start: Instant,
    pub(crate) unauthenticated: AtomicU64,
    pub(crate) undecodable: AtomicU64,
    pub(crate) too_large: AtomicU64,
    pub(crate) shed: AtomicU64,
}

impl Shared {
    pub(crate) fn new(coordinator: Coordinator) -> Self {
        Self {
            coordinator: Mutex::new(coordinator),
            start: Instant::now(),
            unauthenticated: AtomicU64::new(0),
            undecodable: AtomicU64::new(0),
            too_large: AtomicU64::new(0),
            shed: AtomicU64::new(0),
        }
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

/// Stands before the service: asks for the token before a message is read, sheds what is too
/// much, and counts whatever does not get through.
#[derive(Clone)]
pub(crate) struct Gate<S> {
    inner: S,
    shared: Arc<Shared>,
    token: Option<Token>,
    room: Arc<Semaphore>,
}

impl<S> Gate<S> {
    pub(crate) fn new(inner: S, shared: Arc<Shared>, token: Option<Token>) -> Self {
        Self { inner, shared, token, room: Arc::new(Semaphore::new(MOST_REQUESTS)) }
    }
}

impl<S> Service<http::Request<Body>> for Gate<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let header = request.headers().get(TOKEN_HEADER).map(|value| value.as_bytes());
        if self.token.as_ref().is_some_and(|token| !token.is_in(header)) {
            self.shared.unauthenticated.fetch_add(1, Ordering::Relaxed);
            let status = Status::unauthenticated(match header {
                Some(_) => "the token is not the coordinator's",
                None => "this coordinator asks for a token",
            });
            return Box::pin(std::future::ready(Ok(status.into_http())));
        }
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
            self.shared.shed.fetch_add(1, Ordering::Relaxed);
            let status = Status::resource_exhausted("too many requests at once");
            return Box::pin(std::future::ready(Ok(status.into_http())));
        };
        let (answer, shared) = (self.inner.call(request), Arc::clone(&self.shared));
        Box::pin(async move {
            let response = answer.await?;
            drop(place);
            // The service itself never fails: a status here is that of a message that could not
            // be read.
            match Status::from_header_map(response.headers()).map(|status| status.code()) {
                Some(Code::Ok) | None => {}
                Some(Code::OutOfRange) => {
                    shared.too_large.fetch_add(1, Ordering::Relaxed);
                }
                Some(_) => {
                    shared.undecodable.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(response)
        })
    }
}
