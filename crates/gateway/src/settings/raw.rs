//! Settings as they are written, and their checks.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use homeostat_muserve::cache::{SemanticCache, SemanticCacheConfig};
use homeostat_muserve::schedule::QueueOrder;
use http::Uri;
use serde::Deserialize;

use crate::prediction::read_encoder;

use super::{
    Encoder, Error, Health, Key, Limits, Listen, Prediction, Priority, Settings, SpanSettings,
    Timeouts, Upstream,
};

/// Which keys there are; all may be left out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it only finds unknown keys")]
pub(super) struct Overrides {
    allow_anonymous: Option<bool>,
    budget_file: Option<PathBuf>,
    listen: Option<toml::Table>,
    queue: Option<toml::Table>,
    prediction: Option<toml::Table>,
    limits: Option<toml::Table>,
    timeouts: Option<toml::Table>,
    retries: Option<toml::Table>,
    health: Option<toml::Table>,
    spans: Option<toml::Table>,
    upstreams: Option<Vec<RawUpstream>>,
    models: Option<Vec<RawAlias>>,
    keys: Option<Vec<RawKey>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    allow_anonymous: bool,
    budget_file: Option<PathBuf>,
    listen: RawListen,
    queue: RawQueue,
    prediction: RawPrediction,
    limits: Limits,
    timeouts: RawTimeouts,
    retries: RawRetries,
    health: RawHealth,
    spans: RawSpans,
    #[serde(default)]
    upstreams: Vec<RawUpstream>,
    #[serde(default)]
    models: Vec<RawAlias>,
    #[serde(default)]
    keys: Vec<RawKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawListen {
    address: SocketAddr,
    admin: SocketAddr,
    max_connections: usize,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawQueue {
    order: RawOrder,
    head_start_s: f64,
    max_waiting: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawOrder {
    Aged,
    ShortestFirst,
    Fcfs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrediction {
    train_every: usize,
    window: usize,
    encoder: Option<PathBuf>,
    semantic_cache: bool,
    cache_similarity: f32,
    cache_entries: usize,
}

impl RawPrediction {
    fn check(self) -> Result<Prediction, Error> {
        let Self { train_every, window, semantic_cache, .. } = self;
        let config =
            SemanticCacheConfig { threshold: self.cache_similarity, capacity: self.cache_entries };
        // The width does not matter for whether it can be made.
        SemanticCache::new(config, 1).map_err(|error| {
            let value = format!("{} and {}", self.cache_similarity, self.cache_entries);
            refused("prediction.cache_similarity and cache_entries", value, &error.to_string())
        })?;
        let encoder = self.encoder.map(|directory| {
            // Its faults show where settings are checked, not with the first request.
            read_encoder(&directory).map_err(|error| {
                refused("prediction.encoder", directory.display(), &error.to_string())
            })?;
            Ok::<_, Error>(Encoder { directory, cache: semantic_cache.then_some(config) })
        });
        Ok(Prediction { train_every, window, encoder: encoder.transpose()? })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTimeouts {
    request_s: f64,
    connect_s: f64,
    queue_s: f64,
    first_token_s: f64,
    between_tokens_s: f64,
    client_s: f64,
    drain_s: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRetries {
    max: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHealth {
    interval_s: f64,
    timeout_s: f64,
    failures: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSpans {
    endpoint: Option<String>,
    sample_ratio: f64,
    max_waiting: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUpstream {
    name: String,
    url: String,
    #[serde(default = "default_parallel")]
    max_parallel: usize,
    models: Option<BTreeSet<String>>,
    #[serde(default)]
    priority: Priority,
    api_key_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
}

fn default_parallel() -> usize {
    32
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAlias {
    name: String,
    serve: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    name: String,
    sha256: String,
    models: Option<BTreeSet<String>>,
    max_parallel: Option<u64>,
    requests_per_minute: Option<u64>,
    tokens_per_minute: Option<u64>,
    tokens_per_day: Option<u64>,
}

impl Raw {
    pub(super) fn check(self) -> Result<Settings, Error> {
        let listen = self.listen.check()?;
        if self.keys.is_empty() && !listen.address.ip().is_loopback() && !self.allow_anonymous {
            let expected = "everybody could use the upstreams: add [[keys]], listen on loopback, \
                            or set allow_anonymous = true";
            return Err(refused("listen.address", listen.address, expected));
        }
        let (order, max_waiting) = self.queue.check()?;
        for (key, value) in [
            ("prediction.train_every", self.prediction.train_every),
            ("prediction.window", self.prediction.window),
            ("limits.max_request_bytes", self.limits.max_request_bytes),
            ("limits.max_answer_bytes", self.limits.max_answer_bytes),
            ("limits.max_event_bytes", self.limits.max_event_bytes),
            ("health.failures", self.health.failures as usize),
        ] {
            at_least_one(key, value)?;
        }
        if self.prediction.window > MAX_WINDOW {
            let expected =
                format!("training takes time that grows with its cube; use up to {MAX_WINDOW}");
            return Err(refused("prediction.window", self.prediction.window, &expected));
        }
        let upstreams: Vec<Upstream> =
            self.upstreams.into_iter().map(RawUpstream::check).collect::<Result<_, _>>()?;
        if upstreams.is_empty() {
            return Err(refused(
                "upstreams",
                "[]",
                "name at least one server, as default.toml shows",
            ));
        }
        unique("upstreams.name", upstreams.iter().map(|upstream| &upstream.name))?;
        unique("models.name", self.models.iter().map(|alias| &alias.name))?;
        if let Some(alias) = self.models.iter().find(|alias| alias.serve.is_empty()) {
            return Err(refused("models.serve", "[]", &format!("name a model for {}", alias.name)));
        }
        let keys: Vec<Key> = self.keys.into_iter().map(RawKey::check).collect::<Result<_, _>>()?;
        unique("keys.name", keys.iter().map(|key| &key.name))?;
        Ok(Settings {
            listen,
            budget_file: self.budget_file,
            order,
            max_waiting,
            prediction: self.prediction.check()?,
            limits: self.limits,
            timeouts: self.timeouts.check()?,
            max_retries: self.retries.max,
            health: Health {
                interval: time("health.interval_s", self.health.interval_s)?,
                timeout: time("health.timeout_s", self.health.timeout_s)?,
                failures: self.health.failures,
            },
            spans: self.spans.check()?,
            upstreams,
            aliases: self.models.into_iter().map(|alias| (alias.name, alias.serve)).collect(),
            keys,
        })
    }
}

/// A kernel of 2000 prompts is inverted in some seconds.
const MAX_WINDOW: usize = 2000;

impl RawListen {
    fn check(self) -> Result<Listen, Error> {
        at_least_one("listen.max_connections", self.max_connections)?;
        let tls = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(path), None) | (None, Some(path)) => {
                let expected = "TLS needs both listen.certificate and listen.key";
                return Err(refused("listen", path.display(), expected));
            }
        };
        let Self { address, admin, max_connections, .. } = self;
        Ok(Listen { address, admin, max_connections, tls })
    }
}

impl RawQueue {
    fn check(self) -> Result<(QueueOrder, usize), Error> {
        let order = match self.order {
            RawOrder::Fcfs => QueueOrder::Fcfs,
            RawOrder::ShortestFirst => QueueOrder::ShortestFirst,
            RawOrder::Aged => QueueOrder::aged(self.head_start_s).map_err(|_| {
                refused("queue.head_start_s", self.head_start_s, "use seconds, zero or more")
            })?,
        };
        at_least_one("queue.max_waiting", self.max_waiting)?;
        Ok((order, self.max_waiting))
    }
}

impl RawTimeouts {
    fn check(self) -> Result<Timeouts, Error> {
        Ok(Timeouts {
            request: time("timeouts.request_s", self.request_s)?,
            connect: time("timeouts.connect_s", self.connect_s)?,
            queue: time("timeouts.queue_s", self.queue_s)?,
            first_token: time("timeouts.first_token_s", self.first_token_s)?,
            between_tokens: time("timeouts.between_tokens_s", self.between_tokens_s)?,
            client: time("timeouts.client_s", self.client_s)?,
            drain: time("timeouts.drain_s", self.drain_s)?,
        })
    }
}

impl RawSpans {
    fn check(self) -> Result<SpanSettings, Error> {
        let expected = "use a URL such as http://127.0.0.1:4318/v1/traces";
        let endpoint = match self.endpoint {
            None => None,
            Some(url) => {
                let parsed = http_url(&url).filter(|url| url.path() != "/");
                Some(parsed.ok_or_else(|| refused("spans.endpoint", &url, expected))?)
            }
        };
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            let expected = "use a share of the traces, 0 to 1";
            return Err(refused("spans.sample_ratio", self.sample_ratio, expected));
        }
        at_least_one("spans.max_waiting", self.max_waiting)?;
        let Self { sample_ratio, max_waiting, .. } = self;
        Ok(SpanSettings { endpoint, sample_ratio, max_waiting })
    }
}

impl RawUpstream {
    fn check(self) -> Result<Upstream, Error> {
        at_least_one("upstreams.max_parallel", self.max_parallel)?;
        let expected = "use a URL such as http://127.0.0.1:8000/v1";
        let url = http_url(self.url.trim_end_matches('/'));
        let url = url.ok_or_else(|| refused("upstreams.url", &self.url, expected))?;
        let api_key = match &self.api_key_file {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|source| Error::File { path: path.clone(), source })?;
                let key = text.trim();
                if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                    let expected = "the file must hold one key of printable ASCII characters";
                    return Err(refused("upstreams.api_key_file", path.display(), expected));
                }
                Some(key.to_owned())
            }
        };
        let Self { name, max_parallel, models, priority, ca_file, .. } = self;
        Ok(Upstream { name, url, max_parallel, models, priority, api_key, ca_file })
    }
}

impl RawKey {
    fn check(self) -> Result<Key, Error> {
        let Self { name, models, max_parallel, requests_per_minute, .. } = self;
        let sha256 = parse_sha256(&self.sha256).ok_or_else(|| {
            let expected = "use 64 hexadecimal digits, as `homeostat gateway key` prints them";
            refused("keys.sha256", &self.sha256, expected)
        })?;
        let limits = [
            ("keys.max_parallel", max_parallel),
            ("keys.requests_per_minute", requests_per_minute),
            ("keys.tokens_per_minute", self.tokens_per_minute),
            ("keys.tokens_per_day", self.tokens_per_day),
        ];
        if let Some((key, _)) = limits.into_iter().find(|(_, limit)| *limit == Some(0)) {
            return Err(refused(key, 0, &format!("to lock {name} out, remove the key")));
        }
        Ok(Key {
            name,
            sha256,
            models,
            max_parallel,
            requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            tokens_per_day: self.tokens_per_day,
        })
    }
}

fn parse_sha256(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(bytes)
}

fn http_url(text: &str) -> Option<Uri> {
    text.parse::<Uri>().ok().filter(|url| {
        matches!(url.scheme_str(), Some("http" | "https"))
            && url.authority().is_some()
            && url.query().is_none()
    })
}

/// Up to a year: a timer beyond that is a slip.
fn time(key: &str, seconds: f64) -> Result<Duration, Error> {
    match seconds > 0.0 && seconds <= 365.0 * 86_400.0 {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(refused(key, seconds, "use seconds, more than zero and up to a year")),
    }
}

fn at_least_one(key: &str, value: usize) -> Result<(), Error> {
    if value == 0 { Err(refused(key, 0, "use at least 1")) } else { Ok(()) }
}

fn unique<'a>(key: &str, names: impl Iterator<Item = &'a String>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() || !seen.insert(name) {
            return Err(refused(key, format!("{name:?}"), "use a name that is not empty, once"));
        }
    }
    Ok(())
}

fn refused(key: &str, value: impl std::fmt::Display, expected: &str) -> Error {
    Error::Value { key: key.to_owned(), value: value.to_string(), expected: expected.to_owned() }
}
