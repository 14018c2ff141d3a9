//! Upstreams and clients that fail: one clear answer, no leak, no stuck queue.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::setup::{Running, Scripted, chat, exchange};

/// Short enough for tests; two slots.
const TIMEOUTS: &str = "[timeouts]\nfirst_token_s = 1.0\nbetween_tokens_s = 0.3\nrequest_s = 0.5\nclient_s = 0.4\n\
    [limits]\nmax_answer_bytes = 1000000\n[retries]\nmax = 1\n[health]\ninterval_s = 0.2\nfailures = 1000\n";

async fn start() -> (Scripted, Running) {
    let upstream = Scripted::start().await;
    let gateway = Running::start(&format!("{TIMEOUTS}{}", upstream.settings("a", 2))).await;
    (upstream, gateway)
}

#[tokio::test]
async fn every_fault_of_an_upstream_is_one_clear_error_and_leaves_nothing_behind() {
    let (upstream, gateway) = start().await;
    for (prompt, more, status, code) in [
        ("hang", "", 504, "upstream_timeout"),
        ("hang", ",\"stream\":true", 504, "upstream_timeout"),
        ("reset", "", 502, "upstream_failed"),
        ("garbage", "", 502, "upstream_failed"),
        ("half-answer", "", 502, "upstream_failed"),
        ("half-first-event", ",\"stream\":true", 502, "upstream_failed"),
        ("huge", "", 502, "upstream_failed"),
        ("huge", ",\"stream\":true", 502, "upstream_failed"),
        ("status 500", "", 500, "upstream_error"),
        ("status 503", "", 503, "upstream_error"),
        ("status 400", "", 400, "upstream_error"),
        ("status 401", "", 502, "upstream_failed"),
        ("status 302", "", 502, "upstream_error"),
    ] {
        let answer = gateway.chat(prompt, more).await;
        assert_eq!(answer.error(), (status, code.to_owned()), "{prompt}{more}");
        assert!(answer.header("x-request-id").is_some());
        gateway.until_idle("a").await;
    }
    let message = gateway.chat("status 400", "").await.json()["error"]["message"].to_string();
    assert!(message.contains("because"), "{message}");
    // It still works, and nothing of the failed requests is left open but the connection of checks.
    assert_eq!(gateway.chat("answer 2", "").await.status, 200);
    drop(gateway.stop);
    gateway.ended.await.unwrap();
    upstream.until_closed().await;
}

#[tokio::test]
async fn a_stream_that_breaks_off_ends_with_an_error_event_and_without_half_an_event() {
    let (_upstream, gateway) = start().await;
    for (prompt, reason) in
        [("half-event", "broke off"), ("silent-stream", "sent nothing for 0.3 s")]
    {
        let answer = gateway.chat(prompt, ",\"stream\":true").await;
        let events = answer.events();
        assert_eq!((answer.status, events.len()), (200, 2), "{prompt}: {answer:?}");
        assert!(events[0].contains("choices"));
        assert!(events[1].contains("\"error\""), "{events:?}");
        assert!(events[1].contains(reason) || events[1].contains("ended its stream"), "{events:?}");
        gateway.until_idle("a").await;
    }
}

#[tokio::test]
async fn a_request_is_sent_again_only_if_the_client_has_received_nothing() {
    let (upstream, gateway) = start().await;
    let sent = |prompt: &str| upstream.prompts().iter().filter(|sent| *sent == prompt).count();
    gateway.chat("reset", "").await;
    gateway.chat("status 503", "").await;
    gateway.chat("status 400", "").await;
    gateway.chat("hang", "").await;
    gateway.chat("half-event", ",\"stream\":true").await;
    assert_eq!(["reset", "status 503"].map(sent), [2, 2]);
    assert_eq!(["status 400", "hang", "half-event"].map(sent), [1, 1, 1]);
}

