//! Connections as they come in: so many at once and no more, and none that says nothing.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};
use tokio_stream::Stream;
use tonic::transport::server::Connected;

/// Accepts connections while there is room; others are closed at once, so that an agent knows
/// and tries again.
pub(crate) struct Incoming {
    listener: TcpListener,
    room: Arc<Semaphore>,
    most_idle: Duration,
    /// Runs while the system has no room for another connection.
    pause: Option<Pin<Box<Sleep>>>,
}

/// Before accepting is tried again after it failed: without a pause, a system out of file
/// descriptors would keep a core busy with failing.
const PAUSE: Duration = Duration::from_millis(100);

impl Incoming {
    pub(crate) fn new(listener: TcpListener, most: usize, most_idle: Duration) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(most)), most_idle, pause: None }
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            let Ok((stream, _)) = ready!(self.listener.poll_accept(cx)) else {
                self.pause = Some(Box::pin(sleep(PAUSE)));
                continue;
            };
            let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else { continue };
            // Fails only on a connection that is gone already.
            if stream.set_nodelay(true).is_err() {
                continue;
            }
            let most_idle = self.most_idle;
            let idle = Box::pin(sleep(most_idle));
            return Poll::Ready(Some(Ok(Connection { stream, idle, most_idle, _place: place })));
        }
    }
}

/// One connection. It ends when nothing was read for too long.
pub(crate) struct Connection {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    most_idle: Duration,
    _place: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        match Pin::new(&mut this.stream).poll_read(cx, buffer) {
            Poll::Ready(outcome) => {
                this.idle.as_mut().reset(Instant::now() + this.most_idle);
                Poll::Ready(outcome)
            }
            Poll::Pending => {
                ready!(this.idle.as_mut().poll(cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
