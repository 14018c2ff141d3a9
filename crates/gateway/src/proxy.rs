//! The way of one request: key, limits, queue, upstream, answer.

use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use serde_json::json;
use tokio::time::{Instant, timeout, timeout_at};

use crate::admission::Admitted;
use crate::answer::{Body, InFlight, StreamLimits, Streamed, stream, whole};
use crate::api_error::ApiError;
use crate::gateway::Gateway;
use crate::metrics::{Answered, ModelLabel, UpstreamLabel};
use crate::request::{ApiRequest, Changes, Endpoint};
use crate::scheduler::{Refused, Wanted};
use crate::settings::Settings;
use crate::spans::request::SpanKind;
use crate::spans::{ChildSpan, RequestTrace};
use crate::upstream::{Upstream, UpstreamBody, causes};

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");

/// An error that an upstream explains is no longer than this.
const MAX_ERROR_BYTES: usize = 1024 * 1024;

/// Answers a request of a client; every request gets an answer.
pub async fn handle(gateway: Arc<Gateway>, request: Request<Incoming>) -> Response<Body> {
    let endpoint = match request.uri().path().strip_prefix("/v1") {
        Some("/chat/completions") => "chat",
        Some("/completions") => "completions",
        Some("/embeddings") => "embeddings",
        Some(path) if path == "/models" || path.starts_with("/models/") => "models",
        _ => "other",
    };
    let settings = gateway.settings();
    let trace = begin_trace(&gateway, &settings, &request, endpoint);
    let given = request.headers().get(&REQUEST_ID).filter(|id| id.len() <= 128);
    let id = given.cloned().unwrap_or_else(|| {
        HeaderValue::from_str(&gateway.next_request_id()).expect("hexadecimal digits")
    });
    let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    let cancelled = CountIfDropped(Some((&gateway, trace.clone())));
    let answer = answer(&gateway, settings, request, &id, &trace).await;
    cancelled.disarm();
    let (mut response, code) = match answer {
        Ok(response) => (response, ""),
        Err(Failed::Here(error)) => {
            tracing::debug!(
                endpoint,
                status = error.status.as_u16(),
                code = error.code,
                "{}",
                error.message
            );
            (error.response(), error.code)
        }
        Err(Failed::Upstream(response)) => (response, "upstream_error"),
    };
    let label = Answered { endpoint, status: response.status().as_u16(), code };
    gateway.metrics.requests.get_or_create(&label).inc();
    trace.set("http.response.status_code", u64::from(label.status));
    match label.status {
        ..400 => {}
        // An error of the client is none of the gateway.
        400..500 => trace.set("error.type", code),
        _ => trace.fail(code),
    }
    response.headers_mut().insert(REQUEST_ID.clone(), id);
    if is_chunked {
        // A proxy before this one may have seen another end of this request. Whatever follows it is not read.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn begin_trace(
    gateway: &Gateway,
    settings: &Settings,
    request: &Request<Incoming>,
    endpoint: &str,
) -> RequestTrace {
    let (path, method) = (request.uri().path(), request.method());
    // Names are few, whatever clients ask for.
    let method = match method {
        &Method::GET | &Method::POST => method.as_str(),
        _ => "HTTP",
    };
    let route = match endpoint {
        "models" => "/v1/models",
        "other" => "",
        _ => path,
    };
    let begin = || format!("{method} {route}").trim_end().to_owned();
    let trace = RequestTrace::begin(&gateway.spans, &settings.spans, request.headers(), begin);
    trace.set("http.request.method", method);
    if !route.is_empty() {
        trace.set("http.route", route);
    }
    trace
}

/// A future that is dropped belongs to a client that has gone.
struct CountIfDropped<'a>(Option<(&'a Gateway, RequestTrace)>);

impl CountIfDropped<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CountIfDropped<'_> {
    fn drop(&mut self) {
        if let Some((gateway, trace)) = &self.0 {
            gateway.metrics.cancelled.inc();
            trace.fail("cancelled");
        }
    }
}

