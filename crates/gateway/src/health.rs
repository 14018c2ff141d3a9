//! Checks upstreams: which are healthy, and which models they serve.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinSet;

use crate::gateway::Gateway;
use crate::upstream::Upstream;

/// Checks all upstreams once.
pub async fn check_all(gateway: &Arc<Gateway>) {
    let mut checks = JoinSet::new();
    for upstream in gateway.scheduler.upstreams() {
        let gateway = gateway.clone();
        checks.spawn(async move { check(&gateway, &upstream).await });
    }
    checks.join_all().await;
}

/// Checks all upstreams, for ever.
pub async fn keep_checking(gateway: Arc<Gateway>) {
    loop {
        tokio::time::sleep(gateway.settings().health.interval).await;
        check_all(&gateway).await;
    }
}

async fn check(gateway: &Arc<Gateway>, upstream: &Upstream) {
    let settings = gateway.settings();
    let name = &upstream.settings.name;
    match upstream.list_models(settings.health.timeout).await {
        Ok(listed) => {
            if let Some(missing) = missing(upstream, &listed) {
                tracing::warn!(
                    upstream = name,
                    "it does not list the model {missing:?} of the settings"
                );
            }
            upstream.succeeded();
            let models = upstream.settings.models.is_none().then_some(listed);
            gateway.scheduler.set_health(upstream, true, models);
        }
        Err(reason) => {
            let failures = upstream.failed();
            // A server that is down for hours is worth a few lines, not thousands.
            if failures <= settings.health.failures {
                tracing::warn!(upstream = name, failures, "a health check failed: {reason}");
            }
            if failures >= settings.health.failures {
                gateway.scheduler.set_health(upstream, false, None);
            }
        }
    }
}

fn missing<'a>(upstream: &'a Upstream, listed: &BTreeSet<String>) -> Option<&'a String> {
    upstream.settings.models.as_ref()?.iter().find(|model| !listed.contains(*model))
}
