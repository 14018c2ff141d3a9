//! Clients that mean harm.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::setup::{Running, Scripted, chat, exchange};

async fn start() -> (Scripted, Running) {
    let upstream = Scripted::start().await;
    let timeouts = "[timeouts]\nrequest_s = 0.5\n";
    let gateway = Running::start(&format!("{timeouts}{}", upstream.settings("a", 9))).await;
    (upstream, gateway)
}

/// A whole request; `headers` each with its line end.
fn request(headers: &str, body: &str) -> String {
    format!("POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\n{headers}\r\n{body}")
}

#[tokio::test]
async fn a_request_that_is_hidden_in_another_is_never_sent_to_an_upstream() {
    let (upstream, gateway) = start().await;
    let hidden = chat("hidden", "");
    let hidden = request(&format!("content-length: {}\r\n", hidden.len()), &hidden);
    let open = chat("answer 1", "");
    let chunks = format!("{:x}\r\n{open}\r\n0\r\n\r\n", open.len());
    let both = format!("{chunks}{hidden}");
    let (length, all) = (open.len(), both.len());
    for headers in [
        format!("content-length: {all}\r\ntransfer-encoding: chunked\r\n"),
        format!("transfer-encoding: chunked\r\ncontent-length: {all}\r\n"),
        "transfer-encoding: chunked\r\n".to_owned(),
        format!("content-length: {all}\r\ntransfer-encoding: xchunked\r\n"),
        format!("content-length: {all}\r\ntransfer-encoding : chunked\r\n"),
        format!("content-length: {all}\r\ntransfer-encoding: chunked, identity\r\n"),
        format!("content-length: {length}\r\ncontent-length: {all}\r\n"),
        format!("content-length: {all}\r\ncontent-length: {length}\r\n"),
        format!("content-length: +{length}\r\n"),
        format!("content-length: {length}, {all}\r\n"),
        format!("content-length: {all}\r\n folded: {length}\r\n"),
    ] {
        let before = upstream.prompts().len();
        let answer = exchange(&gateway.address, request(&headers, &both).as_bytes()).await;
        assert!([200, 400].contains(&answer.status), "{headers}: {answer:?}");
        let sent = upstream.prompts()[before..].to_vec();
        assert!(!sent.contains(&"hidden".to_owned()), "{headers}: {sent:?}");
        assert_eq!(sent.len(), usize::from(answer.status == 200), "{headers}");
    }
    let bad_chunk = request("transfer-encoding: chunked\r\n", "5\nhello\r\n0\r\n\r\n");
    assert_eq!(exchange(&gateway.address, bad_chunk.as_bytes()).await.status, 400);
    gateway.until_idle("a").await;
}

#[tokio::test]
async fn a_head_that_is_too_long_or_comes_too_slowly_is_refused() {
    let (_upstream, gateway) = start().await;
    let many = "x: y\r\n".repeat(200);
    let long = format!("x: {}\r\n", "y".repeat(100_000));
    for headers in [many, long] {
        let answer = exchange(&gateway.address, request(&headers, "").as_bytes()).await;
        assert_eq!(answer.status, 431, "{answer:?}");
    }
    let start = Instant::now();
    let mut connections = Vec::new();
    for _ in 0..20 {
        connections.push(TcpStream::connect(&gateway.address).await.unwrap());
    }
    gateway.until("homeostat_gateway_connections", 20.0).await;
    // One byte now and then keeps none of them open, and neither does silence.
    let mut closed = 0;
    while closed < connections.len() {
        assert!(start.elapsed() < Duration::from_secs(15), "{closed} of 20 are closed");
        closed = 0;
        for (number, stream) in connections.iter_mut().enumerate() {
            if number % 2 == 0 {
                // It fails once the gateway has closed the connection.
                let _ = stream.try_write(b"P");
            }
            let mut answer = [0; 512];
            match stream.try_read(&mut answer) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Ok(count) if count > 0 => {}
                _ => closed += 1,
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    gateway.until("homeostat_gateway_connections", 0.0).await;
}

#[tokio::test]
async fn two_keys_in_one_request_are_refused() {
    let (upstream, gateway) = start().await;
    let header = "authorization: Bearer a\r\nauthorization: Bearer b\r\n";
    let answer = gateway.post("/v1/chat/completions", &chat("answer 1", ""), header).await;
    assert_eq!(answer.error(), (400, "invalid_request".to_owned()));
    assert!(upstream.prompts().is_empty());
}

#[tokio::test]
async fn a_client_that_leaves_with_more_on_the_way_is_noticed() {
    let (upstream, gateway) = start().await;
    let body = chat("hang", "");
    let one = request(&format!("content-length: {}\r\n", body.len()), &body);
    let mut stream = TcpStream::connect(&gateway.address).await.unwrap();
    // The second request waits behind the first, which never ends.
    stream.write_all(one.repeat(2).as_bytes()).await.unwrap();
    upstream.until_seen(1).await;
    let mut byte = [0];
    let waits = tokio::time::timeout(Duration::from_millis(100), stream.read(&mut byte)).await;
    assert!(waits.is_err());
    drop(stream);
    gateway.until_idle("a").await;
    gateway.until("homeostat_gateway_cancelled_requests_total", 1.0).await;
    assert_eq!(upstream.prompts().len(), 1);
}