/// A request that gets no answer of a model.
pub(crate) enum Failed {
    /// The gateway says why.
    Here(ApiError),
    /// The upstream says why.
    Upstream(Response<Body>),
}

impl From<ApiError> for Failed {
    fn from(error: ApiError) -> Self {
        Self::Here(error)
    }
}

async fn answer(
    gateway: &Arc<Gateway>,
    settings: Arc<Settings>,
    request: Request<Incoming>,
    id: &HeaderValue,
    trace: &RequestTrace,
) -> Result<Response<Body>, Failed> {
    let path = request.uri().path().to_owned();
    let endpoint = match (request.method(), path.as_str()) {
        (&Method::POST, "/v1/chat/completions") => Endpoint::Chat,
        (&Method::POST, "/v1/completions") => Endpoint::Completions,
        (&Method::POST, "/v1/embeddings") => Endpoint::Embeddings,
        (&Method::GET, path) if path == "/v1/models" || path.starts_with("/v1/models/") => {
            gateway.admission.check_key(authorization(request.headers())?)?;
            return Ok(models(gateway, path.strip_prefix("/v1/models/"))?);
        }
        (_, "/v1/chat/completions" | "/v1/completions" | "/v1/embeddings" | "/v1/models") => {
            let message = format!("{path} does not take {}", request.method());
            let status = StatusCode::METHOD_NOT_ALLOWED;
            return Err(ApiError::new(status, "method_not_allowed", message).into());
        }
        _ => {
            let message = "this path does not exist: POST /v1/chat/completions, /v1/completions or \
                           /v1/embeddings, GET /v1/models";
            return Err(ApiError::new(StatusCode::NOT_FOUND, "unknown_url", message).into());
        }
    };
    let now = gateway.now();
    let admitted = gateway.admission.admit(authorization(request.headers())?, now)?;
    let (head, body) = request.into_parts();
    let body = read_body(body, &head.headers, &settings).await?;
    let api_request = ApiRequest::parse(endpoint, body)?;
    trace.set("gen_ai.operation.name", endpoint.operation());
    trace.set("gen_ai.request.model", api_request.model.as_str());
    if let Some(limit) = api_request.max_tokens {
        trace.set("gen_ai.request.max_tokens", limit as u64);
    }
    if !admitted.key_name().is_empty() {
        trace.set("homeostat.key", admitted.key_name());
    }
    if !admitted.may_use(&api_request.model) {
        let message = format!("the key {} may not use this model", admitted.key_name());
        let error = ApiError::new(StatusCode::FORBIDDEN, "model_not_allowed", message);
        return Err(ApiError { param: Some("model"), ..error }.into());
    }
    let mut headers = HeaderMap::new();
    headers.insert(REQUEST_ID.clone(), id.clone());
    trace.pass_on(&head.headers, &mut headers);
    let session = head.headers.get(&SESSION_ID).map(HeaderValue::as_bytes);
    let session = session.or(api_request.session.as_ref().map(String::as_bytes)).map(|session| {
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(session);
        hasher.finish()
    });
    let arrived = Instant::now();
    let way = Way {
        gateway,
        settings: &settings,
        request: &api_request,
        headers,
        session,
        arrived,
        trace,
    };
    way.through(now.monotonic, admitted).await
}

/// With two of them, a proxy before this one may have checked the other.
fn authorization(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let value = given.next().and_then(|value| value.to_str().ok());
    match given.next() {
        None => Ok(value),
        Some(_) => Err(ApiError::invalid(None, "the header authorization appears twice")),
    }
}

fn models(gateway: &Gateway, wanted: Option<&str>) -> Result<Response<Body>, ApiError> {
    let mut names = gateway.scheduler.models();
    names.extend(gateway.settings().aliases.keys().cloned());
    let entry = |name: &str| json!({ "id": name, "object": "model", "created": 0, "owned_by": "homeostat" });
    let answer = match wanted {
        None => {
            json!({ "object": "list", "data": names.iter().map(|name| entry(name)).collect::<Vec<_>>() })
        }
        Some(name) if names.contains(name) => entry(name),
        Some(name) => return Err(ApiError::unknown_model(name)),
    };
    Ok(json_response(StatusCode::OK, Bytes::from(answer.to_string())))
}

