//! What the gateway reads of a request, and the few fields that it changes.
//!
//! All other fields go to the upstream byte by byte as they came: numbers keep their digits and
//! fields that only one kind of server knows keep working.

use std::borrow::Cow;
use std::fmt;

use hyper::body::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::api_error::ApiError;
use crate::settings::Priority;

/// Which endpoint a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `POST /v1/chat/completions`.
    Chat,
    /// `POST /v1/completions`.
    Completions,
    /// `POST /v1/embeddings`.
    Embeddings,
}

impl Endpoint {
    /// As OpenTelemetry calls what it does.
    pub(crate) fn operation(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completions => "text_completion",
            Self::Embeddings => "embeddings",
        }
    }

    /// The path after the version.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completions => "/completions",
            Self::Embeddings => "/embeddings",
        }
    }
}

/// A parsed request.
#[derive(Debug, Clone)]
pub struct ApiRequest {
    /// What it asks for.
    pub endpoint: Endpoint,
    /// The model as the client calls it.
    pub model: String,
    /// Whether the answer is a stream of events.
    pub stream: bool,
    /// Whether the client wants the usage at the end of a stream.
    pub wants_usage: bool,
    /// The most tokens that an answer can have.
    pub max_tokens: Option<f64>,
    /// How many answers it asks for; a server decodes them side by side.
    pub answers: u64,
    /// What decides the upstream of a conversation: `prompt_cache_key`, else `user`.
    pub session: Option<String>,
    /// The text of all messages or prompts.
    pub prompt: String,
    body: Bytes,
}

/// What the gateway changes for an upstream.
#[derive(Debug, Clone, Copy)]
pub struct Changes<'a> {
    /// The name of the model there.
    pub model: &'a str,
    /// How it takes a priority.
    pub priority: Priority,
    /// Smaller is sooner.
    pub rank: i64,
}

impl ApiRequest {
    /// Reads the fields that matter here.
    pub fn parse(endpoint: Endpoint, body: Bytes) -> Result<Self, ApiError> {
        let fields = Fields::of(&body)?;
        let model: String = fields.read("model")?.ok_or_else(|| {
            ApiError::invalid(Some("model"), "name a model: the field is missing")
        })?;
        let stream = fields.read::<Option<bool>>("stream")?.flatten().unwrap_or(false);
        if stream && endpoint == Endpoint::Embeddings {
            return Err(ApiError::invalid(Some("stream"), "embeddings cannot be streamed"));
        }
        let options = fields.read::<Option<StreamOptions>>("stream_options")?.flatten();
        let limit = ["max_completion_tokens", "max_tokens"].into_iter().try_fold(
            None,
            |found: Option<f64>, name| {
                let limit = fields.read::<Option<f64>>(name)?.flatten();
                Ok::<_, ApiError>(found.or(limit))
            },
        )?;
        let answers = fields.read::<Option<u64>>("n")?.flatten().unwrap_or(1).max(1);
        let key = fields.read::<Option<String>>("prompt_cache_key")?.flatten();
        let user = fields.read::<Option<String>>("user")?.flatten();
        let prompt = match endpoint {
            Endpoint::Chat => fields.text("messages")?,
            Endpoint::Completions => fields.text("prompt")?,
            Endpoint::Embeddings => String::new(),
        };
        drop(fields);
        Ok(Self {
            endpoint,
            model,
            stream,
            wants_usage: options.is_some_and(|options| options.include_usage),
            max_tokens: limit.map(|limit| limit.max(1.0)),
            answers,
            session: key.or(user),
            prompt,
            body,
        })
    }

    /// The body for an upstream. A stream also asks for its usage: it is what limits and budgets count.
    pub fn body_for(&self, changes: Changes<'_>) -> Bytes {
        let asks_usage = self.stream && !self.wants_usage;
        if changes.model == self.model && !asks_usage && changes.priority == Priority::None {
            return self.body.clone();
        }
        let fields = Fields::of(&self.body).expect("it was parsed before");
        let mut replaced: Vec<(&str, Value)> = vec![("model", changes.model.into())];
        if asks_usage {
            let options = fields.read::<Option<Map<String, Value>>>("stream_options");
            let mut options = options.ok().flatten().flatten().unwrap_or_default();
            options.insert("include_usage".to_owned(), true.into());
            replaced.push(("stream_options", options.into()));
        }
        match changes.priority {
            Priority::None => {}
            Priority::LowerFirst => replaced.push(("priority", changes.rank.into())),
            Priority::HigherFirst => {
                let extension = fields.read::<Option<Map<String, Value>>>("nvext");
                let mut extension = extension.ok().flatten().flatten().unwrap_or_default();
                let hints = extension.entry("agent_hints").or_insert_with(|| json!({}));
                if !hints.is_object() {
                    *hints = json!({});
                }
                hints["priority"] = changes.rank.saturating_neg().into();
                replaced.push(("nvext", extension.into()));
            }
        }
        let mut body = Vec::with_capacity(self.body.len() + 96);
        let mut write = |name: &str, value: &str| {
            body.push(if body.is_empty() { b'{' } else { b',' });
            body.extend_from_slice(Value::from(name).to_string().as_bytes());
            body.push(b':');
            body.extend_from_slice(value.as_bytes());
        };
        for (name, value) in &fields.0 {
            if !replaced.iter().any(|(replaced, _)| replaced == name) {
                write(name, value.get());
            }
        }
        for (name, value) in replaced {
            write(name, &value.to_string());
        }
        body.push(b'}');
        Bytes::from(body)
    }
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// The fields of a JSON object as text.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    fn of(body: &'a [u8]) -> Result<Self, ApiError> {
        let refused = |error: serde_json::Error| {
            ApiError::invalid(
                None,
                format!("the body is not the JSON object of a request: {error}"),
            )
        };
        let fields: Self = serde_json::from_slice(body).map_err(refused)?;
        let mut names: Vec<&str> = fields.0.iter().map(|(name, _)| name.as_ref()).collect();
        names.sort_unstable();
        // Servers differ in which of the two they take, so limits would not hold.
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let shown: String = twice[0].chars().take(100).collect();
            return Err(ApiError::invalid(None, format!("the field {shown:?} appears twice")));
        }
        Ok(fields)
    }

    fn read<T: Deserialize<'a>>(&self, name: &'static str) -> Result<Option<T>, ApiError> {
        let Some((_, value)) = self.0.iter().find(|(own, _)| own == name) else { return Ok(None) };
        let refused =
            |error| ApiError::invalid(Some(name), format!("the field {name:?} is wrong: {error}"));
        serde_json::from_str(value.get()).map(Some).map_err(refused)
    }

    fn text(&self, name: &'static str) -> Result<String, ApiError> {
        let missing = || ApiError::invalid(Some(name), format!("the field {name:?} is missing"));
        let value: Value = self.read(name)?.ok_or_else(missing)?;
        let mut text = String::new();
        collect_text(&value, &mut text);
        Ok(text)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    fields.push((name, value));
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Read).map(Self)
    }
}

