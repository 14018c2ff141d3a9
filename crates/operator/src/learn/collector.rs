//! The collector: the process with the trajectory store (`homeostat trajectories collect`). The operator sends it
//! recorded episodes, and asks it for the policies that were learned from them. It may be away at any
//! time: episodes wait in the spool, and the policy that was read last stays in use.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use homeostat_autoscaler::learn::ServedPolicy;
use homeostat_core::{SimDuration, SimTime};
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::{Client, Config};

use super::policy_file::{PolicyFileError, READ_INTERVAL, read};
use super::spool::Spool;
use crate::supervisor::Heartbeat;

/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A collector that is away is asked for a policy again after this time.
const RETRY_INTERVAL: SimDuration = SimDuration::from_secs(10);
/// How often an empty spool is looked at.
const POLL: Duration = Duration::from_secs(1);
/// Longest wait after a failure.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// A policy file has a few hundred kilobytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The sender reports progress within this time.
pub(crate) const SENDER_DEADLINE: Duration = Duration::from_secs(240);

/// Address and credentials of a collector.
#[derive(Debug, Clone, Default)]
pub struct CollectorAddress {
    /// Its address, such as `https://collector.homeostat:8445`.
    pub url: String,
    /// Certificates of its authority, as DER.
    pub authorities: Vec<Vec<u8>>,
    /// File with the token that it asks for. It is read for every request, since tokens are rotated.
    pub token_file: Option<PathBuf>,
    /// Whether token and decisions may be sent without TLS to another machine.
    pub allow_plain: bool,
}

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    /// It is not a URL.
    #[error("{url:?} is not an address: use https://HOST:PORT or http://HOST:PORT")]
    NotAnAddress {
        /// What was given.
        url: String,
    },
    /// Others could read what is sent.
    #[error(
        "{url} has no TLS, so that anyone on the way could read the decisions and the token: use https, or give \
         --collector-allow-plain if the network is trusted"
    )]
    Plain {
        /// What was given.
        url: String,
    },
    /// No client could be made for it.
    #[error("cannot connect to {url}: {why}")]
    Unusable {
        /// What was given.
        url: String,
        /// Why.
        why: Box<kube::Error>,
    },
}

/// A collector.
#[derive(Clone)]
pub struct Collector {
    client: Client,
    token_file: Option<PathBuf>,
}

/// How a collector answered an episode.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    /// It is stored.
    Stored,
    /// It will never be.
    Refused(String),
    /// Not now.
    Away(String),
}

impl Collector {
    /// A collector at an address; it is not contacted yet.
    pub fn new(address: &CollectorAddress) -> Result<Self, CollectorError> {
        let url = address.url.trim_end_matches('/').to_owned();
        let uri: http::Uri =
            url.parse().map_err(|_| CollectorError::NotAnAddress { url: url.clone() })?;
        let Some(host) = uri.host().filter(|_| matches!(uri.scheme_str(), Some("http" | "https")))
        else {
            return Err(CollectorError::NotAnAddress { url });
        };
        let is_plain = uri.scheme_str() == Some("http");
        if is_plain && !is_loopback(host) && !address.allow_plain {
            return Err(CollectorError::Plain { url });
        }
        // The client of the cluster has TLS and a connection pool, and works for any other server.
        let mut config = Config::new(uri);
        if !address.authorities.is_empty() || is_plain {
            config.root_cert = Some(address.authorities.clone());
        }
        config.connect_timeout = Some(TIMEOUT);
        config.default_retry = false;
        let client = Client::try_from(config)
            .map_err(|why| CollectorError::Unusable { url, why: Box::new(why) })?;
        Ok(Self { client, token_file: address.token_file.clone() })
    }

    async fn put(&self, text: Vec<u8>) -> Answer {
        match self.ask(Method::POST, "/v1/trajectories", text).await {
            Ok((status, _)) if status.is_success() => Answer::Stored,
            Ok((status @ (StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE), why)) => {
                Answer::Refused(format!("it answered {status}: {}", brief(&why)))
            }
            Ok((status, why)) => Answer::Away(format!("it answered {status}: {}", brief(&why))),
            Err(why) => Answer::Away(why),
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Vec<u8>), String> {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(path) = &self.token_file {
            let token = std::fs::read_to_string(path)
                .map_err(|why| format!("the token in {} cannot be read: {why}", path.display()))?;
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.trim()));
        }
        let request = request.body(Body::from(body)).map_err(|why| why.to_string())?;
        let answer = async {
            let response = self.client.send(request).await.map_err(|why| why.to_string())?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
            Ok((status, body.map_err(|why| why.to_string())?.to_bytes().to_vec()))
        };
        let answered = tokio::time::timeout(TIMEOUT, answer).await;
        answered.unwrap_or_else(|_| Err(format!("no answer within {} s", TIMEOUT.as_secs())))
    }
}

