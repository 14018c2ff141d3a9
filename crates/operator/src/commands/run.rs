//! `run`: runs the controllers and the webhook.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use homeostat_autoscaler::api::memory_bytes;
use homeostat_autoscaler::measure::TrustConfig;
use homeostat_core::SimDuration;
use homeostat_operator::controllers::Options;
use homeostat_operator::learn::{Collector, CollectorAddress, LearnerPort, Spool};
use homeostat_operator::lease::{LeaseConfig, lease_name};
use homeostat_operator::run::{RunConfig, run as run_operator};
use homeostat_operator::serve::LogLevel;
use homeostat_operator::supervisor::Fault;
use homeostat_operator::webhook::CertManagerConfig;
use homeostat_wire::Token;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, reload};

use super::prometheus::{PrometheusArguments, certificates, time};

/// The default address of the webhook.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8443);

/// A name of a label in Prometheus.
fn label_name(text: &str) -> Result<String, String> {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_name =
        text.starts_with(is_start) && text.chars().all(|c| is_start(c) || c.is_ascii_digit());
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("use letters, digits and _, such as namespace".to_owned())
    }
}

/// Arguments of `run`.
#[derive(Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    prometheus: PrometheusArguments,
    /// Label of the namespace in Prometheus. Every selector in the queries of an object must have the
    /// object's own namespace in it.
    #[arg(long, value_name = "LABEL", default_value = "namespace", value_parser = label_name)]
    prometheus_namespace_label: String,
    /// Let the queries of objects read the series of every namespace: a user who may write an object in
    /// one namespace can then read the metrics of all.
    #[arg(long)]
    prometheus_any_namespace: bool,
    /// Time between two resyncs of all objects. Queries of latency SLOs are sent three times as
    /// often.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = time)]
    interval: SimDuration,
    /// Time between two checkpoints of an object.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = time)]
    checkpoint_interval: SimDuration,
    /// An older metric is stale and not used.
    #[arg(long, value_name = "TIME", default_value = "90s", value_parser = time)]
    stale_after: SimDuration,
    /// After this time without a metric the fallback starts; until then nothing is changed.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    fall_back_after: SimDuration,
    /// Namespace of the lease and of the webhook's secret; that of the pod or of the kubeconfig by
    /// default.
    #[arg(long, env = "POD_NAMESPACE")]
    namespace: Option<String>,
    /// Scale workloads of this namespace only, with rights in this namespace only.
    #[arg(long, value_name = "NAMESPACE")]
    only_namespace: Option<String>,
    /// Name of this replica, unique among all replicas.
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    identity: Option<String>,
    /// Lead without a lease, for a single replica outside a cluster.
    #[arg(long)]
    no_leader_election: bool,
    /// Address of the webhook, health and metrics with TLS. By default 0.0.0.0:8443 with a webhook,
    /// and none without one.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Address of health, metrics and /loglevel without TLS, on loopback.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen_plain: SocketAddr,
    /// Names and addresses in the webhook's certificate.
    #[arg(long, value_name = "NAME", default_values_t = ["homeostat.homeostat.svc".to_owned()])]
    webhook_name: Vec<String>,
    /// Webhook configuration that gets the authority of the certificate.
    #[arg(long, value_name = "NAME", default_value = "homeostat")]
    webhook_configuration: String,
    /// Do not serve the webhook: pods start with the size of their template.
    #[arg(long)]
    no_webhook: bool,
    /// Address at which learners of objects with the recommender `external` connect by gRPC: with
    /// the webhook's certificate and a token, or without both on loopback. None by default.
    #[arg(long, value_name = "ADDRESS")]
    listen_learners: Option<SocketAddr>,
    /// File with the token that learners must present.
    #[arg(long, value_name = "FILE", requires = "listen_learners")]
    learner_token_file: Option<std::path::PathBuf>,
    /// Directory in which the decisions about objects with the recommender `aware` are recorded, a file
    /// for each episode. `homeostat trajectories import` and `homeostat learn` read them.
    #[arg(long, value_name = "DIR")]
    decisions_dir: Option<std::path::PathBuf>,
    /// Size of that directory, such as 64Mi; beyond it the oldest decisions are deleted.
    #[arg(long, value_name = "BYTES", default_value = "64Mi", value_parser = bytes, requires = "decisions_dir")]
    decisions_limit: u64,
    /// Collector of decisions (`homeostat trajectories collect`), such as https://collector:8445: it gets the
    /// recorded episodes, and offers the policies of objects whose spec names no policy file.
    #[arg(long, value_name = "URL", requires = "decisions_dir")]
    collector: Option<String>,
    /// File with the token that the collector asks for.
    #[arg(long, value_name = "FILE", requires = "collector")]
    collector_token_file: Option<std::path::PathBuf>,
    /// File with the certificate of the collector's authority, as PEM.
    #[arg(long, value_name = "FILE", requires = "collector")]
    collector_ca_file: Option<std::path::PathBuf>,
    /// Send decisions and token without TLS to another machine: anyone on the way can read them.
    #[arg(long, requires = "collector")]
    collector_allow_plain: bool,
    /// Log level: error, warn, info, debug or trace, or a filter such as
    /// info,homeostat_operator=debug. PUT /loglevel changes it at run time.
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "HOMEOSTAT_LOG")]
    log: String,
    /// Log as JSON, one object per line.
    #[arg(long)]
    log_json: bool,
    /// Fault injection for tests: TASK=end, TASK=panic or TASK=stall makes a task of the process
    /// fail shortly after its start.
    #[arg(long, value_name = "TASK=KIND", hide = true)]
    inject_fault: Option<Fault>,
}

