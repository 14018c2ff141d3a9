//! Resizes a running pod in place, or evicts it so that a new one replaces it.

use homeostat_autoscaler::update::{PodStep, WantedSizes, resources};
use homeostat_autoscaler::workload::{ContainerRecord, PodRecord};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{EvictParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Duration;

/// The time limit of one step. A working server answers much faster, and the object waits.
pub const MAX_STEP_TIME: Duration = Duration::from_secs(5);

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It was taken.
    Done,
    /// A disruption budget does not allow it now.
    BudgetExhausted {
        /// The server's message.
        why: String,
    },
    /// The server refuses to resize this pod.
    CannotResize {
        /// The server's message.
        why: String,
    },
    /// The pod no longer exists.
    Gone,
    /// The server did not answer in time: the step may have been taken.
    Unanswered,
}

/// Takes one step.
pub async fn apply(
    client: &Client,
    namespace: &str,
    step: &PodStep,
    wanted: &WantedSizes,
    pods: &[PodRecord],
) -> kube::Result<Applied> {
    let request = request(client, namespace, step, wanted, pods);
    tokio::time::timeout(MAX_STEP_TIME, request).await.unwrap_or(Ok(Applied::Unanswered))
}

/// Whether a step may have been taken in spite of an error: there was no answer, or a proxy answered
/// that does not know the result.
pub fn may_be_done(error: &kube::Error) -> bool {
    !matches!(error, kube::Error::Api(status) if status.code <= 500)
}

async fn request(
    client: &Client,
    namespace: &str,
    step: &PodStep,
    wanted: &WantedSizes,
    pods: &[PodRecord],
) -> kube::Result<Applied> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let done = match step {
        PodStep::Evict(name) => api.evict(name, &EvictParams::default()).await.map(|_| ()),
        PodStep::Resize(name) => {
            let Some(pod) = pods.iter().find(|pod| pod.name == *name) else {
                return Ok(Applied::Gone);
            };
            let change = json!({ "spec": { "containers": resized_containers(pod, wanted) } });
            let params = PatchParams::default();
            api.patch_resize(name, &params, &Patch::Strategic(change)).await.map(|_| ())
        }
    };
    let is_eviction = matches!(step, PodStep::Evict(_));
    match done {
        Ok(()) => Ok(Applied::Done),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Applied::Gone),
        // An overloaded server answers a resize the same way, which needs no budget.
        Err(kube::Error::Api(status)) if status.code == 429 && is_eviction => {
            Ok(Applied::BudgetExhausted { why: status.message.clone() })
        }
        // Such as a change of the pod's QoS class.
        Err(kube::Error::Api(status)) if status.code == 422 => {
            Ok(Applied::CannotResize { why: status.message.clone() })
        }
        Err(error) => Err(error),
    }
}

fn resized_containers(pod: &PodRecord, wanted: &WantedSizes) -> Vec<Value> {
    let resized = |container: &ContainerRecord| {
        let size = *wanted.get(&container.name)?;
        Some(json!({ "name": container.name, "resources": resources(container, size) }))
    };
    pod.containers.iter().filter_map(resized).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::{Bytes, Millicores};

    /// Servers before 1.33 have no such subresource: a test double receives the request.
    #[tokio::test]
    async fn a_resize_is_the_request_that_the_role_grants() {
        use crate::install::RIGHTS;
        let (sender, mut sent) = tokio::sync::mpsc::unbounded_channel();
        let double = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let sender = sender.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                sender.send((parts.method, parts.uri.path().to_owned(), body)).expect("read");
                let pod = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"checkout-1"}}"#;
                let body = kube::client::Body::from(pod.to_vec());
                Ok::<_, kube::Error>(http::Response::new(body))
            }
        });
        let client = Client::new(double, "shop");
        let container = ContainerRecord {
            name: "app".to_owned(),
            cpu_request: Some(Millicores::new(200)),
            memory_request: Some(Bytes::from_mib(100)),
            cpu_limit: None,
            memory_limit: None,
            oom_killed_at: None,
        };
        let pod = PodRecord {
            name: "checkout-1".to_owned(),
            uid: String::new(),
            resize: None,
            started: homeostat_core::SimTime::ZERO,
            unready_since: None,
            has_failed: false,
            ready_since: None,
            is_leaving: false,
            was_sized: false,
            containers: vec![container],
        };
        let size = (Millicores::new(300), Bytes::from_mib(64));
        let wanted: WantedSizes = [("app".to_owned(), size.into())].into();
        let step = PodStep::Resize("checkout-1".to_owned());
        let applied = apply(&client, "shop", &step, &wanted, &[pod]).await.expect("taken");
        assert_eq!(applied, Applied::Done);
        let (method, path, body) = sent.recv().await.expect("it was sent");
        assert_eq!(path, "/api/v1/namespaces/shop/pods/checkout-1/resize");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["spec"]["containers"][0]["resources"]["requests"]["cpu"], "300m");
        let right = RIGHTS.iter().find(|right| right.resources == ["pods/resize"]);
        let verbs = right.map(|right| right.verbs);
        assert_eq!((method.as_str(), verbs), ("PATCH", Some(&["patch"][..])));
    }

    #[tokio::test]
    async fn an_exhausted_budget_is_told_from_a_step_that_may_have_been_taken() {
        let applied = async |code: u16| {
            let double =
                tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
                    let status = json!({ "status": "Failure", "message": "no", "code": code });
                    let body = kube::client::Body::from(status.to_string().into_bytes());
                    let response = http::Response::builder().status(code).body(body);
                    Ok::<_, kube::Error>(response.expect("valid"))
                });
            let step = PodStep::Evict("checkout-1".to_owned());
            apply(&Client::new(double, "shop"), "shop", &step, &WantedSizes::new(), &[]).await
        };
        let refused = Applied::BudgetExhausted { why: "no".to_owned() };
        assert_eq!(applied(429).await.expect("an answer"), refused);
        for (code, may_be) in [(403, false), (500, false), (502, true), (504, true)] {
            let error = applied(code).await.expect_err("an error");
            assert_eq!(may_be_done(&error), may_be, "{code}");
        }
    }
}
