//! The requests that every arm starts from.

use std::time::Duration;

use homeostat_testbed::{IngressConfig, Load, Workload};
use serde::Serialize;

use crate::arm::{Mode, Operator, create_object};
use crate::run::{Bench, NAME};
use crate::settings::{MEAN_RATE, MIN_REPLICAS};

/// What a pod requests.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Size {
    pub(crate) cpu: String,
    pub(crate) memory: String,
}

/// What VPA's rule gives a pod at the mean load on the fewest pods: the operator says it in its
/// status, as `alternatives.vpaTarget`, after ten looks at pods that have more than enough.
pub(crate) async fn requests_at_mean_load(bench: &Bench<'_>) -> Size {
    let namespace = "calibration";
    let workload = Workload {
        namespace,
        name: NAME,
        replicas: MIN_REPLICAS,
        cpu: "800m",
        memory: "64Mi",
        iterations: bench.iterations,
        has_cpu_limit: bench.settings.has_cpu_limits,
    };
    workload.create(&bench.client).await;
    bench.wait_for_pods(namespace, MIN_REPLICAS).await;
    let operator = Operator {
        programs: bench.programs,
        namespace,
        name: NAME,
        run: namespace,
        webhook_port: bench.webhook_port,
    };
    create_object(&bench.client, &operator, bench.settings, Mode::Recommend).await;
    let server = operator.start(bench.cluster, bench.settings);
    let seconds = 10.0 * bench.settings.sync_s as f64;
    bench.metrics.begin(namespace);
    let ingress = IngressConfig {
        kubeconfig: bench.cluster.cluster.admin_kubeconfig(),
        namespace: namespace.to_owned(),
        service: NAME.to_owned(),
        run: namespace.to_owned(),
        metrics: bench.metrics.clone(),
    };
    let ingress = ingress.start(Load::steady(MEAN_RATE, seconds).arrivals(bench.settings.seed));
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let object = bench.our_object(namespace).await;
    let target = &object["status"]["alternatives"]["vpaTarget"];
    let amount = |name: &str| target[name].as_str().map(str::to_owned);
    let size = amount("cpu").zip(amount("memory"));
    let (cpu, memory) = size.unwrap_or_else(|| {
        let status = serde_json::to_string_pretty(&object["status"]).unwrap_or_default();
        panic!("the operator does not say what VPA would do: {status}")
    });
    ingress.stop();
    drop(server);
    bench.remove(namespace).await;
    Size { cpu, memory }
}
