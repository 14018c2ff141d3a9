//! What keeps requests from being too many, too large, or from a stranger.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::{Code, Status};

use crate::security::{TOKEN_HEADER, Token};

/// Requests that may be worked on at once, over all connections: an agent of a team has one open
/// for as long as its step lasts.
const MAX_REQUESTS: usize = 4096;

/// Requests that never reached a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransportCounts {
    /// Without the token, or with another.
    pub unauthenticated: u64,
    /// Not messages of this protocol.
    pub undecodable: u64,
    /// Larger than any message is.
    pub too_large: u64,
    /// More at once than can be worked on.
    pub shed: u64,
}

/// The same while they are counted.
#[derive(Default)]
pub(crate) struct TurnedAway {
    unauthenticated: AtomicU64,
    undecodable: AtomicU64,
    too_large: AtomicU64,
    shed: AtomicU64,
}

impl TurnedAway {
    pub(crate) fn counts(&self) -> TransportCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TransportCounts {
            unauthenticated: count(&self.unauthenticated),
            undecodable: count(&self.undecodable),
            too_large: count(&self.too_large),
            shed: count(&self.shed),
        }
    }
}

/// Stands before the service: asks for the token before a message is read, sheds what is too
/// much, and counts whatever does not get through.
#[derive(Clone)]
pub(crate) struct Gate<S> {
    inner: S,
    turned_away: Arc<TurnedAway>,
    token: Option<Token>,
    room: Arc<Semaphore>,
}

impl<S> Gate<S> {
    pub(crate) fn new(inner: S, turned_away: Arc<TurnedAway>, token: Option<Token>) -> Self {
        Self { inner, turned_away, token, room: Arc::new(Semaphore::new(MAX_REQUESTS)) }
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
            self.turned_away.unauthenticated.fetch_add(1, Ordering::Relaxed);
            let status = Status::unauthenticated(match header {
                Some(_) => "the token is not the right one",
                None => "this server asks for a token",
            });
            return Box::pin(std::future::ready(Ok(status.into_http())));
        }
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
            self.turned_away.shed.fetch_add(1, Ordering::Relaxed);
            let status = Status::resource_exhausted("too many requests at once");
            return Box::pin(std::future::ready(Ok(status.into_http())));
        };
        let (answer, turned_away) = (self.inner.call(request), Arc::clone(&self.turned_away));
        Box::pin(async move {
            let response = answer.await?;
            drop(place);
            match Status::from_header_map(response.headers()).map(|status| status.code()) {
                Some(Code::OutOfRange) => {
                    turned_away.too_large.fetch_add(1, Ordering::Relaxed);
                }
                // No service here fails in this way: it is a message that could not be read.
                Some(Code::Internal | Code::Unimplemented) => {
                    turned_away.undecodable.fetch_add(1, Ordering::Relaxed);
                }
                _ => {}
            }
            Ok(response)
        })
    }
}