pub(crate) fn json_response(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

async fn read_body(
    body: Incoming,
    headers: &HeaderMap,
    settings: &Settings,
) -> Result<Bytes, ApiError> {
    let limit = settings.limits.max_request_bytes;
    let too_large = || {
        let message = format!("the request is longer than {limit} bytes, the limit here");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
    };
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if length
        .and_then(|length| length.parse::<u64>().ok())
        .is_some_and(|length| length > limit as u64)
    {
        return Err(too_large());
    }
    match timeout(settings.timeouts.request, Limited::new(body, limit).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => {
            Err(ApiError::invalid(None, format!("the body broke off: {}", causes(&*error))))
        }
        Err(_) => {
            let seconds = settings.timeouts.request.as_secs_f64();
            let message = format!("the request did not arrive within {seconds} s");
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message))
        }
    }
}

/// One request on its way.
struct Way<'a> {
    gateway: &'a Arc<Gateway>,
    settings: &'a Settings,
    request: &'a ApiRequest,
    headers: HeaderMap,
    session: Option<u64>,
    arrived: Instant,
    trace: &'a RequestTrace,
}

/// An attempt that failed.
struct Attempt {
    failed: Failed,
    /// Whether another upstream may succeed, with nothing sent to the client so far.
    is_retriable: bool,
}

