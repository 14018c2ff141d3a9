//! Leader election among several replicas of the operator, by a Lease of the cluster.
//!
//! The clocks of replicas may differ, so none compares the times in the lease with its own clock: a
//! lease has expired when it has not *changed* for its duration on the observer's own clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::{oneshot, watch};

use crate::supervisor::Heartbeat;
use crate::telemetry::Telemetry;

/// How often a lease is renewed.
const RENEW: Duration = Duration::from_secs(2);

/// Several attempts, each with a time limit of its own, fit into this time.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// The leader elector finishes its last attempt and releases the lease within this time.
const MAX_RESIGN_TIME: Duration = Duration::from_secs(5);

/// Settings of the leader election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Namespace of the lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The name of this replica, unique among all replicas.
    pub identity: String,
    /// A lease that has not changed for this long has expired.
    pub length: Duration,
    /// How often the leader renews it.
    pub renew: Duration,
    /// How often the other replicas read it.
    pub retry: Duration,
}

/// The name of the lease of an operator for one namespace, or for all of them. Operators of
/// different namespaces lead independently of each other.
pub fn lease_name(only_namespace: Option<&str>) -> String {
    let of_one = only_namespace.map(|namespace| format!("-{namespace}")).unwrap_or_default();
    format!("homeostat-operator{of_one}")
}

impl LeaseConfig {
    /// The default times: a leader that crashes is replaced within ten seconds and two retries.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            length: Duration::from_secs(10),
            renew: RENEW,
            retry: Duration::from_secs(1),
        }
    }
}

/// Whether this replica leads. Leadership has an end in time, even if no code runs at that time to
/// notice it: a process that was stopped and continues must not act once more.
#[derive(Clone)]
pub struct Leadership {
    until: watch::Receiver<Option<Instant>>,
}

impl Leadership {
    /// Leadership of the only replica, without an end.
    pub fn of_a_single_replica() -> Self {
        const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
        let (_, until) = watch::channel(Some(Instant::now() + CENTURY));
        Self { until }
    }

    /// Whether this replica leads now.
    pub fn is_held(&self) -> bool {
        self.until.borrow().is_some_and(|until| Instant::now() < until)
    }

    /// A handle that reports only changes after this call.
    pub fn from_now_on(&self) -> Self {
        let mut until = self.until.clone();
        until.mark_unchanged();
        Self { until }
    }

    /// Waits until leadership is acquired or lost.
    pub async fn changed(&mut self) {
        if self.until.changed().await.is_err() {
            // Without an elector, leadership never changes.
            std::future::pending().await
        }
    }
}

