//! Settings: one TOML file over the defaults of `default.toml`, checked before anything uses them.

mod raw;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use homeostat_muserve::cache::SemanticCacheConfig;
use homeostat_muserve::schedule::QueueOrder;
use http::Uri;
use serde::Deserialize;

use self::raw::{Overrides, Raw};

/// All settings with their defaults, commented.
pub const DEFAULT: &str = include_str!("default.toml");

/// What is wrong with settings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("read {path}: {source}")]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text is no TOML, or has an unknown key.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A value that cannot be used.
    #[error("{key} = {value}: {expected}")]
    Value {
        /// Its key.
        key: String,
        /// What was found.
        value: String,
        /// What is possible.
        expected: String,
    },
}

/// Checked settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Addresses, connections and certificate.
    pub listen: Listen,
    /// File of what keys have used today.
    pub budget_file: Option<PathBuf>,
    /// Order of waiting requests.
    pub order: QueueOrder,
    /// Requests that wait per model.
    pub max_waiting: usize,
    /// Finished requests between two trainings, and those that are learnt from.
    pub prediction: Prediction,
    /// Sizes.
    pub limits: Limits,
    /// Times.
    pub timeouts: Timeouts,
    /// Retries of a request.
    pub max_retries: u32,
    /// Health checks.
    pub health: Health,
    /// Spans of requests.
    pub spans: SpanSettings,
    /// Servers.
    pub upstreams: Vec<Upstream>,
    /// Names and fallbacks: each name with the served models in order of preference.
    pub aliases: BTreeMap<String, Vec<String>>,
    /// Keys of clients.
    pub keys: Vec<Key>,
}

/// Where clients connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// For requests.
    pub address: SocketAddr,
    /// For metrics and probes.
    pub admin: SocketAddr,
    /// Connections at once.
    pub max_connections: usize,
    /// Files of the certificate and its key.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// How lengths are learnt.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Finished requests between two trainings.
    pub train_every: usize,
    /// Latest finished requests that a training uses.
    pub window: usize,
    /// Reads prompts beside the features of words.
    pub encoder: Option<Encoder>,
}

/// A sentence encoder, and the semantic cache that it makes possible.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoder {
    /// With the files of the model.
    pub directory: PathBuf,
    /// Of the semantic cache, unless it is off.
    pub cache: Option<SemanticCacheConfig>,
}

/// Sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "default.toml explains each one")]
pub struct Limits {
    pub max_request_bytes: usize,
    pub max_answer_bytes: usize,
    pub max_event_bytes: usize,
}

/// Times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "default.toml explains each one")]
pub struct Timeouts {
    pub request: Duration,
    pub connect: Duration,
    pub queue: Duration,
    pub first_token: Duration,
    pub between_tokens: Duration,
    pub client: Duration,
    pub drain: Duration,
}

/// Health checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "default.toml explains each one")]
pub struct Health {
    pub interval: Duration,
    pub timeout: Duration,
    pub failures: u32,
}

/// Spans of requests, and where they go.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanSettings {
    /// An OTLP receiver; none: no spans.
    pub endpoint: Option<Uri>,
    /// Share of the traces that begin here.
    pub sample_ratio: f64,
    /// Spans that wait to be sent.
    pub max_waiting: usize,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Its name in logs and metrics.
    pub name: String,
    /// With the version of the API, without a slash at the end.
    pub url: Uri,
    /// Requests sent at once.
    pub max_parallel: usize,
    /// Models to offer; what it lists if absent.
    pub models: Option<BTreeSet<String>>,
    /// The priority that is sent along.
    pub priority: Priority,
    /// The key it wants.
    pub api_key: Option<String>,
    /// Who signed its certificate.
    pub ca_file: Option<PathBuf>,
}

/// How an upstream orders requests by the priority that they carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// It does not.
    #[default]
    None,
    /// Lowest first: vLLM and LiteLLM.
    LowerFirst,
    /// Highest first: Dynamo.
    HigherFirst,
}

/// A key of a client, by the hash of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Its name in logs and metrics.
    pub name: String,
    /// SHA-256 of the key.
    pub sha256: [u8; 32],
    /// Models it may use; all if absent.
    pub models: Option<BTreeSet<String>>,
    /// Requests at once.
    pub max_parallel: Option<u64>,
    /// Requests in any minute.
    pub requests_per_minute: Option<u64>,
    /// Tokens of prompts and answers in any minute.
    pub tokens_per_minute: Option<u64>,
    /// Tokens of prompts and answers in a day.
    pub tokens_per_day: Option<u64>,
}

