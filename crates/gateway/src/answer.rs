//! Answers of upstreams on their way to clients, and what is learnt from them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Bytes, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use crate::admission::Admitted;
use crate::api_error::ApiError;
use crate::gateway::Gateway;
use crate::metrics::{KeyLabel, ModelLabel, TokenLabel};
use crate::prediction::Expected;
use crate::proxy::json_response;
use crate::request::Endpoint;
use crate::scheduler::Slot;
use crate::spans::ChildSpan;
use crate::sse::{AnswerEvents, Chunk, Usage};
use crate::upstream::UpstreamBody;

/// The body of a response to a client.
pub enum Body {
    /// All of it is known.
    Whole(Bytes),
    /// Events as they come.
    Stream(Box<AnswerStream>),
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(stream) => {
                stream.poll_events(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// A request that an upstream answers.
pub(crate) struct InFlight {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) slot: Slot,
    pub(crate) admitted: Admitted,
    pub(crate) endpoint: Endpoint,
    pub(crate) answers: u64,
    pub(crate) label: ModelLabel,
    /// Gone once the length is known.
    pub(crate) expected: Option<Expected>,
    pub(crate) arrived: Instant,
    pub(crate) span: ChildSpan,
}

impl InFlight {
    fn first_token(&self) {
        let seconds = self.arrived.elapsed().as_secs_f64();
        self.gateway.metrics.first_token.get_or_create(&self.label).observe(seconds);
        self.span.set_both("homeostat.time_to_first_token", seconds);
    }

    /// Counts tokens against limits; a cancelled request has used them, too.
    fn spend(&self, usage: Usage) {
        let Usage { prompt_tokens, completion_tokens } = usage;
        let all = prompt_tokens.saturating_add(completion_tokens);
        self.admitted.spend(all);
        self.span.set_both("gen_ai.usage.input_tokens", prompt_tokens);
        self.span.set_both("gen_ai.usage.output_tokens", completion_tokens);
        let metrics = &self.gateway.metrics;
        for (kind, tokens) in [("prompt", prompt_tokens), ("completion", completion_tokens)] {
            let label = TokenLabel { model: self.label.model.clone(), kind };
            metrics.tokens.get_or_create(&label).inc_by(tokens);
        }
        let key = self.admitted.key_name();
        if !key.is_empty() {
            metrics.key_tokens.get_or_create(&KeyLabel { key: key.to_owned() }).inc_by(all);
        }
    }

    /// Learns the length of a finished answer, or of the mean of several.
    fn learn(&mut self, tokens: u64, is_cut: bool) {
        let is_text = self.endpoint != Endpoint::Embeddings;
        let tokens = tokens / self.answers;
        if let Some(expected) = self.expected.take().filter(|_| is_text && tokens > 0) {
            let ratio = tokens as f64 / expected.tokens;
            self.gateway.metrics.length_ratio.get_or_create(&self.label).observe(ratio);
            let lengths = &self.gateway.lengths;
            if lengths.record(expected, &self.label.model, tokens, is_cut) {
                self.gateway.metrics.drifts.get_or_create(&self.label).inc();
            }
        }
    }
}

/// The response with an answer that came as a whole.
pub(crate) fn whole(body: Bytes, mut in_flight: InFlight) -> Response<Body> {
    in_flight.first_token();
    // An answer that is no JSON goes on as it came: only its length stays unknown.
    let answer: Chunk = serde_json::from_slice(&body).unwrap_or_default();
    if let Some(usage) = answer.usage {
        in_flight.spend(usage);
        let cut = |choice: &crate::sse::Choice| choice.finish_reason.as_deref() == Some("length");
        let is_cut = answer.choices.iter().any(cut);
        in_flight.learn(usage.completion_tokens, is_cut);
    }
    in_flight.span.end();
    json_response(StatusCode::OK, body)
}

/// A stream of which the first event has come.
pub struct AnswerStream {
    incoming: UpstreamBody,
    events: AnswerEvents,
    in_flight: InFlight,
    between_tokens: Duration,
    silence: Pin<Box<Sleep>>,
    first_event: Instant,
    is_ended: bool,
}

/// A stream that failed before its first event.
pub(crate) struct Streamed {
    /// None: it was too late.
    pub(crate) reason: Option<String>,
    pub(crate) in_flight: InFlight,
}

/// What a stream of events must keep to.
pub(crate) struct StreamLimits {
    /// Bytes of one event.
    pub(crate) max_event: usize,
    /// When the first event must be there.
    pub(crate) first_event: Instant,
    /// Between one event and the next.
    pub(crate) between_tokens: Duration,
}

/// Waits for the first event: until then the request can be sent elsewhere.
pub(crate) async fn stream(
    mut incoming: UpstreamBody,
    in_flight: InFlight,
    keeps_usage: bool,
    limits: StreamLimits,
) -> Result<AnswerStream, Streamed> {
    let StreamLimits { max_event, first_event, between_tokens } = limits;
    let mut events = AnswerEvents::new(max_event, keeps_usage);
    while !events.has_ready() {
        let Ok(frame) = timeout_at(first_event, incoming.frame()).await else {
            return Err(Streamed { reason: None, in_flight });
        };
        let reason = match frame {
            Some(Ok(frame)) => match frame.into_data().map(|data| events.push(data)) {
                Ok(Err(_)) => {
                    format!("sent an event of more than {max_event} bytes, the limit here")
                }
                _ => continue,
            },
            Some(Err(error)) => error.to_string(),
            None => "ended its stream before the first event".to_owned(),
        };
        return Err(Streamed { reason: Some(reason), in_flight });
    }
    in_flight.first_token();
    let first_event = Instant::now();
    let silence = Box::pin(sleep_until(first_event + between_tokens));
    Ok(AnswerStream {
        incoming,
        events,
        in_flight,
        between_tokens,
        silence,
        first_event,
        is_ended: false,
    })
}

impl AnswerStream {
    /// As the answer to the request.
    pub(crate) fn response(self) -> Response<Body> {
        let mut response = Response::new(Body::Stream(Box::new(self)));
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream; charset=utf-8"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Keeps nginx from holding events back.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(bytes) = self.events.pop() {
                return Poll::Ready(Some(bytes));
            }
            if self.is_ended {
                return Poll::Ready(None);
            }
            let frame = match Pin::new(&mut self.incoming).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    if self.silence.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    let seconds = self.between_tokens.as_secs_f64();
                    return self.end(Some(format!("sent nothing for {seconds} s")));
                }
            };
            match frame {
                Some(Ok(frame)) => {
                    self.silence.as_mut().reset(Instant::now() + self.between_tokens);
                    if let Ok(Err(_)) = frame.into_data().map(|data| self.events.push(data)) {
                        return self
                            .end(Some("sent an event longer than the limit here".to_owned()));
                    }
                }
                Some(Err(error)) => {
                    return self.end(Some(error.to_string()));
                }
                None => return self.end(None),
            }
        }
    }

    /// The last event of a stream that is not complete says so.
    fn end(&mut self, failure: Option<String>) -> Poll<Option<Bytes>> {
        self.is_ended = true;
        let is_complete = self.events.is_done && !self.events.is_inside_event();
        self.finish();
        if is_complete {
            self.in_flight.span.end();
            return Poll::Ready(None);
        }
        self.in_flight.span.fail_both("upstream_failed");
        let reason =
            failure.unwrap_or_else(|| "ended its stream before it was complete".to_owned());
        let upstream = self.in_flight.slot.upstream();
        upstream.failed();
        let name = &upstream.settings.name;
        tracing::warn!(upstream = name, "an upstream failed a stream: {reason}");
        let message = format!("the upstream {name} {reason}");
        let error = ApiError::new(StatusCode::BAD_GATEWAY, "upstream_failed", message);
        Poll::Ready(Some(error.event()))
    }

    fn finish(&mut self) {
        let events = &self.events;
        let counted = Usage { prompt_tokens: 0, completion_tokens: events.parts };
        let usage = events.usage.unwrap_or(counted);
        self.in_flight.spend(usage);
        let tokens = usage.completion_tokens;
        if events.is_done {
            if tokens > 1 {
                let seconds = self.first_event.elapsed().as_secs_f64() / (tokens - 1) as f64;
                let metrics = &self.in_flight.gateway.metrics;
                metrics.per_token.get_or_create(&self.in_flight.label).observe(seconds);
            }
            let is_cut = events.is_cut;
            self.in_flight.learn(tokens, is_cut);
        }
    }
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        if !self.is_ended {
            // Clients close when they have read the last event, before the upstream does.
            if self.events.is_done {
                self.in_flight.span.end();
            } else {
                self.in_flight.gateway.metrics.cancelled.inc();
                self.in_flight.span.fail_both("cancelled");
            }
            self.finish();
        }
    }
}
