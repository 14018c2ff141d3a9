//! Queries to a Prometheus server.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use homeostat_autoscaler::measure::{Problem, Reading, Source};
use homeostat_core::SimTime;
use kube::{Client, Config};
use serde::Deserialize;

use super::query_backoff::{Query, QueryBackoff, Timeout};

/// A Prometheus server.
#[derive(Clone)]
pub struct Prometheus {
    client: Client,
    token_file: Option<PathBuf>,
    /// The age up to which a sample counts as current, as a query parameter.
    lookback: Option<String>,
    timeout: Duration,
    backoff: Arc<Mutex<QueryBackoff>>,
}

/// Address and credentials of a Prometheus server.
#[derive(Debug, Clone, Default)]
pub struct PrometheusAddress {
    /// Its address, such as `http://prometheus.monitoring.svc:9090`.
    pub url: String,
    /// Certificates of its authority, as DER; those of the system if empty.
    pub authorities: Vec<Vec<u8>>,
    /// File with a bearer token, if it needs one. It is read for every query, since tokens are rotated.
    pub token_file: Option<PathBuf>,
    /// Whether the token may be sent without TLS to another machine, where anyone on the way reads it.
    pub allow_plain_token: bool,
    /// An older sample does not count as current. The server's own rule, five minutes by default,
    /// applies if there is none, and on servers that do not know `lookback_delta`.
    pub lookback: Option<Duration>,
    /// The time limit of a query.
    pub timeout: Duration,
}

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is not a URL.
    #[error("{url:?} is not an address: use http://HOST:PORT or https://HOST:PORT")]
    NotAnAddress {
        /// What was given.
        url: String,
    },
    /// It would carry a token that others can read.
    #[error(
        "{url} has no TLS, so that anyone on the way could read the token of --prometheus-token-file: use \
         https, or give --prometheus-allow-plain-token if the network is trusted"
    )]
    PlainToken {
        /// What was given.
        url: String,
    },
    /// No client could be made for it.
    #[error(
        "cannot connect to {url}: {why}; if its authority is not known to the system, give \
         --prometheus-ca-file"
    )]
    Unusable {
        /// What was given.
        url: String,
        /// Why.
        why: Box<kube::Error>,
    },
}

