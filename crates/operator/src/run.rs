//! The operator as a whole: its tasks under one supervisor, from start to shutdown.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::cluster::Capabilities;
use crate::controllers::{
    Caches, Context, ContextConfig, ObjectWatch, Options, Recommender, UPDATER_DEADLINE, Updater,
    WATCH_DEADLINE, all_of, slo_watcher_deadline, watch_pods, watch_slos,
};
use crate::learn::{LearnerPort, ListenError, SENDER_DEADLINE, send_episodes, serve_learners};
use crate::lease::{self, LeaderElector, Leadership, LeaseConfig, Resignation, check_server};
use crate::serve::{LogLevel, SERVER_DEADLINE, Served, serve_plain, serve_tls};
use crate::supervisor::{Fault, Heartbeat, Supervisor, Task, TaskFailure};
use crate::telemetry::Telemetry;
use crate::webhook::{
    CERT_MANAGER_DEADLINE, CertManager, CertManagerConfig, CertificateError, CurrentCertificate,
};

/// Checkpoints are written within this time at the end; the chart's grace period is longer.
const MAX_CHECKPOINT_TIME: Duration = Duration::from_secs(20);

/// After a failure, the process shows for this long why it is about to end, and writes checkpoints.
const UNHEALTHY_TIME: Duration = Duration::from_secs(5);

/// How often the capabilities of the API server are discovered again.
const CAPABILITY_PERIOD: Duration = Duration::from_secs(300);

/// The time limit of the discovery of capabilities.
const MAX_CAPABILITY_TIME: Duration = Duration::from_secs(30);

/// Settings of the operator process.
pub struct RunConfig {
    /// Settings of the controllers.
    pub options: Options,
    /// Settings of the leader election; none for a single replica that always leads.
    pub lease: Option<LeaseConfig>,
    /// Where the webhook, health and metrics are served with TLS, if anywhere.
    pub listen: Option<SocketAddr>,
    /// Where the webhook's certificates are stored; none without a webhook.
    pub webhook: Option<CertManagerConfig>,
    /// Where learners connect, if anywhere.
    pub learners: Option<LearnerPort>,
    /// Where health, metrics and the log level are served without TLS: on loopback.
    pub plain: Option<SocketAddr>,
    /// Changes the log level.
    pub log_level: LogLevel,
    /// Fault injection, for tests.
    pub fault: Option<Fault>,
}

