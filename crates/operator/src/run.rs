//! The operator as a whole: caches, leader, controllers, webhook.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::cluster::Capabilities;
use crate::controllers::{Context, Options, Recommender, Updater, follow, stand_sentry};
use crate::learn::{LearnerPort, ListenError, serve_learners};
use crate::lease::{self, Leadership, LeaseConfig};
use crate::serve::{LogLevel, Served, serve_plain, serve_tls};
use crate::telemetry::Telemetry;
use crate::webhook::{CertificateError, CurrentCertificate, Keeper, KeeperConfig};

/// How the operator runs.
pub struct RunConfig {
    /// How the controllers work.
    pub options: Options,
    /// How the leader is found; none for a single copy that always leads.
    pub lease: Option<LeaseConfig>,
    /// Where webhook, health and metrics are served with TLS, if anywhere.
    pub listen: Option<SocketAddr>,
    /// Where the webhook's certificates are; none for no webhook.
    pub webhook: Option<KeeperConfig>,
    /// Where learners connect; none for nowhere.
    pub learners: Option<LearnerPort>,
    /// Where health, metrics and log level are served without TLS: on loopback.
    pub plain: Option<SocketAddr>,
    /// Changes the log level.
    pub log_level: LogLevel,
}

/// Why the operator cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The API server does not answer.
    #[error("the API server does not answer: {0}")]
    Server(#[from] kube::Error),
    /// The object is not known to the server.
    #[error(
        "the server does not know MultidimPodAutoscalers: apply `homeostat operator crd` first"
    )]
    NoDefinition,
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {why}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// Why.
        why: std::io::Error,
    },
    /// Learners cannot be listened to as asked.
    #[error(transparent)]
    Learners(#[from] ListenError),
    /// There is no certificate to serve TLS with.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Plain HTTP is for loopback.
    #[error(
        "{address} is not loopback: without TLS only loopback is served, such as 127.0.0.1:8080"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
}

/// Runs the operator until `stop` is done, then writes down what it remembers and lets another
/// copy lead.
pub async fn run(
    client: Client,
    config: RunConfig,
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let RunConfig { options, lease, listen, webhook, learners, plain, log_level } = config;
    if let Some(port) = &learners {
        port.check(webhook.is_some())?;
    }
    let telemetry = Arc::new(Telemetry::default());
    let client = telemetry.counting(&client);
    let capabilities = Capabilities::of(&client).await?;
    if !capabilities.has_definition {
        return Err(RunError::NoDefinition);
    }
    tracing::info!(
        server = capabilities.version,
        resizes_pods = capabilities.resizes_pods,
        metrics = capabilities.has_pod_metrics,
        "connected"
    );
    let (spec_changes, specs) = mpsc::unbounded_channel();
    let (status_changes, statuses) = mpsc::unbounded_channel();
    let caches = follow(
        &client,
        options.only_namespace.as_deref(),
        &telemetry,
        spec_changes.clone(),
        status_changes,
    );
    let (leads, holder) = match lease {
        Some(lease) => {
            let (leads, holder) = lease::hold(client.clone(), lease, telemetry.clone());
            (leads, Some(holder))
        }
        None => (Leadership::of_a_single_copy(client.clone(), telemetry.clone()), None),
    };
    let names = webhook.as_ref().map_or(&[][..], |keeper| &keeper.names);
    let certificate = Arc::new(CurrentCertificate::new(names)?);
    let ctx = Arc::new(Context::new(
        client.clone(),
        Options { has_learners: learners.is_some(), ..options },
        capabilities,
        caches,
        leads.clone(),
        webhook.is_some().then(|| certificate.clone()),
        telemetry.clone(),
    ));

    let served = Arc::new(Served { ctx: ctx.clone(), certificate: certificate.clone(), log_level });
    if let Some(address) = plain {
        if !address.ip().is_loopback() {
            return Err(RunError::NotLoopback { address });
        }
        tokio::spawn(serve_plain(listener(address).await?, served.clone()));
    }
    if let Some(port) = learners {
        let listener = listener(port.address).await?;
        tracing::info!(address = %port.address, "listening to learners");
        let learners = ctx.learners.clone();
        tokio::spawn(serve_learners(listener, port, certificate.clone(), learners));
    }
    if let Some(address) = listen {
        tokio::spawn(serve_tls(listener(address).await?, served));
    }
    if let Some(keeper) = webhook {
        let keeper = Keeper::new(client, keeper, certificate, telemetry.clone(), leads.clone());
        tokio::spawn(keeper.run());
    }

    let recommender = Recommender::new(ctx.clone());
    let updater = Updater::new(ctx.clone());
    let (ready, controllers) = (ctx.clone(), recommender.clone());
    tokio::spawn(async move {
        ready.wait_for_caches().await;
        tokio::spawn(updater.run(statuses));
        tokio::spawn(stand_sentry(ready, spec_changes));
        controllers.run(specs).await;
    });
    tokio::spawn(keep_watch(ctx.clone()));
    stop.await;
    tracing::info!("stopping: writing down what is remembered");
    if ctx.is_leader() {
        let all = recommender.checkpoint_all();
        if tokio::time::timeout(Duration::from_secs(20), all).await.is_err() {
            tracing::warn!("not everything could be written down in time");
        }
    }
    if let Some(holder) = holder {
        holder.resign().await;
    }
    Ok(())
}

async fn listener(address: SocketAddr) -> Result<TcpListener, RunError> {
    TcpListener::bind(address).await.map_err(|why| RunError::Address { address, why })
}

/// Asks now and then what the server can do, and tells who leads.
async fn keep_watch(ctx: Arc<Context>) {
    const CAPABILITIES: Duration = Duration::from_secs(300);
    let mut leads = ctx.leads.clone();
    loop {
        ctx.telemetry.leads(ctx.is_leader());
        match tokio::time::timeout(CAPABILITIES, leads.changed()).await {
            Ok(()) => tracing::info!(leads = ctx.is_leader(), "leadership changed"),
            Err(_) => {
                if let Err(error) = ctx.refresh_capabilities().await {
                    ctx.telemetry.server_error("discovery", &error);
                }
            }
        }
    }
}
