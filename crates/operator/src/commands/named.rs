//! Finds the workload or object of a command line argument.

use anyhow::{Context, bail};
use homeostat_autoscaler::api::{Plan, ScaleTargetRef};
use homeostat_autoscaler::history::WorkloadSpec;
use homeostat_autoscaler::workload::{HpaBounds, Workload, pods_of_workload, read_selector};
use homeostat_operator::cli_output::{KnownHpa, nearest, plain};
use homeostat_operator::cluster::{Targets, horizontal_autoscalers, pods, workloads};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;

/// A workload, its plan, and the HPA that scales it.
pub(crate) struct Named {
    pub(crate) workload: Workload,
    pub(crate) plan: Plan,
    pub(crate) hpa: KnownHpa,
}

/// What is read once from the cluster.
pub(crate) struct Cluster {
    client: Client,
    workloads: Vec<Workload>,
    /// None if they cannot be listed.
    hpas: Option<Vec<HpaBounds>>,
    pub(crate) pods: Vec<Pod>,
    namespace: Option<String>,
}

impl Cluster {
    /// Reads a namespace, or all of them.
    pub(crate) async fn of(client: &Client, namespace: Option<&str>) -> anyhow::Result<Self> {
        let failed = |what: &str| format!("failed to list {what}");
        Ok(Self {
            client: client.clone(),
            workloads: workloads(client, namespace).await.with_context(|| failed("workloads"))?,
            pods: pods(client, namespace).await.with_context(|| failed("pods"))?,
            hpas: known_autoscalers(client, namespace).await,
            namespace: namespace.map(str::to_owned),
        })
    }

    /// Every workload.
    pub(crate) fn all(&self, spec: &WorkloadSpec) -> anyhow::Result<Vec<Named>> {
        self.workloads.iter().map(|workload| self.plan(workload.clone(), spec)).collect()
    }

    /// The workload of a name such as `deploy/checkout`, `checkout` or `mpa/checkout`.
    pub(crate) async fn named(&self, name: &str, spec: &WorkloadSpec) -> anyhow::Result<Named> {
        let (kind, name) = match name.split_once('/') {
            Some((kind, name)) => (Some(read_kind(kind)?), name),
            None => (None, name),
        };
        if kind == Some(OBJECT) {
            anyhow::ensure!(
                *spec == WorkloadSpec::default(),
                "the object has its own SLO and bounds: leave the options for them out"
            );
            return self.object(name).await;
        }
        let is_meant = |workload: &&Workload| {
            workload.target.name == name && kind.is_none_or(|kind| workload.target.kind == kind)
        };
        let mut found = self.workloads.iter().filter(is_meant);
        let Some(workload) = found.next() else { bail!(self.unknown(kind, name)) };
        if let Some(other) = found.next() {
            bail!("{name:?} is ambiguous: use {workload} or {other}");
        }
        self.plan(workload.clone(), spec)
    }

    fn plan(&self, workload: Workload, spec: &WorkloadSpec) -> anyhow::Result<Named> {
        let hpa = self.hpa(&workload);
        let plan = spec.plan(&workload, hpa.bounds().map(|hpa| hpa.replicas));
        let plan = plan.with_context(|| format!("invalid options for {workload}"))?;
        Ok(Named { workload, plan, hpa })
    }

    fn hpa(&self, workload: &Workload) -> KnownHpa {
        let Some(hpas) = &self.hpas else { return KnownHpa::Unknown };
        let ScaleTargetRef { kind, name, .. } = &workload.target;
        let scales = |hpa: &&HpaBounds| {
            hpa.namespace == workload.namespace && (&hpa.target.0, &hpa.target.1) == (kind, name)
        };
        hpas.iter().find(scales).cloned().map_or(KnownHpa::None, KnownHpa::Some)
    }

    async fn object(&self, name: &str) -> anyhow::Result<Named> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let object = super::object(&self.client, namespace, name).await?;
        let plan = Plan::try_new(&object.spec)?;
        let known = self.workloads.iter().find(|workload| workload.target == plan.target);
        let workload = match known {
            Some(workload) => workload.clone(),
            None => self.other_workload(namespace, &plan.target).await?,
        };
        let hpa = self.hpa(&workload);
        Ok(Named { workload, plan, hpa })
    }

    /// A workload of another kind, from its scale subresource and its pods.
    async fn other_workload(
        &self,
        namespace: &str,
        target: &ScaleTargetRef,
    ) -> anyhow::Result<Workload> {
        let scaled = Targets::new(self.client.clone()).scale(namespace, target).await?;
        let mut workload = Workload {
            namespace: namespace.to_owned(),
            target: target.clone(),
            replicas: scaled.replicas,
            selector: read_selector(&scaled.selector)?,
            containers: Vec::new(),
        };
        let pods = pods_of_workload(&workload, &self.pods);
        workload.containers = pods.into_iter().next().map(|pod| pod.containers).unwrap_or_default();
        Ok(workload)
    }

    fn unknown(&self, kind: Option<&str>, name: &str) -> String {
        let place = self.namespace.as_deref().unwrap_or("any namespace");
        let kind = kind.unwrap_or("Deployment, StatefulSet or ReplicaSet without an owner");
        let names = self.workloads.iter().map(|workload| &workload.target.name[..]);
        let near: Vec<String> = nearest(name, names)
            .into_iter()
            .filter_map(|near| self.workloads.iter().find(|workload| workload.target.name == near))
            .map(ToString::to_string)
            .collect();
        let hint = match &near[..] {
            _ if self.workloads.is_empty() => "there are no workloads; see -n and -A".to_owned(),
            [] => {
                format!("there are {} others; omit the name to see them", self.workloads.len())
            }
            near => format!("did you mean {}?", near.join(" or ")),
        };
        format!("there is no {kind} named {name:?} in {place}: {hint}")
    }
}

/// A user without the right to list HPAs still gets recommendations.
async fn known_autoscalers(client: &Client, namespace: Option<&str>) -> Option<Vec<HpaBounds>> {
    let found = horizontal_autoscalers(client, namespace).await;
    if let Err(why) = &found {
        eprintln!(
            "warning: HorizontalPodAutoscalers cannot be listed, so patches do not contain the number \
             of pods: {}",
            plain(&why.to_string())
        );
    }
    found.ok()
}

const OBJECT: &str = "MultidimPodAutoscaler";

fn read_kind(text: &str) -> anyhow::Result<&'static str> {
    Ok(match text.to_lowercase().as_str() {
        "deploy" | "deployment" | "deployments" => "Deployment",
        "sts" | "statefulset" | "statefulsets" => "StatefulSet",
        "rs" | "replicaset" | "replicasets" => "ReplicaSet",
        "mpa" | "multidimpodautoscaler" | "multidimpodautoscalers" => OBJECT,
        _ => bail!("unknown kind of workload {text:?}: use deploy, sts, rs or mpa"),
    })
}