impl Prometheus {
    /// Checks an address.
    pub fn check(address: &PrometheusAddress) -> Result<http::Uri, AddressError> {
        let url = address.url.trim_end_matches('/');
        let refused = || AddressError::NotAnAddress { url: url.to_owned() };
        let uri: http::Uri = url.parse().map_err(|_| refused())?;
        if uri.host().is_none() || !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(refused());
        }
        Ok(uri)
    }

    /// A server at an address; it is not contacted yet.
    pub fn new(address: &PrometheusAddress) -> Result<Self, AddressError> {
        let uri = Self::check(address)?;
        let is_plain = uri.scheme_str() == Some("http");
        let url = address.url.trim_end_matches('/');
        if is_plain && address.token_file.is_some() && !is_loopback(&uri) {
            if !address.allow_plain_token {
                return Err(AddressError::PlainToken { url: url.to_owned() });
            }
            tracing::warn!(
                url,
                "the token of Prometheus is sent without TLS: anyone on the way can read it"
            );
        }
        // The client of the cluster has TLS and a connection pool, and works for any other server.
        let mut config = Config::new(uri);
        // Without TLS no authority is needed, and a minimal image has none.
        if !address.authorities.is_empty() || is_plain {
            config.root_cert = Some(address.authorities.clone());
        }
        config.connect_timeout = Some(address.timeout);
        config.default_retry = false;
        let unusable = |why| AddressError::Unusable { url: url.to_owned(), why: Box::new(why) };
        let client = Client::try_from(config).map_err(unusable)?;
        Ok(Self {
            client,
            token_file: address.token_file.clone(),
            lookback: address.lookback.map(|lookback| format!("{:.3}", lookback.as_secs_f64())),
            timeout: address.timeout,
            backoff: Arc::default(),
        })
    }

    /// Queries one current number.
    pub async fn instant(&self, query: &str) -> Result<Reading, Problem> {
        let lookback = self.lookback.as_deref().map(|lookback| ("lookback_delta", lookback));
        let answer = self.ask("query", query, lookback.as_slice()).await?;
        read_instant(&answer)
    }

    /// Queries one series between two times, with a number at each step.
    pub async fn range(
        &self,
        query: &str,
        from: SimTime,
        to: SimTime,
        step: Duration,
    ) -> Result<Vec<(SimTime, f64)>, Problem> {
        let mut all = self.range_by_labels(query, from, to, step).await?;
        match all.len() {
            0 => Err(Problem::Missing { source: Source::Prometheus }),
            1 => Ok(all.remove(0).points),
            series => Err(Problem::Ambiguous { series }),
        }
    }

    /// Queries all series between two times, with a number at each step.
    pub async fn range_by_labels(
        &self,
        query: &str,
        from: SimTime,
        to: SimTime,
        step: Duration,
    ) -> Result<Vec<LabelledSeries>, Problem> {
        let time = |time: SimTime| format!("{:.3}", time.nanos() as f64 / 1e9);
        let (start, end) = (time(from), time(to));
        let step = format!("{:.3}", step.as_secs_f64());
        let fields = [("start", &start[..]), ("end", &end[..]), ("step", &step[..])];
        read_range(&self.ask("query_range", query, &fields).await?)
    }

    async fn ask(
        &self,
        endpoint: &'static str,
        query: &str,
        fields: &[(&str, &str)],
    ) -> Result<String, Problem> {
        let unreachable =
            |why: String| Problem::Unreachable { source: Source::Prometheus, why: brief(&why) };
        let seconds = self.timeout.as_secs_f64();
        let query_key = Query { endpoint, text: query.to_owned() };
        let sent_at = Instant::now();
        if let Some(delay) = self.backoff().delay(&query_key, sent_at, self.timeout) {
            let delay = delay.as_secs_f64();
            let why = format!("no answer within {seconds} s, next attempt in {delay:.0} s");
            return Err(unreachable(why));
        }
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", query)
            .extend_pairs(fields)
            .finish();
        // The client adds the path of the server's address as a prefix.
        let mut request = http::Request::post(format!("/api/v1/{endpoint}"))
            .header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body.into_bytes())
            .map_err(|why| unreachable(why.to_string()))?;
        if let Some(authorization) = self.authorization().map_err(unreachable)? {
            request.headers_mut().insert(http::header::AUTHORIZATION, authorization);
        }
        let answer = tokio::time::timeout(self.timeout, self.client.request_text(request));
        let answer = answer.await;
        let now = Instant::now();
        match answer {
            Ok(Ok(text)) => {
                self.backoff().answered(&query_key, now);
                Ok(text)
            }
            // A rejection is an answer as well.
            Ok(Err(why @ kube::Error::Api(_))) => {
                self.backoff().answered(&query_key, now);
                Err(unreachable(why.to_string()))
            }
            // An immediate failure delays nothing and needs no back-off.
            Ok(Err(why)) if now - sent_at < self.timeout => Err(unreachable(why.to_string())),
            // After the time limit, an error means that the connection timed out.
            Ok(Err(_)) | Err(_) => {
                let limit = self.timeout;
                self.backoff().timed_out(Timeout { query: query_key, sent_at, now, limit });
                Err(unreachable(format!("no answer within {seconds} s")))
            }
        }
    }

    /// The authorization header, if a token is configured. The file is a mounted secret in memory, so
    /// that reading it does not block.
    fn authorization(&self) -> Result<Option<http::HeaderValue>, String> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let failed = |why: &dyn std::fmt::Display| {
            format!("the token in {} cannot be used: {why}", path.display())
        };
        let token = std::fs::read_to_string(path).map_err(|why| failed(&why))?;
        let value = http::HeaderValue::try_from(format!("Bearer {}", token.trim()));
        let mut value = value.map_err(|_| failed(&"it is not a valid token"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    fn backoff(&self) -> MutexGuard<'_, QueryBackoff> {
        self.backoff.lock().expect("no code panics while it holds this lock")
    }
}

/// A series with its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledSeries {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its numbers, in the order of time.
    pub points: Vec<(SimTime, f64)>,
}

/// The first line of a message, shortened: it goes into the status.
fn brief(message: &str) -> String {
    message.lines().next().unwrap_or_default().chars().take(200).collect()
}