fn std_duration(time: SimDuration) -> Duration {
    Duration::from_nanos(time.nanos())
}

pub(super) async fn run(arguments: &RunArguments) -> anyhow::Result<()> {
    let log_level = start_logging(&arguments.log, arguments.log_json)?;
    let client = super::client().await?;
    let options = Options {
        interval: std_duration(arguments.interval),
        checkpoint_interval: std_duration(arguments.checkpoint_interval),
        prometheus: arguments
            .prometheus
            .server(Duration::from_secs(5), Some(std_duration(arguments.stale_after)))?,
        namespace_label: (!arguments.prometheus_any_namespace)
            .then(|| arguments.prometheus_namespace_label.clone()),
        only_namespace: arguments.only_namespace.clone(),
        trust: TrustConfig {
            max_age: arguments.stale_after,
            hold: arguments.fall_back_after,
            ..TrustConfig::default()
        },
        spool: spool(arguments)?,
        collector: collector(arguments)?,
        ..Options::default()
    };
    let identity = arguments.identity.clone().unwrap_or_else(own_name);
    let namespace = arguments.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
    let lease_name = lease_name(arguments.only_namespace.as_deref());
    let lease = (!arguments.no_leader_election)
        .then(|| LeaseConfig::new(&namespace, &lease_name, &identity));
    let cert_manager = CertManagerConfig {
        namespace,
        secret: "homeostat-webhook".to_owned(),
        configuration: arguments.webhook_configuration.clone(),
        names: arguments.webhook_name.clone(),
    };
    let config = RunConfig {
        options,
        lease,
        listen: arguments.listen.or((!arguments.no_webhook).then_some(LISTEN)),
        webhook: (!arguments.no_webhook).then_some(cert_manager),
        learners: learners(arguments)?,
        plain: Some(arguments.listen_plain),
        log_level,
        fault: arguments.inject_fault,
    };
    run_operator(client, config, stopped()?).await?;
    Ok(())
}

fn bytes(text: &str) -> Result<u64, String> {
    let bytes = memory_bytes(&Quantity(text.to_owned())).map_err(|error| error.to_string())?;
    Ok(bytes.bytes())
}

fn spool(arguments: &RunArguments) -> anyhow::Result<Option<Arc<Spool>>> {
    let Some(directory) = &arguments.decisions_dir else { return Ok(None) };
    let spool = Spool::open(directory, arguments.decisions_limit);
    let named = || format!("--decisions-dir: cannot use {}", directory.display());
    Ok(Some(Arc::new(spool.with_context(named)?)))
}

fn collector(arguments: &RunArguments) -> anyhow::Result<Option<Collector>> {
    let Some(url) = &arguments.collector else { return Ok(None) };
    let authorities = match &arguments.collector_ca_file {
        Some(path) => certificates("--collector-ca-file", path)?,
        None => Vec::new(),
    };
    let address = CollectorAddress {
        url: url.clone(),
        authorities,
        token_file: arguments.collector_token_file.clone(),
        allow_plain: arguments.collector_allow_plain,
    };
    Ok(Some(Collector::new(&address)?))
}

fn learners(arguments: &RunArguments) -> anyhow::Result<Option<LearnerPort>> {
    let Some(address) = arguments.listen_learners else { return Ok(None) };
    let token = match &arguments.learner_token_file {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("failed to read {}", path.display()))?;
            Some(Token::new(&text)?)
        }
        None => None,
    };
    Ok(Some(LearnerPort { address, token }))
}

/// A name that is unique by host and process.
fn own_name() -> String {
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    format!("{}-{}", host.trim(), std::process::id())
}

fn stopped() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn start_logging(level: &str, is_json: bool) -> anyhow::Result<LogLevel> {
    let refused =
        |level: &str| format!("invalid log level {level:?}: use info, or info,kube=debug");
    let filter: EnvFilter = level.parse().map_err(|_| anyhow::anyhow!(refused(level)))?;
    let (filter, handle) = reload::Layer::new(filter);
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    if is_json {
        registry.with(lines.json()).init();
    } else {
        registry.with(lines).init();
    }
    Ok(Arc::new(move |wanted| {
        if let Some(wanted) = wanted {
            let filter: EnvFilter = wanted.parse().map_err(|_| refused(wanted))?;
            handle.reload(filter).map_err(|error| error.to_string())?;
        }
        handle.with_current(ToString::to_string).map_err(|error| error.to_string())
    }))
}
