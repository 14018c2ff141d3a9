//! Errors as OpenAI's API has them: a status and `{"error": {message, type, param, code}}`.

use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header};
use hyper::body::Bytes;
use serde_json::json;

/// An answer that says what went wrong, and for some when to come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// What a program can match on.
    pub code: &'static str,
    /// What a person reads.
    pub message: String,
    /// The field of the request at fault.
    pub param: Option<&'static str>,
    /// When the same request may succeed.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// An error without a field and without a time to come back.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), param: None, retry_after: None }
    }

    /// A request that is wrong by itself.
    pub fn invalid(param: Option<&'static str>, message: impl Into<String>) -> Self {
        Self { param, ..Self::new(StatusCode::BAD_REQUEST, "invalid_request", message) }
    }

    /// A model that no upstream has.
    pub fn unknown_model(model: &str) -> Self {
        let shown: String = model.chars().take(100).collect();
        let message =
            format!("the model {shown:?} does not exist here; GET /v1/models lists those that do");
        Self {
            param: Some("model"),
            ..Self::new(StatusCode::NOT_FOUND, "model_not_found", message)
        }
    }

    /// When to come back.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS if self.code == "insufficient_quota" => {
                "insufficient_quota"
            }
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_client_error() => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// The body, as JSON.
    pub fn body(&self) -> Bytes {
        let body = json!({ "error": {
            "message": self.message, "type": self.kind(), "param": self.param, "code": self.code,
        }});
        Bytes::from(body.to_string())
    }

    /// As the last event of a stream that has begun.
    pub fn event(&self) -> Bytes {
        let mut event = b"data: ".to_vec();
        event.extend_from_slice(&self.body());
        event.extend_from_slice(b"\n\n");
        Bytes::from(event)
    }

    /// As the answer to a request.
    pub fn response<B: From<Bytes>>(&self) -> Response<B> {
        let mut response = Response::new(B::from(self.body()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(wait) = self.retry_after {
            // Whole seconds, rounded up: a client that comes back too early is refused again.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