impl Settings {
    /// Reads a file, over the defaults.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::File { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Reads a text, over the defaults.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let own: toml::Table = toml::from_str(text)?;
        // Unknown keys are found in the text itself, where an error has a line.
        let _: Overrides = toml::from_str(text)?;
        let mut merged: toml::Table = toml::from_str(DEFAULT).expect("the defaults are TOML");
        for (section, value) in own {
            match (merged.get_mut(&section).and_then(toml::Value::as_table_mut), value) {
                (Some(defaults), toml::Value::Table(values)) => defaults.extend(values),
                (_, value) => drop(merged.insert(section, value)),
            }
        }
        Raw::deserialize(merged)?.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[upstreams]]\nname = \"a\"\nurl = \"http://127.0.0.1:1/v1/\"\n";

    fn error(text: &str) -> String {
        Settings::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn an_encoder_that_cannot_be_read_and_a_cache_that_cannot_be_made_are_refused() {
        let check = |line: &str, expected: &str| {
            let error = error(&format!("[prediction]\n{line}\n{ONE}"));
            assert!(error.contains(expected), "{error}");
        };
        check("encoder = \"/nowhere\"", "prediction.encoder = /nowhere");
        check("encoder = \"/nowhere\"", "no config.json");
        check("cache_similarity = 2.0", "a cosine above 0 and at most 1");
        check("cache_entries = 0", "at least one answer");
    }

    #[test]
    fn a_file_needs_only_what_differs() {
        let settings = Settings::parse(&format!("[queue]\nmax_waiting = 7\n{ONE}")).unwrap();
        assert_eq!(settings.max_waiting, 7);
        assert_eq!(settings.order, QueueOrder::Aged { head_start: 5.0 });
        assert_eq!(settings.upstreams[0].url, "http://127.0.0.1:1/v1");
        assert_eq!(settings.upstreams[0].max_parallel, 32);
    }

    #[test]
    fn the_examples_of_the_default_file_can_be_used_as_they_are() {
        let mut text: String = DEFAULT.replace("# [[", "[[");
        for key in ["name", "url", "max_parallel", "models", "priority", "serve", "sha256"]
            .into_iter()
            .chain(["requests_per_minute", "tokens_per_minute", "tokens_per_day"])
        {
            text = text.replace(&format!("\n# {key} = "), &format!("\n{key} = "));
        }
        let text = text.replace("\"...\"", &format!("{:?}", "ab".repeat(32)));
        let settings = Settings::parse(&text).unwrap();
        assert_eq!(settings.upstreams.len(), 1);
        assert_eq!(settings.aliases["chat"], ["llama-70b", "llama-8b"]);
        assert_eq!(settings.keys[0].tokens_per_day, Some(10_000_000));
    }

    #[test]
    fn every_value_that_cannot_be_used_is_named_with_the_fix() {
        for (text, expected) in [
            ("", "upstreams = []"),
            ("[[upstreams]]\nname = \"a\"\nurl = \"localhost\"", "upstreams.url = localhost"),
            (&format!("[queue]\nhead_start_s = -1.0\n{ONE}"), "queue.head_start_s = -1"),
            (&format!("[timeouts]\nqueue_s = 0.0\n{ONE}"), "timeouts.queue_s = 0"),
            (&format!("[timeouts]\nqueue_s = nan\n{ONE}"), "timeouts.queue_s = NaN"),
            (&format!("[listen]\naddress = \"0.0.0.0:1\"\n{ONE}"), "allow_anonymous"),
            (&format!("[listen]\ncertificate = \"a.pem\"\n{ONE}"), "listen.key"),
            (&format!("{ONE}{ONE}"), "upstreams.name = \"a\""),
            (&format!("[queues]\n{ONE}"), "unknown field `queues`"),
            (&format!("[queue]\nsize = 1\n{ONE}"), "unknown field `size`"),
            (&format!("[spans]\nendpoint = \"collector:4318\"\n{ONE}"), "v1/traces"),
            (&format!("[spans]\nendpoint = \"http://collector:4318\"\n{ONE}"), "v1/traces"),
            (&format!("[spans]\nsample_ratio = 1.5\n{ONE}"), "spans.sample_ratio = 1.5"),
            (&format!("[[keys]]\nname = \"k\"\nsha256 = \"xy\"\n{ONE}"), "64 hexadecimal"),
        ] {
            let error = error(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
