//! A client that costs little: one request at a time on a connection that stays open.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection.
pub(super) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Sends a chat and reads its answer; fails unless the status is 200.
    pub(super) async fn chat(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(request).await?;
        let answer = read_message(&mut self.stream, &mut self.buffer).await;
        match answer {
            Some(answer) if answer.starts_with("HTTP/1.1 200") => Ok(()),
            Some(answer) => anyhow::bail!("the answer was {}", answer.lines().next().unwrap_or("")),
            None => anyhow::bail!("the connection was closed"),
        }
    }

    /// Sends a chat and reads its first event.
    pub(super) async fn open_stream(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(request).await?;
        self.until(b"data: ").await
    }

    /// Reads the rest of a stream.
    pub(super) async fn finish_stream(&mut self) -> anyhow::Result<()> {
        self.until(b"[DONE]").await
    }

    async fn until(&mut self, wanted: &[u8]) -> anyhow::Result<()> {
        let mut seen = Vec::new();
        while !seen.windows(wanted.len()).any(|window| window == wanted) {
            let mut bytes = [0; 512];
            let count = self.stream.read(&mut bytes).await?;
            anyhow::ensure!(count > 0, "the stream was closed");
            seen.extend_from_slice(&bytes[..count]);
        }
        Ok(())
    }
}

/// A chat as bytes; `more` are further members of its object, each behind a comma.
pub(super) fn chat(more: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"Write a haiku about queues."}}]{more}}}"#
    );
    let length = body.len();
    format!("POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

/// The next message with a length; none at the end of the connection. What follows it stays in the buffer.
pub(super) async fn read_message(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(head) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let text = std::str::from_utf8(&buffer[..head]).ok()?;
            let name = "content-length:";
            let length = text.lines().find_map(|line| {
                let own = line.get(..name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name));
                own.then(|| line[name.len()..].trim().parse::<usize>())
            });
            let end = head + 4 + length.unwrap_or(Ok(0)).ok()?;
            if buffer.len() >= end {
                let rest = buffer.split_off(end);
                let message = std::mem::replace(buffer, rest);
                return String::from_utf8(message).ok();
            }
        }
        let mut bytes = [0; 2048];
        let count = stream.read(&mut bytes).await.ok()?;
        if count == 0 {
            return None;
        }
        buffer.extend_from_slice(&bytes[..count]);
    }
}