#[derive(Deserialize)]
struct Answer<T> {
    data: Option<T>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum InstantResult {
    Vector(Vec<VectorSample>),
    Scalar(Sample),
    Matrix(serde::de::IgnoredAny),
    String(serde::de::IgnoredAny),
}

/// Time in seconds, and value as text because JSON has no infinity.
type Sample = (f64, String);

#[derive(Deserialize)]
struct VectorSample {
    value: Sample,
}

#[derive(Deserialize)]
struct Matrix {
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    values: Vec<Sample>,
}

fn data<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, Problem> {
    let unusable = |why: String| Problem::Unreachable { source: Source::Prometheus, why };
    let answer: Answer<T> = serde_json::from_str(text).map_err(|why| {
        unusable(format!("its answer is not one of Prometheus: {}", brief(&why.to_string())))
    })?;
    answer.data.ok_or_else(|| unusable(brief(&answer.error.unwrap_or_default())))
}

/// Whether requests to this address never leave the machine. Names other than `localhost` may be resolved to
/// any address, so that only they and literal addresses count.
fn is_loopback(uri: &http::Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn read_instant(text: &str) -> Result<Reading, Problem> {
    let sample = match data(text)? {
        InstantResult::Scalar(sample) => sample,
        InstantResult::Vector(mut samples) => match samples.len() {
            0 => return Err(Problem::Missing { source: Source::Prometheus }),
            1 => samples.remove(0).value,
            series => return Err(Problem::Ambiguous { series }),
        },
        InstantResult::Matrix(_) | InstantResult::String(_) => {
            let why = "the query does not return a number".to_owned();
            return Err(Problem::Unreachable { source: Source::Prometheus, why });
        }
    };
    let (at, value) = number(&sample)?;
    Ok(Reading { value, at, source: Source::Prometheus })
}

fn read_range(text: &str) -> Result<Vec<LabelledSeries>, Problem> {
    let matrix: Matrix = data(text)?;
    let series = |Series { metric, values }: Series| {
        Ok(LabelledSeries {
            labels: metric,
            points: values.iter().map(number).collect::<Result<_, Problem>>()?,
        })
    };
    matrix.result.into_iter().map(series).collect()
}

fn number((seconds, value): &Sample) -> Result<(SimTime, f64), Problem> {
    // Rust parses NaN and +Inf as Prometheus writes them.
    let value: f64 = value.parse().unwrap_or(f64::NAN);
    let nanos = (seconds.max(0.0) * 1e9) as u64;
    Ok((SimTime::from_nanos(nanos), value))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    fn instant(text: &str) -> Result<(f64, f64), String> {
        let reading = read_instant(text).map_err(|problem| problem.to_string())?;
        Ok((reading.at.seconds(), reading.value))
    }

    #[test]
    fn one_number_is_read_from_a_vector_and_from_a_scalar() {
        let vector = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"job":"checkout"},"value":[1700000000.5,"0.25"]}]}}"#;
        assert_eq!(instant(vector), Ok((1_700_000_000.5, 0.25)));
        let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[12,"3"]}}"#;
        assert_eq!(instant(scalar), Ok((12.0, 3.0)));
        let infinite =
            r#"{"status":"success","data":{"resultType":"scalar","result":[12,"+Inf"]}}"#;
        assert_eq!(instant(infinite), Ok((12.0, f64::INFINITY)));
    }

    #[test]
    fn a_token_leaves_the_machine_over_tls_alone() {
        let connect = |url: &str, allow_plain_token| {
            let address = PrometheusAddress {
                url: url.to_owned(),
                token_file: Some("token".into()),
                allow_plain_token,
                authorities: vec![Vec::new()],
                ..PrometheusAddress::default()
            };
            Prometheus::new(&address).map(drop).map_err(|refused| refused.to_string())
        };
        let _runtime = tokio::runtime::Runtime::new().expect("it starts").enter();
        for url in
            ["http://prometheus.monitoring:9090", "http://10.0.0.7", "http://localhost.example.com"]
        {
            let refused = connect(url, false).expect_err(url);
            assert!(refused.contains(url) && refused.contains("use https"), "{refused}");
            assert!(!connect(url, true).is_err_and(|refused| refused.contains("TLS")), "{url}");
        }
        for url in [
            "http://localhost:9090",
            "http://127.0.0.1:9090",
            "http://[::1]:9090",
            "https://example.com",
        ] {
            assert!(!connect(url, false).is_err_and(|refused| refused.contains("TLS")), "{url}");
        }
    }

    #[test]
    fn answers_without_exactly_one_number_are_refused() {
        let check = |text: &str, expect: &str| {
            let refused = instant(text).expect_err(text);
            assert!(refused.contains(expect), "{refused}");
        };
        check(r#"{"data":{"resultType":"vector","result":[]}}"#, "has no such metric");
        let two = r#"{"data":{"resultType":"vector","result":[
            {"metric":{},"value":[1,"1"]},{"metric":{},"value":[1,"2"]}]}}"#;
        check(two, "returns 2 series");
        check(r#"{"data":{"resultType":"matrix","result":[]}}"#, "does not return a number");
        check(r#"{"status":"error","error":"parse error: unexpected end"}"#, "parse error");
        check("<html>", "not one of Prometheus");
    }

    #[test]
    fn a_range_keeps_labels_and_values_that_are_not_numbers() {
        let text = r#"{"data":{"resultType":"matrix","result":[
            {"metric":{"pod":"a"},"values":[[10,"1"],[20,"NaN"]]}]}}"#;
        let series = read_range(text).expect("one series");
        assert_eq!(series[0].labels["pod"], "a");
        assert_eq!(series[0].points.len(), 2);
        assert!(series[0].points[1].1.is_nan());
    }

    #[test]
    fn an_invalid_address_is_named() {
        for url in ["", "prometheus:9090", "ftp://prometheus", "http://"] {
            let address = PrometheusAddress { url: url.to_owned(), ..PrometheusAddress::default() };
            let refused = Prometheus::new(&address).err().expect(url).to_string();
            assert!(refused.contains("is not an address"), "{refused}");
        }
    }

    /// The request of one query.
    async fn sent(change: impl FnOnce(&mut PrometheusAddress)) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let mut address = PrometheusAddress {
            url: format!("http://{}/prometheus/", listener.local_addr().expect("bound")),
            timeout: Duration::from_secs(5),
            ..PrometheusAddress::default()
        };
        change(&mut address);
        let received = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a request");
            let mut request = Vec::new();
            while !String::from_utf8_lossy(&request).contains("query=") {
                stream.read_buf(&mut request).await.expect("it can be read");
            }
            String::from_utf8(request).expect("text")
        });
        let _ = Prometheus::new(&address).expect("an address").instant("up").await;
        received.await.expect("a request was sent")
    }

    #[tokio::test]
    async fn the_path_of_the_address_is_a_prefix_of_the_request() {
        let request = sent(|_| {}).await;
        assert!(request.starts_with("POST /prometheus/api/v1/query HTTP"), "{request}");
        assert!(!request.contains("lookback"), "{request}");
        assert!(!request.to_lowercase().contains("authorization"), "{request}");
    }

    #[tokio::test]
    async fn the_token_is_read_for_every_query_and_stale_samples_are_excluded() {
        let file = std::env::temp_dir().join(format!("homeostat-token-{}", std::process::id()));
        for token in ["first", "second"] {
            std::fs::write(&file, format!("{token}\n")).expect("written");
            let request = sent(|address| {
                address.token_file = Some(file.clone());
                address.lookback = Some(Duration::from_secs(90));
            })
            .await;
            let expect = format!("authorization: Bearer {token}\r\n");
            assert!(request.contains(&expect), "{request}");
            assert!(request.contains("lookback_delta=90.000"), "{request}");
        }
        std::fs::remove_file(&file).expect("removed");
        let address = PrometheusAddress {
            url: "http://127.0.0.1:1".to_owned(),
            token_file: Some(file),
            ..PrometheusAddress::default()
        };
        let prometheus = Prometheus::new(&address).expect("an address");
        let why = prometheus.instant("up").await.expect_err("there is no token").to_string();
        assert!(why.contains("cannot be used"), "{why}");
    }

    /// The address of a server that answers 1 to every query except one, which it does not answer.
    async fn silent_to(slow: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer_unless(slow, stream));
            }
        });
        url
    }

    async fn answer_unless(slow: &'static str, mut stream: TcpStream) {
        let mut request = Vec::new();
        let has = |request: &[u8], text: &str| String::from_utf8_lossy(request).contains(text);
        // The body contains only the query, and is small enough to arrive at once.
        while !has(&request, "query=") {
            if stream.read_buf(&mut request).await.expect("it can be read") == 0 {
                return;
            }
        }
        if has(&request, slow) {
            std::future::pending::<()>().await;
        }
        let body = r#"{"data":{"resultType":"scalar","result":[12,"1"]}}"#;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}", body.len());
        let answer = format!("{head}\r\nConnection: close\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await.expect("it can be written");
    }

    #[tokio::test]
    async fn one_slow_query_does_not_delay_the_others() {
        let timeout = Duration::from_millis(200);
        let address = PrometheusAddress {
            url: silent_to("slow").await,
            timeout,
            ..PrometheusAddress::default()
        };
        let prometheus = Prometheus::new(&address).expect("an address");
        let why = async |query| prometheus.instant(query).await.expect_err(query).to_string();
        let silent = why("slow").await;
        assert!(silent.ends_with("no answer within 0.2 s"), "{silent}");
        for query in ["quick", "up"] {
            let answer = prometheus.instant(query).await.expect(query);
            assert_eq!(answer.value, 1.0);
        }
        let sent_at = Instant::now();
        let delayed = why("slow").await;
        assert!(delayed.contains("next attempt in"), "{delayed}");
        assert!(sent_at.elapsed() < timeout, "it was sent again");
    }
}