impl Way<'_> {
    async fn through(
        self,
        arrival: homeostat_core::SimTime,
        admitted: Admitted,
    ) -> Result<Response<Body>, Failed> {
        let scheduler = &self.gateway.scheduler;
        let own = [self.request.model.clone()];
        let candidates =
            self.settings.aliases.get(&self.request.model).map_or(&own[..], Vec::as_slice);
        let deadline = Instant::now() + self.settings.timeouts.queue;
        let mut tried = Vec::new();
        let mut admitted = admitted;
        loop {
            let served = candidates.iter().find(|model| scheduler.is_served(model));
            let model = served.unwrap_or(&candidates[0]).as_str();
            let expected = match self.request.endpoint {
                // It has no length that could be predicted, and its queue is in order of arrival.
                Endpoint::Embeddings => self.gateway.lengths.expect("", model, Some(1.0)),
                _ => self.gateway.lengths.expect(
                    &self.request.prompt,
                    model,
                    self.request.max_tokens,
                ),
            };
            let wanted = Wanted {
                model,
                arrival,
                expected_tokens: expected.tokens,
                session: self.session,
                tried: &tried,
            };
            self.trace.set("homeostat.predicted_output_tokens", expected.tokens);
            let queue_span = self.trace.child(SpanKind::Internal, || "queue".to_owned());
            queue_span.set("gen_ai.request.model", model);
            let before = Instant::now();
            let in_queue = scheduler.enqueue(&wanted).map_err(|why| {
                let error = self.refused(why);
                queue_span.fail(error.code);
                error
            })?;
            let slot = timeout_at(deadline, in_queue.slot()).await.map_err(|_| {
                queue_span.fail("queue_timeout");
                let seconds = self.settings.timeouts.queue.as_secs_f64();
                let message = format!("no upstream was free within {seconds} s");
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "queue_timeout", message)
                    .retry_after(self.gateway.retry_after())
            })?;
            queue_span.end();
            let waited = before.elapsed().as_secs_f64();
            self.gateway.waited(waited);
            let label = ModelLabel { model: model.to_owned() };
            self.gateway.metrics.queued.get_or_create(&label).observe(waited);
            let upstream = slot.upstream().clone();
            let rank = self.settings.order.rank(arrival, expected.tokens);
            let in_flight = InFlight {
                gateway: self.gateway.clone(),
                slot,
                admitted,
                endpoint: self.request.endpoint,
                answers: self.request.answers,
                label,
                expected: Some(expected),
                arrived: self.arrived,
                span: self.attempt_span(&upstream, model),
            };
            match self.attempt(in_flight, rank).await {
                Ok(response) => return Ok(response),
                Err((Attempt { is_retriable: true, .. }, back))
                    if tried.len() < self.settings.max_retries as usize =>
                {
                    let label = UpstreamLabel { upstream: upstream.settings.name.clone() };
                    self.gateway.metrics.retries.get_or_create(&label).inc();
                    tried.push(upstream.settings.name.clone());
                    self.trace.set("homeostat.retries", tried.len() as u64);
                    admitted = back;
                    // With one upstream alone, a restart takes a moment.
                    if scheduler.upstreams().len() == 1 {
                        tokio::time::sleep(Duration::from_millis(100 << tried.len().min(6))).await;
                    }
                }
                Err((attempt, _)) => return Err(attempt.failed),
            }
        }
    }

    fn refused(&self, why: Refused) -> ApiError {
        match why {
            Refused::UnknownModel => ApiError::unknown_model(&self.request.model),
            Refused::NoneHealthy => {
                let message = "no upstream with this model is healthy";
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "no_healthy_upstream", message)
                    .retry_after(self.settings.health.interval)
            }
            Refused::Full => {
                let message = format!(
                    "{} requests wait for this model already, the limit here",
                    self.settings.max_waiting
                );
                ApiError::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", message)
                    .retry_after(self.gateway.retry_after())
            }
        }
    }

    fn attempt_span(&self, upstream: &Upstream, model: &str) -> ChildSpan {
        let operation = self.request.endpoint.operation();
        let span = self.trace.child(SpanKind::Client, || format!("{operation} {model}"));
        span.set("gen_ai.operation.name", operation);
        // What it speaks; which server it is, the gateway does not know.
        span.set("gen_ai.provider.name", "openai");
        span.set("gen_ai.request.model", model);
        span.set("homeostat.upstream", upstream.settings.name.as_str());
        span.set("server.address", upstream.settings.url.host().unwrap_or_default());
        if let Some(port) = upstream.settings.url.port_u16() {
            span.set("server.port", u64::from(port));
        }
        span
    }

    /// Sends the request to the upstream of its slot. What is still needed after a failure comes back.
    async fn attempt(
        &self,
        in_flight: InFlight,
        rank: f64,
    ) -> Result<Response<Body>, (Attempt, Admitted)> {
        let upstream = in_flight.slot.upstream().clone();
        let deadline = Instant::now() + self.settings.timeouts.first_token;
        let changes = Changes {
            model: &in_flight.label.model,
            priority: upstream.settings.priority,
            // Hundredths of a second: servers take whole numbers.
            rank: (rank * 100.0).min(f64::from(i32::MAX)) as i64,
        };
        let body = self.request.body_for(changes);
        let mut headers = self.headers.clone();
        in_flight.span.pass_on(&mut headers);
        let sent = upstream.send(self.request.endpoint.path(), headers, body);
        let response = match timeout_at(deadline, sent).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                return Err(self.failed(&upstream, in_flight, error.to_string(), true));
            }
            Err(_) => return Err(self.timed_out(&upstream, in_flight)),
        };
        if !response.status().is_success() {
            return Err(self.not_ok(&upstream, in_flight, response).await);
        }
        let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        if self.request.stream && kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) {
            let limits = StreamLimits {
                max_event: self.settings.limits.max_event_bytes,
                first_event: deadline,
                between_tokens: self.settings.timeouts.between_tokens,
            };
            let stream = stream(response.into_body(), in_flight, self.request.wants_usage, limits);
            return match stream.await {
                Ok(stream) => {
                    upstream.succeeded();
                    Ok(stream.response())
                }
                Err(Streamed { reason: Some(reason), in_flight }) => {
                    Err(self.failed(&upstream, in_flight, reason, true))
                }
                Err(Streamed { reason: None, in_flight }) => {
                    Err(self.timed_out(&upstream, in_flight))
                }
            };
        }
        let limit = self.settings.limits.max_answer_bytes;
        let collected = Limited::new(response.into_body(), limit).collect();
        match timeout_at(deadline, collected).await {
            Ok(Ok(body)) => {
                upstream.succeeded();
                Ok(whole(body.to_bytes(), in_flight))
            }
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let reason = format!("sent more than {limit} bytes, the limit here");
                Err(self.failed(&upstream, in_flight, reason, false))
            }
            Ok(Err(error)) => Err(self.failed(&upstream, in_flight, error.to_string(), true)),
            Err(_) => Err(self.timed_out(&upstream, in_flight)),
        }
    }

    fn failed(
        &self,
        upstream: &Upstream,
        in_flight: InFlight,
        reason: String,
        is_retriable: bool,
    ) -> (Attempt, Admitted) {
        self.count_failure(upstream, &reason);
        in_flight.span.fail("upstream_failed");
        let message = format!("the upstream {} {reason}", upstream.settings.name);
        let failed = ApiError::new(StatusCode::BAD_GATEWAY, "upstream_failed", message).into();
        (Attempt { failed, is_retriable }, in_flight.admitted)
    }

    fn timed_out(&self, upstream: &Upstream, in_flight: InFlight) -> (Attempt, Admitted) {
        let seconds = self.settings.timeouts.first_token.as_secs_f64();
        let reason = format!("did not answer within {seconds} s");
        self.count_failure(upstream, &reason);
        in_flight.span.fail("upstream_timeout");
        let message = format!("the upstream {} {reason}", upstream.settings.name);
        let error = ApiError::new(StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", message);
        (Attempt { failed: error.into(), is_retriable: false }, in_flight.admitted)
    }

    fn count_failure(&self, upstream: &Upstream, reason: &str) {
        let name = &upstream.settings.name;
        tracing::warn!(upstream = name, "an upstream failed a request: {reason}");
        if upstream.failed() == self.settings.health.failures {
            tracing::warn!(upstream = name, "it gets no requests until a health check succeeds");
            self.gateway.scheduler.set_health(upstream, false, None);
        }
    }

    async fn not_ok(
        &self,
        upstream: &Upstream,
        in_flight: InFlight,
        response: Response<UpstreamBody>,
    ) -> (Attempt, Admitted) {
        let status = response.status();
        in_flight.span.set("http.response.status_code", u64::from(status.as_u16()));
        in_flight.span.fail(status.as_str());
        let retry_after = response.headers().get(header::RETRY_AFTER).cloned();
        let body = Limited::new(response.into_body(), MAX_ERROR_BYTES).collect();
        let body = match timeout(self.settings.timeouts.between_tokens, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            _ => Bytes::new(),
        };
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let reason =
                    format!("refuses the gateway's own key with {status}: set api_key_file");
                return self.failed(upstream, in_flight, reason, true);
            }
            status if status.is_server_error() => {
                self.count_failure(upstream, &format!("answered {status}"));
            }
            _ => upstream.succeeded(),
        }
        let is_retriable = matches!(status.as_u16(), 429 | 502 | 503 | 504);
        let mut response = json_response(as_error(status), error_body(status, body));
        if let Some(wait) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, wait);
        }
        (Attempt { failed: Failed::Upstream(response), is_retriable }, in_flight.admitted)
    }
}

/// A redirect or the like is no answer that a client could use.
fn as_error(status: StatusCode) -> StatusCode {
    let is_error = status.is_client_error() || status.is_server_error();
    if is_error { status } else { StatusCode::BAD_GATEWAY }
}

/// The error of an upstream in the form of OpenAI's.
fn error_body(status: StatusCode, body: Bytes) -> Bytes {
    let parsed: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    if parsed.as_ref().is_some_and(|value| value["error"].is_object()) {
        return body;
    }
    let said = parsed.as_ref().and_then(|value| {
        ["message", "detail", "error"].into_iter().find_map(|name| value[name].as_str())
    });
    let text = String::from_utf8_lossy(&body);
    let shown: String = said.unwrap_or(text.trim()).chars().take(1000).collect();
    ApiError::new(
        as_error(status),
        "upstream_error",
        format!("the upstream answered {status}: {shown}"),
    )
    .body()
}