/// Why the operator cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The API server does not answer.
    #[error("the API server does not answer: {0}")]
    Server(#[from] kube::Error),
    /// The custom resource definition is missing.
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
    /// Learners cannot be served at this address.
    #[error(transparent)]
    Learners(#[from] ListenError),
    /// There is no certificate to serve TLS with.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Plain HTTP is served on loopback only.
    #[error(
        "{address} is not loopback: without TLS only loopback is served, such as 127.0.0.1:8080"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// A task failed while the operator ran.
    #[error(transparent)]
    Task(#[from] TaskFailure),
}

/// Runs the operator until `stop` is done or one of its tasks fails. At the end it writes
/// checkpoints and lets another replica lead.
pub async fn run(
    client: Client,
    config: RunConfig,
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let RunConfig { options, lease, listen, webhook, learners, plain, log_level, fault } = config;
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
    let mut supervisor = Supervisor::new(telemetry.clone(), fault);
    let (spec_changes, specs) = mpsc::unbounded_channel();
    let (status_changes, statuses) = mpsc::unbounded_channel();
    let caches = {
        let only_namespace = options.only_namespace.as_deref();
        let objects = ObjectWatch::new(&client, only_namespace, telemetry.clone());
        let caches = Caches { objects: objects.objects(), pods: Arc::default() };
        let spec_changes = spec_changes.clone();
        supervisor.spawn(Task::ObjectWatch, WATCH_DEADLINE, |heartbeat| {
            objects.run(spec_changes, status_changes, heartbeat)
        });
        let (api, pods) = (all_of(&client, only_namespace), caches.pods.clone());
        supervisor.spawn(Task::PodWatch, WATCH_DEADLINE, |heartbeat| {
            watch_pods(api, pods, telemetry.clone(), heartbeat)
        });
        caches
    };
    let (leads, resignation) = start_election(&mut supervisor, &client, lease, &telemetry);
    let names = webhook.as_ref().map_or(&[][..], |cert_manager| &cert_manager.names);
    let certificate = Arc::new(CurrentCertificate::new(names)?);
    let ctx = Arc::new(Context::new(ContextConfig {
        client: client.clone(),
        options: Options { has_learners: learners.is_some(), ..options },
        capabilities,
        caches,
        leads: leads.clone(),
        webhook: webhook.is_some().then(|| certificate.clone()),
        telemetry: telemetry.clone(),
    }));
    supervisor.spawn(Task::CapabilityCheck, MAX_CAPABILITY_TIME * 2, |heartbeat| {
        check_capabilities(ctx.clone(), heartbeat)
    });

    let served = Arc::new(Served {
        ctx: ctx.clone(),
        certificate: certificate.clone(),
        log_level,
        health: supervisor.health(),
    });
    if let Some(address) = plain {
        if !address.ip().is_loopback() {
            return Err(RunError::NotLoopback { address });
        }
        let (listener, served) = (listener(address).await?, served.clone());
        supervisor.spawn(Task::HttpServer, SERVER_DEADLINE, |heartbeat| {
            serve_plain(listener, served, heartbeat)
        });
    }
    if let Some(port) = learners {
        let listener = listener(port.address).await?;
        tracing::info!(address = %port.address, "listening for learners");
        let serving = serve_learners(listener, port, certificate.clone(), ctx.learners.clone());
        supervisor.spawn(Task::LearnerServer, SERVER_DEADLINE, |heartbeat| async move {
            heartbeat.wait(serving).await;
        });
    }
    if let (Some(collector), Some(spool)) = (&ctx.options.collector, &ctx.options.spool) {
        // Every replica sends what it recorded while it led.
        let (collector, spool) = (collector.clone(), spool.clone());
        supervisor.spawn(Task::DecisionSender, SENDER_DEADLINE, |heartbeat| {
            send_episodes(collector, spool, heartbeat)
        });
    }
    if let Some(address) = listen {
        let listener = listener(address).await?;
        supervisor.spawn(Task::HttpsServer, SERVER_DEADLINE, |heartbeat| {
            serve_tls(listener, served, heartbeat)
        });
    }
    if let Some(config) = webhook {
        let cert_manager = CertManager::new(client, config, certificate, telemetry, leads);
        supervisor.spawn(Task::CertManager, CERT_MANAGER_DEADLINE, |heartbeat| {
            cert_manager.run(heartbeat)
        });
    }

    let recommender = Recommender::new(ctx.clone());
    let mut stop = pin!(stop);
    let mut end = tokio::select! {
        failure = supervisor.failure() => Some(Err(failure)),
        () = stop.as_mut() => Some(Ok(())),
        () = ctx.wait_for_caches() => None,
    };
    if end.is_none() {
        let (recommender, deadline) = (recommender.clone(), recommender.deadline());
        supervisor
            .spawn(Task::Recommender, deadline, |heartbeat| recommender.run(specs, heartbeat));
        supervisor.spawn(Task::Updater, UPDATER_DEADLINE, |heartbeat| {
            Updater::new(ctx.clone()).run(statuses, heartbeat)
        });
        if ctx.options.prometheus.is_some() {
            let deadline = slo_watcher_deadline(ctx.options.interval);
            supervisor.spawn(Task::SloWatcher, deadline, |heartbeat| {
                watch_slos(ctx.clone(), spec_changes, heartbeat)
            });
        }
        end = Some(tokio::select! {
            failure = supervisor.failure() => Err(failure),
            () = stop => Ok(()),
        });
    }
    match end {
        Some(Err(failure)) => {
            // Probes and scrapes see the reason before the process ends.
            let shown = tokio::time::sleep(UNHEALTHY_TIME);
            tokio::join!(shut_down(&ctx, &recommender, resignation, UNHEALTHY_TIME), shown);
            Err(failure.into())
        }
        _ => {
            tracing::info!("stopping: writing checkpoints");
            shut_down(&ctx, &recommender, resignation, MAX_CHECKPOINT_TIME).await;
            Ok(())
        }
    }
}

fn start_election(
    supervisor: &mut Supervisor,
    client: &Client,
    lease: Option<LeaseConfig>,
    telemetry: &Arc<Telemetry>,
) -> (Leadership, Option<Resignation>) {
    let (client, telemetry) = (client.clone(), telemetry.clone());
    match lease {
        Some(config) => {
            let (elector, leads, resignation) = LeaderElector::new(client, config, telemetry);
            supervisor
                .spawn(Task::LeaderElector, lease::DEADLINE, |heartbeat| elector.run(heartbeat));
            (leads, Some(resignation))
        }
        None => {
            supervisor.spawn(Task::ServerCheck, lease::DEADLINE, |heartbeat| {
                check_server(client, telemetry, heartbeat)
            });
            (Leadership::of_a_single_replica(), None)
        }
    }
}

/// Stops acting, writes checkpoints within a time limit, and lets another replica lead.
async fn shut_down(
    ctx: &Context,
    recommender: &Arc<Recommender>,
    resignation: Option<Resignation>,
    limit: Duration,
) {
    if ctx.is_leader() {
        let recommender = recommender.clone();
        // In a task of its own: a panic here must not keep the lease.
        let checkpoints = tokio::spawn(async move { recommender.checkpoint_all().await });
        if !matches!(tokio::time::timeout(limit, checkpoints).await, Ok(Ok(()))) {
            tracing::warn!("failed to write all checkpoints in time");
        }
    }
    ctx.stop_acting();
    if let Some(resignation) = resignation {
        resignation.resign().await;
    }
}

async fn listener(address: SocketAddr) -> Result<TcpListener, RunError> {
    TcpListener::bind(address).await.map_err(|why| RunError::Address { address, why })
}

/// Discovers the capabilities of the API server at an interval, and exports whether this replica leads.
async fn check_capabilities(ctx: Arc<Context>, heartbeat: Heartbeat) {
    let mut leads = ctx.leads.clone();
    loop {
        ctx.telemetry.leads(ctx.is_leader());
        let change = tokio::time::timeout(CAPABILITY_PERIOD, leads.changed());
        if heartbeat.wait(change).await.is_ok() {
            tracing::info!(leads = ctx.is_leader(), "leadership changed");
            continue;
        }
        match tokio::time::timeout(MAX_CAPABILITY_TIME, ctx.refresh_capabilities()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => ctx.telemetry.server_error("discovery", &error),
            Err(_) => ctx.telemetry.server_timed_out("discovery", MAX_CAPABILITY_TIME),
        }
    }
}