/// A name borrows from the body unless it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Texts of messages, of parts of messages, and of prompts, one paragraph each. Roles, names, images
/// and token numbers are left out.
fn collect_text(value: &Value, text: &mut String) {
    match value {
        Value::String(part) => {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(part);
        }
        Value::Array(parts) => parts.iter().for_each(|part| collect_text(part, text)),
        Value::Object(fields) => {
            for name in ["content", "text"] {
                if let Some(part) = fields.get(name) {
                    collect_text(part, text);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<ApiRequest, ApiError> {
        ApiRequest::parse(Endpoint::Chat, Bytes::from(body.to_owned()))
    }

    fn plain(model: &str) -> Changes<'_> {
        Changes { model, priority: Priority::None, rank: 0 }
    }

    #[test]
    fn the_text_of_all_rounds_is_read() {
        let request = parse(
            r#"{"model":"m","max_tokens":9,"n":2,"user":"u","messages":[
                {"role":"user","content":"Hello"},
                {"role":"assistant","content":null},
                {"role":"user","content":[{"type":"text","text":"twice"},{"type":"image_url","image_url":{"url":"x"}}]}]}"#,
        );
        let request = request.unwrap();
        assert_eq!(request.prompt, "Hello\n\ntwice");
        assert_eq!((request.max_tokens, request.session.as_deref()), (Some(9.0), Some("u")));
        assert_eq!((request.answers, request.stream), (2, false));
    }

    #[test]
    fn fields_that_are_not_changed_keep_their_digits() {
        let body = r#"{"model":"a","messages":[],"seed":123456789012345678901234567890,"x":1.0e0}"#;
        let request = parse(body).unwrap();
        assert_eq!(request.body_for(plain("a")), body);
        let changed = request.body_for(plain("b"));
        let expected =
            r#"{"messages":[],"seed":123456789012345678901234567890,"x":1.0e0,"model":"b"}"#;
        assert_eq!(changed, expected);
    }

    #[test]
    fn a_stream_asks_for_usage_and_keeps_its_other_options() {
        let body = r#"{"model":"a","messages":[],"stream":true,"stream_options":{"x":1}}"#;
        let changed = parse(body).unwrap().body_for(plain("a"));
        let changed: Value = serde_json::from_slice(&changed).unwrap();
        assert_eq!(changed["stream_options"], json!({"x": 1, "include_usage": true}));
    }

    #[test]
    fn the_priority_is_set_the_way_each_server_takes_it() {
        let request =
            parse(r#"{"model":"a","messages":[],"nvext":{"agent_hints":{"osl":3}}}"#).unwrap();
        let sent = |priority| {
            let body = request.body_for(Changes { priority, rank: 70, model: "a" });
            serde_json::from_slice::<Value>(&body).unwrap()
        };
        assert_eq!(sent(Priority::LowerFirst)["priority"], 70);
        let hints = &sent(Priority::HigherFirst)["nvext"]["agent_hints"];
        assert_eq!(*hints, json!({"osl": 3, "priority": -70}));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, expected) in [
            ("", "not the JSON object"),
            ("[]", "not the JSON object"),
            ("{\"model\":\"m\"", "not the JSON object"),
            (r#"{"messages":[]}"#, "name a model"),
            (r#"{"model":7,"messages":[]}"#, "\"model\" is wrong"),
            (r#"{"model":"m"}"#, "\"messages\" is missing"),
            (r#"{"model":"m","messages":[],"stream":"yes"}"#, "\"stream\" is wrong"),
            (r#"{"model":"m","messages":[],"mod\u0065l":"n"}"#, "\"model\" appears twice"),
        ] {
            let error = parse(body).unwrap_err();
            assert_eq!(error.status, 400, "{body}");
            assert!(error.message.contains(expected), "{body}: {}", error.message);
        }
        let deep =
            format!("{{\"model\":\"m\",\"messages\":{}1{}}}", "[".repeat(9999), "]".repeat(9999));
        assert_eq!(parse(&deep).unwrap_err().status, 400);
    }
}
