//! One of several copies leads, by a Lease of the cluster.
//!
//! Clocks of copies may differ, so nobody compares the times in the lease with its own: a
//! lease is over when it has not *changed* for its length on the observer's own clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::telemetry::Telemetry;

/// How often a lease is renewed.
const RENEW: Duration = Duration::from_secs(2);

/// How a lease is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Namespace of the lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are, different for every copy.
    pub identity: String,
    /// A lease that has not changed for this long is free.
    pub length: Duration,
    /// How often it is renewed.
    pub renew: Duration,
    /// How often those who wait look at it.
    pub look: Duration,
}

/// The name of the lease of an operator that looks after one namespace, or after all: those of
/// different namespaces do not wait for each other.
pub fn lease_name(only_namespace: Option<&str>) -> String {
    let of_one = only_namespace.map(|namespace| format!("-{namespace}")).unwrap_or_default();
    format!("homeostat-operator{of_one}")
}

impl LeaseConfig {
    /// The usual times: a leader that dies is followed within ten seconds and two looks.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            length: Duration::from_secs(10),
            renew: RENEW,
            look: Duration::from_secs(1),
        }
    }
}

/// Whether this copy leads. It leads for a time and no longer, whether or not anybody finds out
/// that the time is over: a program that was stopped and goes on must not act once more.
#[derive(Clone)]
pub struct Leadership {
    until: watch::Receiver<Option<Instant>>,
}

impl Leadership {
    /// That of a single copy, which nobody has to follow.
    pub fn of_a_single_copy(client: Client, telemetry: Arc<Telemetry>) -> Self {
        const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
        let (sender, until) = watch::channel(Some(Instant::now() + CENTURY));
        // No lease says whether the server answers: it is asked all the same.
        tokio::spawn(async move {
            while !sender.is_closed() {
                let asked = tokio::time::timeout(RENEW, client.apiserver_version());
                match asked.await {
                    Ok(Ok(_)) => telemetry.heard(),
                    Ok(Err(error)) => telemetry.server_error("version", &error),
                    Err(_) => telemetry.server_silent("version", RENEW),
                }
                tokio::time::sleep(RENEW).await;
            }
        });
        Self { until }
    }

    /// Whether it leads now.
    pub fn is_held(&self) -> bool {
        self.until.borrow().is_some_and(|until| Instant::now() < until)
    }

    /// One that waits for changes from now on.
    pub fn from_now_on(&self) -> Self {
        let mut until = self.until.clone();
        until.mark_unchanged();
        Self { until }
    }

    /// Waits until it has been taken or lost.
    pub async fn changed(&mut self) {
        if self.until.changed().await.is_err() {
            // The program is about to end: nothing changes any more.
            std::future::pending().await
        }
    }
}

/// What a copy does next about a lease that it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It takes or renews it.
    Take,
    /// It waits.
    Wait,
}

/// What was seen of the lease, and when it last changed on our own clock.
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

/// Whoever holds the lease, or waits for it.
pub struct Holder {
    resign: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Holder {
    /// No longer leads, and gives the lease up, so that nobody has to wait for its end.
    pub async fn resign(self) {
        // A task that has ended holds nothing.
        let _ = self.resign.send(());
        let _ = self.task.await;
    }
}

/// Holds the lease as long as it can. Whoever cannot renew it no longer leads a while before
/// others may take it, whatever the server thinks.
pub fn hold(
    client: Client,
    config: LeaseConfig,
    telemetry: Arc<Telemetry>,
) -> (Leadership, Holder) {
    let (until, receiver) = watch::channel(None);
    let (resign, mut resigned) = oneshot::channel();
    let task = tokio::spawn(async move {
        let api: Api<Lease> = Api::namespaced(client, &config.namespace);
        let mut observed = Observed::default();
        while !until.is_closed() {
            // Others count from the moment at which they see the renewal, which is later.
            let asked = Instant::now();
            let holds = tokio::time::timeout(config.renew, attempt(&api, &config, &mut observed));
            match holds.await {
                Ok(Ok(holds)) => {
                    telemetry.heard();
                    say(&until, holds.then(|| asked + config.length - config.renew));
                }
                // Silence or refusal: the lease may still be ours.
                Ok(Err(error)) => telemetry.server_error("lease", &error),
                Err(_) => telemetry.server_silent("lease", config.renew),
            }
            let is_over = until.borrow().is_some_and(|until| Instant::now() >= until);
            if is_over {
                say(&until, None);
            }
            let holds = until.borrow().is_some();
            let pause = tokio::time::sleep(if holds { config.renew } else { config.look });
            tokio::select! {
                () = pause => {}
                _ = &mut resigned => break,
            }
        }
        // First nobody leads here, then others may.
        say(&until, None);
        let given_up = tokio::time::timeout(config.renew, give_up(&api, &config)).await;
        if !matches!(given_up, Ok(Ok(()))) {
            tracing::warn!(?given_up, "the lease was not given up: it ends by itself");
        }
    });
    (Leadership { until: receiver }, Holder { resign, task })
}

/// Makes the lease nobody's, if it is ours.
async fn give_up(api: &Api<Lease>, config: &LeaseConfig) -> kube::Result<()> {
    let Some(mut lease) = api.get_opt(&config.name).await? else { return Ok(()) };
    let Some(spec) = lease.spec.as_mut() else { return Ok(()) };
    if spec.holder_identity.as_ref() == Some(&config.identity) {
        spec.holder_identity = Some(String::new());
        // Refused if somebody else wrote it meanwhile, who then holds it.
        won(api.replace(&config.name, &PostParams::default(), &lease).await)?;
    }
    Ok(())
}

/// Says until when we lead; that somebody leads or no longer does is news, a renewal is not.
fn say(until: &watch::Sender<Option<Instant>>, now: Option<Instant>) {
    until.send_if_modified(|before| std::mem::replace(before, now).is_some() != now.is_some());
}

/// Takes or renews the lease, if it may; whether we hold it.
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
    // The version that was read goes along: of two who take at once, one is refused.
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
    fn a_lease_is_over_when_it_has_not_changed_for_its_length() {
        let config = LeaseConfig::new("system", "operator", "b");
        let mut observed = Observed::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        // The times in the lease are of another clock, years away: they say nothing.
        assert_eq!(observed.next(&config, &spec("a", 1), at(0)), Next::Wait);
        assert_eq!(observed.next(&config, &spec("a", 1), at(9)), Next::Wait);
        assert_eq!(observed.next(&config, &spec("a", 3), at(10)), Next::Wait);
        assert_eq!(observed.next(&config, &spec("a", 3), at(20)), Next::Wait);
        assert_eq!(observed.next(&config, &spec("a", 3), at(21)), Next::Take);
    }

    #[test]
    fn a_lease_that_is_ours_or_nobodys_is_taken() {
        let config = LeaseConfig::new("system", "operator", "b");
        let now = Instant::now();
        assert_eq!(Observed::default().next(&config, &spec("b", 1), now), Next::Take);
        assert_eq!(Observed::default().next(&config, &spec("", 1), now), Next::Take);
        assert_eq!(Observed::default().next(&config, &LeaseSpec::default(), now), Next::Take);
    }

    #[test]
    fn nobody_leads_longer_than_its_time_even_if_it_never_hears_of_the_end() {
        let (sender, until) = watch::channel(None);
        let leadership = Leadership { until };
        assert!(!leadership.is_held());
        say(&sender, Some(Instant::now() + Duration::from_secs(60)));
        assert!(leadership.is_held());
        say(&sender, Some(Instant::now() - Duration::from_millis(1)));
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