/// Sends the episodes of a spool, the oldest first, as long as the process runs.
pub async fn send_episodes(collector: Collector, spool: Arc<Spool>, heartbeat: Heartbeat) {
    let mut backoff = POLL;
    loop {
        heartbeat.beat();
        let Some((name, text)) = spool.oldest() else {
            tokio::time::sleep(POLL).await;
            continue;
        };
        match collector.put(text).await {
            Answer::Stored => {
                spool.taken(&name);
                spool.set_delay(None);
                backoff = POLL;
            }
            Answer::Refused(why) => {
                tracing::warn!(name, why, "the collector refuses an episode");
                spool.refused(&name);
            }
            Answer::Away(why) => {
                if spool.set_delay(Some(why.clone())) {
                    tracing::warn!(why, "the collector takes no decisions");
                }
                tokio::time::sleep(backoff).await;
                backoff = (backoff * 2).min(MAX_BACKOFF);
            }
        }
    }
}

/// The policy that a learner offers for an object, read from the collector at an interval.
pub struct OfferedPolicy {
    path: String,
    found: Result<ServedPolicy, PolicyFileError>,
    /// When it is read again.
    due: SimTime,
    /// The bytes that were read last, so that the same file is decoded once.
    bytes: Vec<u8>,
}

impl OfferedPolicy {
    /// One that was not read yet.
    pub fn new(namespace: &str, name: &str) -> Self {
        let path = format!("/v1/policies/{namespace}/{name}");
        let why = "it has not been read yet".to_owned();
        let found = Err(PolicyFileError::Missing { place: place(&path), why });
        Self { path, found, due: SimTime::ZERO, bytes: Vec::new() }
    }

    /// What was found.
    pub fn found(&self) -> &Result<ServedPolicy, PolicyFileError> {
        &self.found
    }

    /// Asks the collector, if the interval has passed. While it is away, what was found last stays.
    pub async fn refresh(&mut self, collector: &Collector, now: SimTime) {
        if now < self.due {
            return;
        }
        self.due = now + READ_INTERVAL;
        let place = place(&self.path);
        match collector.ask(Method::GET, &self.path, Vec::new()).await {
            Ok((StatusCode::OK, bytes)) if bytes == self.bytes && self.found.is_ok() => {}
            Ok((StatusCode::OK, bytes)) => {
                let seconds = now.nanos() / 1_000_000_000;
                let version = format!("{place} of {seconds}");
                self.found = read(&place, &bytes).map(|policy| ServedPolicy { version, policy });
                self.bytes = bytes;
            }
            Ok((StatusCode::NOT_FOUND, _)) => {
                let why = "the learner has not written one yet".to_owned();
                self.found = Err(PolicyFileError::Missing { place, why });
            }
            answered => {
                self.due = now + RETRY_INTERVAL;
                if self.found.is_ok() {
                    return;
                }
                let why = match answered {
                    Ok((status, why)) => {
                        format!("the collector answered {status}: {}", brief(&why))
                    }
                    Err(why) => format!("the collector does not answer: {why}"),
                };
                self.found = Err(PolicyFileError::Missing { place, why });
            }
        }
    }
}

fn place(path: &str) -> String {
    format!("the collector's {path}")
}

fn brief(text: &[u8]) -> String {
    String::from_utf8_lossy(text).lines().next().unwrap_or_default().chars().take(200).collect()
}

/// Names other than `localhost` may be resolved to any address.
fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_leave_the_machine_with_tls_only_unless_the_user_says_otherwise() {
        let made = |url: &str, allow_plain| {
            let address =
                CollectorAddress { url: url.to_owned(), allow_plain, ..Default::default() };
            Collector::new(&address).map(|_| ()).map_err(|error| error.to_string())
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let _inside = runtime.enter();
        assert_eq!(made("http://127.0.0.1:8445", false), Ok(()));
        assert_eq!(made("http://collector:8445", true), Ok(()));
        let refused = made("http://collector:8445", false).expect_err("refused");
        assert!(refused.contains("--collector-allow-plain"), "{refused}");
        let refused = made("collector:8445", false).expect_err("refused");
        assert!(refused.contains("is not an address"), "{refused}");
    }
}