/// Checks that the API server answers. With a lease, its renewals do.
pub async fn check_server(client: Client, telemetry: Arc<Telemetry>, heartbeat: Heartbeat) {
    loop {
        match tokio::time::timeout(RENEW, client.apiserver_version()).await {
            Ok(Ok(_)) => telemetry.server_answered(),
            Ok(Err(error)) => telemetry.server_error("version", &error),
            Err(_) => telemetry.server_timed_out("version", RENEW),
        }
        heartbeat.beat();
        tokio::time::sleep(RENEW).await;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Acquire or renew the lease.
    Take,
    Wait,
}

/// The lease as last read, and when it last changed on this replica's clock.
#[derive(Debug, Default)]
struct Observed {
    record: Option<(Option<String>, Option<Timestamp>)>,
    changed_at: Option<Instant>,
}

impl Observed {
    fn next(&mut self, config: &LeaseConfig, spec: &LeaseSpec, now: Instant) -> Next {
        let record = (spec.holder_identity.clone(), spec.renew_time.as_ref().map(|time| time.0));
        if self.record.as_ref() != Some(&record) {
            self.record = Some(record);
            self.changed_at = Some(now);
        }
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if holder.is_empty() || holder == config.identity {
            return Next::Take;
        }
        let length = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let length = length.map_or(config.length, Duration::from_secs);
        let is_over = self.changed_at.is_some_and(|changed| now.duration_since(changed) > length);
        if is_over { Next::Take } else { Next::Wait }
    }
}

/// Ends the leadership of this replica.
pub struct Resignation {
    resign: oneshot::Sender<()>,
    resigned: oneshot::Receiver<()>,
}

impl Resignation {
    /// Stops leading and releases the lease, so that another replica can lead before it expires.
    pub async fn resign(self) {
        // An elector that has ended or stalled holds a lease that expires by itself.
        let _ = self.resign.send(());
        let _ = tokio::time::timeout(MAX_RESIGN_TIME, self.resigned).await;
    }
}

/// Acquires the lease when it is free, and renews it as long as it can. A replica that cannot
/// renew it stops leading some time before others may acquire it.
pub struct LeaderElector {
    api: Api<Lease>,
    config: LeaseConfig,
    telemetry: Arc<Telemetry>,
    until: watch::Sender<Option<Instant>>,
    resign: oneshot::Receiver<()>,
    resigned: oneshot::Sender<()>,
}

impl LeaderElector {
    /// An elector that has not started yet, with handles to observe and to stop it.
    pub fn new(
        client: Client,
        config: LeaseConfig,
        telemetry: Arc<Telemetry>,
    ) -> (Self, Leadership, Resignation) {
        let (until, leadership) = watch::channel(None);
        let (resign, asked_to_resign) = oneshot::channel();
        let (has_resigned, resigned) = oneshot::channel();
        let elector = Self {
            api: Api::namespaced(client, &config.namespace),
            config,
            telemetry,
            until,
            resign: asked_to_resign,
            resigned: has_resigned,
        };
        (elector, Leadership { until: leadership }, Resignation { resign, resigned })
    }

    /// Runs until it is asked to resign.
    pub async fn run(self, heartbeat: Heartbeat) {
        let Self { api, config, telemetry, until, mut resign, resigned } = self;
        let mut observed = Observed::default();
        loop {
            // Other replicas count from the moment at which they see the renewal, which is later.
            let asked = Instant::now();
            let holds = tokio::time::timeout(config.renew, attempt(&api, &config, &mut observed));
            match holds.await {
                Ok(Ok(holds)) => {
                    telemetry.server_answered();
                    publish(&until, holds.then(|| asked + config.length - config.renew));
                }
                // Silence or refusal: the lease may still be held by this replica.
                Ok(Err(error)) => telemetry.server_error("lease", &error),
                Err(_) => telemetry.server_timed_out("lease", config.renew),
            }
            let is_over = until.borrow().is_some_and(|until| Instant::now() >= until);
            if is_over {
                publish(&until, None);
            }
            heartbeat.beat();
            let holds = until.borrow().is_some();
            let pause = tokio::time::sleep(if holds { config.renew } else { config.retry });
            tokio::select! {
                () = pause => {}
                _ = &mut resign => break,
            }
        }
        // First this replica stops leading, then others may start.
        publish(&until, None);
        let released = tokio::time::timeout(config.renew, release(&api, &config)).await;
        if !matches!(released, Ok(Ok(()))) {
            tracing::warn!(?released, "failed to release the lease: it expires by itself");
        }
        // The process may have stopped waiting for it.
        let _ = resigned.send(());
    }
}

/// Clears the holder of the lease, if this replica holds it.
async fn release(api: &Api<Lease>, config: &LeaseConfig) -> kube::Result<()> {
    let Some(mut lease) = api.get_opt(&config.name).await? else { return Ok(()) };
    let Some(spec) = lease.spec.as_mut() else { return Ok(()) };
    if spec.holder_identity.as_ref() == Some(&config.identity) {
        spec.holder_identity = Some(String::new());
        // Refused if another replica wrote it meanwhile, which then holds it.
        won(api.replace(&config.name, &PostParams::default(), &lease).await)?;
    }
    Ok(())
}

/// Publishes until when this replica leads. Receivers are notified when it starts or stops leading,
/// not of renewals.
fn publish(until: &watch::Sender<Option<Instant>>, now: Option<Instant>) {
    until.send_if_modified(|before| std::mem::replace(before, now).is_some() != now.is_some());
}

/// Acquires or renews the lease if possible; returns whether this replica holds it.
async fn attempt(
    api: &Api<Lease>,
    config: &LeaseConfig,
    observed: &mut Observed,
) -> kube::Result<bool> {
    let params = PostParams::default();
    let Some(mut lease) = api.get_opt(&config.name).await? else {
        let lease = Lease {
            metadata: ObjectMeta { name: Some(config.name.clone()), ..ObjectMeta::default() },
            spec: Some(ours(config, None)),
        };
        return won(api.create(&params, &lease).await);
    };
    let spec = lease.spec.take().unwrap_or_default();
    if observed.next(config, &spec, Instant::now()) == Next::Wait {
        return Ok(false);
    }
    lease.spec = Some(ours(config, Some(&spec)));
    // The server compares the resource version: of two replicas that write, one is refused.
    won(api.replace(&config.name, &params, &lease).await)
}

fn won<T>(written: kube::Result<T>) -> kube::Result<bool> {
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

fn ours(config: &LeaseConfig, before: Option<&LeaseSpec>) -> LeaseSpec {
    let now = MicroTime(Timestamp::now());
    let is_ours =
        before.is_some_and(|spec| spec.holder_identity.as_ref() == Some(&config.identity));
    let acquired = before.filter(|_| is_ours).and_then(|spec| spec.acquire_time.clone());
    let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
    LeaseSpec {
        holder_identity: Some(config.identity.clone()),
        lease_duration_seconds: Some(config.length.as_secs().try_into().unwrap_or(i32::MAX)),
        acquire_time: Some(acquired.unwrap_or_else(|| now.clone())),
        renew_time: Some(now),
        lease_transitions: Some(if is_ours { transitions } else { transitions + 1 }),
        ..LeaseSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(holder: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(10),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).expect("a time"))),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_expires_when_it_has_not_changed_for_its_duration() {
        let config = LeaseConfig::new("system", "operator", "b");
        let mut observed = Observed::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        // The times in the lease come from another clock that is years off: they are ignored.
        assert_eq!(observed.next(&config, &spec("a", 1), at(0)), Next::Wait);
        assert_eq!(observed.next(&config, &spec("a", 1), at(9)), Next::Wait);
        assert_eq!(observed.next(&config, &spec("a", 3), at(10)), Next::Wait);
        assert_eq!(observed.next(&config, &spec("a", 3), at(20)), Next::Wait);
        assert_eq!(observed.next(&config, &spec("a", 3), at(21)), Next::Take);
    }

    #[test]
    fn a_lease_that_is_free_or_held_by_this_replica_is_taken() {
        let config = LeaseConfig::new("system", "operator", "b");
        let now = Instant::now();
        assert_eq!(Observed::default().next(&config, &spec("b", 1), now), Next::Take);
        assert_eq!(Observed::default().next(&config, &spec("", 1), now), Next::Take);
        assert_eq!(Observed::default().next(&config, &LeaseSpec::default(), now), Next::Take);
    }

    #[test]
    fn leadership_ends_in_time_without_a_notification() {
        let (sender, until) = watch::channel(None);
        let leadership = Leadership { until };
        assert!(!leadership.is_held());
        publish(&sender, Some(Instant::now() + Duration::from_secs(60)));
        assert!(leadership.is_held());
        publish(&sender, Some(Instant::now() - Duration::from_millis(1)));
        assert!(!leadership.is_held());
    }

    #[test]
    fn transitions_count_changes_of_the_holder_only() {
        let config = LeaseConfig::new("system", "operator", "b");
        assert_eq!(ours(&config, None).lease_transitions, Some(1));
        let taken = ours(&config, Some(&spec("a", 1)));
        assert_eq!(taken.lease_transitions, Some(1));
        let renewed = ours(&config, Some(&taken));
        assert_eq!(renewed.lease_transitions, Some(1));
        assert_eq!(renewed.acquire_time, taken.acquire_time);
    }
}
