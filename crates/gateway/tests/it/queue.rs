//! Order, back-pressure and priorities.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::setup::{Answer, Running, Scripted};

/// Sends chats one after the other, so that they wait in this order; returns the answers.
async fn ask(gateway: &Arc<Running>, prompts: &[(&'static str, &'static str)]) -> JoinSet<Answer> {
    let mut answers = JoinSet::new();
    for (number, (prompt, more)) in prompts.iter().copied().enumerate() {
        let own = gateway.clone();
        answers.spawn(async move { own.chat(prompt, more).await });
        // The first one is at the upstream, the others wait.
        gateway.until("homeostat_gateway_waiting_requests{model=\"m\"}", number as f64).await;
        gateway.until("homeostat_gateway_in_flight_requests{upstream=\"a\"}", 1.0).await;
    }
    answers
}

#[tokio::test]
async fn the_request_with_the_shortest_expected_answer_is_next() {
    for (order, expected) in [
        ("shortest-first", ["hold", "answer 1", "answer 2", "answer 3"]),
        ("aged", ["hold", "answer 1", "answer 2", "answer 3"]),
        ("fcfs", ["hold", "answer 3", "answer 2", "answer 1"]),
    ] {
        let upstream = Scripted::start().await;
        let settings = format!("[queue]\norder = \"{order}\"\n{}", upstream.settings("a", 1));
        let gateway = Arc::new(Running::start(&settings).await);
        let prompts = [
            ("hold", ""),
            ("answer 3", ",\"max_tokens\":150"),
            ("answer 2", ",\"max_tokens\":40"),
            ("answer 1", ",\"max_completion_tokens\":2"),
        ];
        let answers = ask(&gateway, &prompts).await;
        upstream.release.add_permits(1);
        assert!(answers.join_all().await.iter().all(|answer| answer.status == 200));
        assert_eq!(upstream.prompts(), expected, "{order}");
    }
}

#[tokio::test]
async fn a_full_queue_and_a_long_wait_are_refused_with_a_time_to_come_back() {
    let upstream = Scripted::start().await;
    let settings = format!(
        "[queue]\nmax_waiting = 1\n[timeouts]\nqueue_s = 0.3\n{}",
        upstream.settings("a", 1)
    );
    let gateway = Arc::new(Running::start(&settings).await);
    let mut answers = ask(&gateway, &[("hold", ""), ("answer 1", "")]).await;
    let refused = gateway.chat("answer 2", "").await;
    assert_eq!(refused.error(), (429, "queue_full".to_owned()));
    let waited = answers.join_next().await.unwrap().unwrap();
    assert_eq!(waited.error(), (503, "queue_timeout".to_owned()));
    for answer in [refused, waited] {
        let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds));
    }
    upstream.release.add_permits(1);
    assert_eq!(answers.join_next().await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn a_server_that_orders_by_itself_gets_the_rank_as_its_priority() {
    let upstream = Scripted::start().await;
    let settings = format!(
        "[queue]\norder = \"shortest-first\"\n{}priority = \"lower-first\"\n",
        upstream.settings("a", 99)
    );
    let gateway = Running::start(&settings).await;
    gateway.chat("answer 1", ",\"max_tokens\":50").await;
    gateway.chat("answer 1", ",\"max_tokens\":5").await;
    let seen = upstream.seen.lock().unwrap().clone();
    assert!(
        seen[1]["priority"].as_i64().unwrap() < seen[0]["priority"].as_i64().unwrap(),
        "{seen:?}"
    );
}

#[tokio::test]
async fn a_stream_reaches_the_client_as_it_was_and_its_usage_only_if_it_was_asked_for() {
    let upstream = Scripted::start().await;
    let gateway = Running::start(&upstream.settings("a", 2)).await;
    let answer = gateway.chat("answer 4", ",\"stream\":true").await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(answer.events().len(), 5, "{answer:?}");
    assert_eq!(answer.events()[4], "data: [DONE]");
    let usage = ",\"stream\":true,\"stream_options\":{\"include_usage\":true}";
    let answer = gateway.chat("answer 4", usage).await;
    assert!(answer.events()[4].contains("\"completion_tokens\":4"), "{answer:?}");
    let tokens = "homeostat_gateway_tokens_total{model=\"m\",kind=\"completion\"}";
    gateway.until(tokens, 8.0).await;
    gateway.until("homeostat_gateway_length_actual_to_predicted_count{model=\"m\"}", 2.0).await;
    gateway.until("homeostat_gateway_time_to_first_token_seconds_count{model=\"m\"}", 2.0).await;
    gateway.until("homeostat_gateway_time_per_output_token_seconds_count{model=\"m\"}", 2.0).await;
}

#[tokio::test]
async fn a_session_stays_with_one_upstream() {
    let (a, b) = (Scripted::start().await, Scripted::start().await);
    let gateway = Running::start(&format!("{}{}", a.settings("a", 9), b.settings("b", 9))).await;
    for _ in 0..6 {
        let header = "x-session-id: conversation-1\r\n";
        let body = crate::setup::chat("answer 1", "");
        assert_eq!(gateway.post("/v1/chat/completions", &body, header).await.status, 200);
    }
    let mut counts = [a.prompts().len(), b.prompts().len()];
    counts.sort_unstable();
    assert_eq!(counts, [0, 6]);
}

#[tokio::test]
async fn a_shutdown_lets_requests_finish_and_takes_no_new_ones() {
    let upstream = Scripted::start().await;
    let gateway = Running::start(&upstream.settings("a", 1)).await;
    let address = gateway.address.clone();
    let body = crate::setup::chat("hold 5", "");
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let held =
        tokio::spawn(async move { crate::setup::exchange(&address, request.as_bytes()).await });
    upstream.until_seen(1).await;
    drop(gateway.stop);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(tokio::net::TcpStream::connect(&gateway.address).await.is_err());
    upstream.release.add_permits(1);
    assert_eq!(held.await.unwrap().status, 200);
    assert_eq!(gateway.ended.await.unwrap(), 0);
}
