//! Keys and what they may use.

use homeostat_gateway::admission::hash;

use crate::setup::{Running, Scripted, chat};

fn key(name: &str, limits: &str) -> String {
    let hash: String = hash(name).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("[[keys]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n{limits}\n")
}

#[tokio::test]
async fn each_limit_of_a_key_is_told_apart_and_other_keys_go_on() {
    let upstream = Scripted::start().await;
    let settings = [
        upstream.settings("a", 9),
        key("free", ""),
        key("rate", "requests_per_minute = 1"),
        key("tokens", "tokens_per_minute = 5"),
        key("budget", "tokens_per_day = 5"),
        key("models", "models = [\"other\"]"),
    ];
    let gateway = Running::start(&settings.concat()).await;
    let body = chat("answer 4", "");
    let post = async |key: &str| {
        let header = format!("authorization: Bearer {key}\r\n");
        gateway.post("/v1/chat/completions", &body, &header).await
    };
    for (key, status, code) in [
        ("rate", 429, "rate_limit_exceeded"),
        ("tokens", 429, "rate_limit_exceeded"),
        ("budget", 429, "insufficient_quota"),
    ] {
        assert_eq!(post(key).await.status, 200, "{key}");
        let refused = post(key).await;
        assert_eq!(refused.error(), (status, code.to_owned()), "{key}");
        assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    }
    assert_eq!(post("models").await.error(), (403, "model_not_allowed".to_owned()));
    assert_eq!(post("nobody").await.error(), (401, "invalid_api_key".to_owned()));
    assert_eq!(gateway.get("/v1/models").await.error().0, 401);
    assert_eq!(post("free").await.status, 200);
    gateway.until("homeostat_gateway_key_tokens_total{key=\"free\"}", 11.0).await;
}