#[tokio::test]
async fn another_upstream_answers_when_one_is_down_and_a_fallback_when_none_has_the_model() {
    let (a, b) = (Scripted::start().await, Scripted::start().await);
    let settings = format!(
        "[health]\ninterval_s = 0.1\nfailures = 1\n{}{}[[models]]\nname = \"chat\"\nserve = [\"gone\", \"m\"]\n",
        a.settings("a", 9),
        b.settings("b", 9)
    );
    let gateway = Running::start(&settings).await;
    a.stop();
    for _ in 0..8 {
        assert_eq!(gateway.chat("answer 2", "").await.status, 200);
    }
    let body = chat("answer 2", "").replace("\"m\"", "\"chat\"");
    assert_eq!(gateway.post("/v1/chat/completions", &body, "").await.status, 200);
    b.stop();
    gateway.until("homeostat_gateway_upstream_healthy{upstream=\"b\"}", 0.0).await;
    let answer = gateway.chat("answer 2", "").await;
    assert_eq!(answer.error(), (503, "no_healthy_upstream".to_owned()));
    assert!(answer.header("retry-after").is_some());
}

#[tokio::test]
async fn a_client_that_leaves_is_cancelled_at_the_upstream_while_waiting_and_while_streaming() {
    let upstream = Scripted::start().await;
    let gateway =
        Running::start(&format!("[retries]\nmax = 0\n{}", upstream.settings("a", 1))).await;
    let ask = async |prompt: &str, more: &str| {
        let body = chat(prompt, more);
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(&gateway.address).await.unwrap();
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        stream
    };
    let hangs = ask("hang", "").await;
    upstream.until_seen(1).await;
    let waits = ask("answer 1", "").await;
    gateway.until("homeostat_gateway_waiting_requests{model=\"m\"}", 1.0).await;
    drop(waits);
    gateway.until("homeostat_gateway_waiting_requests{model=\"m\"}", 0.0).await;
    drop(hangs);
    gateway.until_idle("a").await;
    let streams = ask("silent-stream", ",\"stream\":true").await;
    upstream.until_seen(2).await;
    drop(streams);
    gateway.until_idle("a").await;
    gateway.until("homeostat_gateway_cancelled_requests_total", 3.0).await;
    // The cancelled request that only waited was never sent.
    assert_eq!(upstream.prompts(), ["hang", "silent-stream"]);
}

#[tokio::test]
async fn a_client_that_stops_reading_is_disconnected_and_frees_its_slot() {
    let (_upstream, gateway) = start().await;
    let body = chat("endless", ",\"stream\":true");
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(&gateway.address).await.unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    gateway.until("homeostat_gateway_in_flight_requests{upstream=\"a\"}", 1.0).await;
    let start = Instant::now();
    gateway.until_idle("a").await;
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    drop(stream);
}

#[tokio::test]
async fn requests_that_are_wrong_are_refused_in_the_words_of_openai() {
    let (upstream, gateway) = start().await;
    let chats = "/v1/chat/completions";
    for (path, body, status, code) in [
        (chats, "{".to_owned(), 400, "invalid_request"),
        (chats, "{\"model\":\"m\"}".to_owned(), 400, "invalid_request"),
        (chats, chat("x", "").replace("\"m\"", "\"other\""), 404, "model_not_found"),
        (chats, format!("{}{}", chat("x", ""), " ".repeat(17 << 20)), 413, "request_too_large"),
        ("/v1/audio", String::new(), 404, "unknown_url"),
        ("/v1/models", String::new(), 405, "method_not_allowed"),
    ] {
        let answer = gateway.post(path, &body, "").await;
        assert_eq!(answer.error(), (status, code.to_owned()), "{path}");
    }
    assert_eq!(gateway.get("/v1/models/nothing").await.error().0, 404);
    assert!(upstream.prompts().is_empty());
    // A megabyte is long, and a request.
    assert_eq!(gateway.chat(&"word ".repeat(200_000), "").await.status, 200);
    let slow = "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 100\r\n\r\n{";
    let answer = exchange(&gateway.address, slow.as_bytes()).await;
    assert_eq!(answer.error(), (408, "request_timeout".to_owned()));
}
