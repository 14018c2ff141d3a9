//! Model servers of our own, which do nothing but answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// How requests are answered.
#[derive(Clone)]
pub(super) enum Work {
    /// At once; a stream sends one event and the rest when it is released.
    AtOnce(watch::Receiver<bool>),
    /// As a batch of so many slots in order of arrival, with this time per token of `max_tokens`.
    Slots(Arc<Semaphore>, Duration),
}

/// A server and how many requests it has answered or holds.
pub(super) struct Backend {
    pub(super) address: SocketAddr,
    pub(super) requests: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const MODELS: &str = r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#;
const ANSWER: &str = r#"{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello, how can I help you?"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":8,"total_tokens":20}}"#;
/// Without its usage, so that no length is learnt from it.
const ANSWER_UNCOUNTED: &str = r#"{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}"#;
const EVENTS: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const EVENT: &str = "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"},\"finish_reason\":null}]}\n\n";
const LAST: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";

impl Backend {
    pub(super) async fn start(work: Work) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let requests = Arc::new(AtomicU64::new(0));
        let counter = requests.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Fails only for a connection that is gone.
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve(stream, work.clone(), counter.clone()));
            }
        });
        Ok(Self { address, requests, task })
    }
}

/// Ends when the peer closes or says what this server does not understand.
async fn serve(mut stream: TcpStream, work: Work, requests: Arc<AtomicU64>) -> Option<()> {
    let mut buffer = Vec::with_capacity(1024);
    loop {
        let request = super::client::read_message(&mut stream, &mut buffer).await?;
        if request.starts_with("GET") {
            respond(&mut stream, MODELS).await?;
            continue;
        }
        requests.fetch_add(1, Ordering::Relaxed);
        match &work {
            Work::AtOnce(released) if request.contains("\"stream\":true") => {
                let first = format!("{EVENTS}{:x}\r\n{EVENT}\r\n", EVENT.len());
                stream.write_all(first.as_bytes()).await.ok()?;
                drop((first, request));
                buffer = Vec::new();
                released.clone().wait_for(|is_released| *is_released).await.ok()?;
                let last = format!("{:x}\r\n{LAST}\r\n0\r\n\r\n", LAST.len());
                stream.write_all(last.as_bytes()).await.ok()?;
            }
            Work::AtOnce(_) => respond(&mut stream, ANSWER).await?,
            Work::Slots(slots, per_token) => {
                let slot = slots.acquire().await.ok()?;
                let tokens = request.split("\"max_tokens\":").nth(1)?;
                let end = tokens.find(|letter: char| !letter.is_ascii_digit())?;
                let tokens: u32 = tokens[..end].parse().ok()?;
                tokio::time::sleep(*per_token * tokens).await;
                drop(slot);
                respond(&mut stream, ANSWER_UNCOUNTED).await?;
            }
        }
    }
}

async fn respond(stream: &mut TcpStream, body: &str) -> Option<()> {
    let length = body.len();
    let text = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await.ok()
}
