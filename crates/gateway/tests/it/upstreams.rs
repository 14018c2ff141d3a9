//! Upstreams that use more of HTTP than most, and TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::setup::{Running, chat, read_request};

const MODELS: &str = "{\"data\":[{\"id\":\"m\"}]}";
const ANSWER: &str = "{\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}";

/// Answers chats with these bytes; returns its port and the number of connections.
async fn serve(answer: String, tls: Option<TlsAcceptor>) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = connections.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            counter.fetch_add(1, Ordering::SeqCst);
            let (answer, tls) = (answer.clone(), tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => converse(stream, &answer).await,
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => converse(stream, &answer).await,
                        Err(_) => None,
                    },
                }
            });
        }
    });
    (port, connections)
}

async fn converse(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) -> Option<()> {
    loop {
        let (head, _) = read_request(&mut stream).await.ok()??;
        let models = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{MODELS}", MODELS.len());
        let text = if head.starts_with("get") { &models } else { answer };
        stream.write_all(text.as_bytes()).await.ok()?;
        if text.contains("connection: close") {
            return stream.shutdown().await.ok();
        }
    }
}

fn settings(port: u16) -> String {
    format!("[[upstreams]]\nname = \"a\"\nurl = \"http://127.0.0.1:{port}/v1\"\n")
}

#[tokio::test]
async fn an_answer_may_come_in_every_form_that_http_has() {
    let length = ANSWER.len();
    let (first, second) = ANSWER.split_at(9);
    let chunked =
        format!("9;x=y\r\n{first}\r\n{:X}\r\n{second}\r\n0\r\ntrailer: x\r\n\r\n", length - 9);
    let ok = "HTTP/1.1 200 OK\r\n";
    for (answer, connections) in [
        (format!("{ok}content-length: {length}\r\n\r\n{ANSWER}"), 1),
        (format!("{ok}transfer-encoding: chunked\r\n\r\n{chunked}"), 1),
        (
            format!(
                "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n{ok}content-length: {length}\r\n\r\n{ANSWER}"
            ),
            1,
        ),
        (format!("{ok}connection: close\r\n\r\n{ANSWER}"), 4),
        (
            format!(
                "HTTP/1.0 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{ANSWER}"
            ),
            4,
        ),
    ] {
        let (port, counter) = serve(answer.clone(), None).await;
        let gateway = Running::start(&settings(port)).await;
        for _ in 0..4 {
            let got = gateway.chat("x", "").await;
            assert_eq!((got.status, &got.body[..]), (200, ANSWER), "{answer}");
        }
        // One of the checks of health may have found the only connection in use.
        let opened = counter.load(Ordering::SeqCst);
        assert!((connections..=connections + 1).contains(&opened), "{opened}: {answer}");
    }
}

#[tokio::test]
async fn an_upstream_that_does_not_speak_http_is_one_clear_error() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!".to_owned(),
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nhello".to_owned(),
        format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(100_000)),
        format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(200)),
        "HTTP/1.1 999999 OK\r\n\r\n".to_owned(),
    ] {
        let (port, _) = serve(answer, None).await;
        let more = "[retries]\nmax = 0\n[health]\nfailures = 99\n";
        let gateway = Running::start(&format!("{more}{}", settings(port))).await;
        let got = gateway.chat("x", "").await;
        assert_eq!(got.error(), (502, "upstream_failed".to_owned()));
        assert!(got.body.contains("does not speak HTTP"), "{got:?}");
        gateway.until_idle("a").await;
    }
}

#[tokio::test]
async fn an_upstream_may_answer_before_it_has_read_a_request_of_a_megabyte() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let error = "{\"error\":{\"message\":\"too long\"}}";
            let answer =
                format!("HTTP/1.1 413 X\r\ncontent-length: {}\r\n\r\n{error}", error.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
            // It reads nothing, and keeps the connection.
            tokio::spawn(async move {
                tokio::time::sleep(std::time::Duration::from_secs(30)).await;
                drop(stream);
            });
        }
    });
    let gateway = Running::start(&format!("{}models = [\"m\"]\n", settings(port))).await;
    let got = gateway.chat(&"word ".repeat(3_000_000), "").await;
    assert_eq!(got.status, 413, "{got:?}");
    assert!(got.body.contains("too long"), "{got:?}");
}

#[tokio::test]
async fn an_upstream_with_tls_is_trusted_by_its_authority_alone() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{ANSWER}", ANSWER.len());
    let (port, connections) = serve(answer, Some(TlsAcceptor::from(Arc::new(config)))).await;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("ca.pem"), made.cert.pem()).unwrap();
    std::fs::write(path("other.pem"), other.cert.pem()).unwrap();
    let upstream = |file: &str| {
        format!(
            "[retries]\nmax = 0\n[[upstreams]]\nname = \"a\"\nurl = \"https://localhost:{port}/v1\"\n\
             models = [\"m\"]\nca_file = {:?}\n",
            path(file).to_str().unwrap()
        )
    };
    let gateway = Running::start(&upstream("ca.pem")).await;
    for _ in 0..3 {
        let got = gateway.chat("x", "").await;
        assert_eq!((got.status, &got.body[..]), (200, ANSWER), "{got:?}");
    }
    assert!(connections.load(Ordering::SeqCst) <= 2, "a connection is used again");
    let gateway = Running::start(&upstream("other.pem")).await;
    let got = gateway.post("/v1/chat/completions", &chat("x", ""), "").await;
    assert_eq!(got.error(), (502, "upstream_failed".to_owned()));
    assert!(got.body.contains("certificate"), "{got:?}");
}
