//! A real Prometheus that returns wrong data, hangs or crashes: nothing is scaled down because of it.

use std::process::Command;
use std::time::{Duration, Instant};

use homeostat_autoscaler::measure::limited;
use homeostat_operator::measure::{Prometheus, PrometheusAddress};
use homeostat_testbed::{Exporter, PrometheusServer};
use serde_json::{Value, json};

use super::cluster::fresh_folder;
use super::operator::{Operator, OperatorConfig, eventually, eventually_within};
use super::shop::{Shop, spec};

/// A workload of four idle pods that is scaled down as soon as its metrics are usable.
async fn idle(shop: &Shop, name: &str, (cpu, memory): (&str, &str), query: Option<&str>) {
    shop.deployment(name, 4).await;
    for place in 0..4 {
        shop.uses(&format!("{name}-{place}"), cpu, memory).await;
    }
    let mut object = spec(name, "Auto");
    object["goals"] =
        json!({ "metrics": [{ "resource": { "name": "cpu", "averageUtilization": 50 } }] });
    if let Some(query) = query {
        object["goals"]["slo"] =
            json!({ "latency": { "percentile": "99", "threshold": "250ms", "query": query } });
    }
    object["constraints"] = constraints();
    shop.autoscaler(name, object).await.expect("taken");
}

fn constraints() -> Value {
    json!({
        "containerControlledResources": [],
        "global": {
            "minReplicas": 1, "maxReplicas": 8,
            "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } },
        },
    })
}

/// Waits until a metric is refused for a reason, by condition, event and metrics.
async fn is_reported(shop: &Shop, operator: &Operator, name: &str, why: &str) {
    let told = async || {
        let message = shop.condition(name, "MetricsFresh", "FallenBack").await;
        message.contains(why).then_some(())
    };
    eventually(&format!("{name} to say {why:?}"), told).await;
    let note = shop.event(name, "FallenBack").await;
    assert!(note.contains("MetricsFresh"), "{note}");
    let series = format!("name=\"{name}\",condition=\"MetricsFresh\"}} 0");
    let metrics = operator.get("/metrics").expect("it answers");
    assert!(metrics.contains(&series), "no {series} in {metrics}");
}

#[tokio::test]
async fn nothing_is_scaled_down_on_wrong_or_missing_answers_of_prometheus() {
    const IDLE: (&str, &str) = ("20m", "100Mi");
    let Some(shop) = Shop::open("lies").await else { return };
    let exporter = Exporter::start();
    for (series, value) in [
        ("honest", "0.1"),
        ("zero", "0"),
        ("nan", "NaN"),
        ("many{route=\"a\"}", "0.1"),
        ("many{route=\"b\"}", "0.1"),
        ("contrary", "0.1"),
        ("old", "0.1"),
    ] {
        exporter.say(series, value);
    }
    let prometheus = PrometheusServer::start(&fresh_folder("prometheus"), &exporter);
    idle(&shop, "honest", IDLE, Some("honest")).await;
    idle(&shop, "zero", IDLE, Some("zero")).await;
    idle(&shop, "nan", IDLE, Some("nan")).await;
    idle(&shop, "nothing", IDLE, Some("nothing")).await;
    idle(&shop, "many", IDLE, Some("many")).await;
    idle(&shop, "contrary", ("0", "100Mi"), Some("contrary")).await;
    idle(&shop, "made-up", ("0", "0"), None).await;
    idle(&shop, "plain", ("250m", "100Mi"), None).await;
    let lies = [
        ("zero", "a latency of 0 s is impossible"),
        ("nan", "NaN is not a valid amount"),
        ("nothing", "prometheus has no such metric"),
        ("many", "returns 2 series"),
        ("contrary", "no pod uses any CPU, but requests are answered"),
        ("made-up", "none uses any memory"),
    ];
    let url = prometheus.url();
    // Its series have no label of a namespace.
    let any = "--prometheus-any-namespace";
    let arguments = ["--no-webhook", "--fall-back-after", "3s", "--prometheus", &url, any];
    let config = OperatorConfig { arguments: &arguments, copy: "" };
    let operator = Operator::start(shop.cluster, &shop.namespace, &config);
    // The workload with valid metrics is scaled down: the others could be as well.
    eventually("the workload with valid metrics to shrink", async || {
        (shop.replicas("honest").await == 1).then_some(())
    })
    .await;
    let told = lies.iter().map(|(name, why)| is_reported(&shop, &operator, name, why));
    futures::future::join_all(told).await;

    // The series of a stopped exporter ends, and its last value is not used.
    idle(&shop, "old", ("400m", "100Mi"), Some("old")).await;
    shop.condition("old", "SloMet", "AsPlanned").await;
    exporter.say_no_more_of("old");
    is_reported(&shop, &operator, "old", "prometheus has no such metric").await;
    let kept = shop.replicas("old").await;
    for place in 0..4 {
        shop.uses(&format!("old-{place}"), "10m", "100Mi").await;
    }

    // It hangs: objects without queries are not delayed.
    prometheus.server.pause();
    is_reported(&shop, &operator, "honest", "no answer within 5 s").await;
    for place in 0..4 {
        shop.uses(&format!("plain-{place}"), "490m", "100Mi").await;
    }
    let asked = Instant::now();
    eventually("the workload without a query to grow", async || {
        (shop.replicas("plain").await == 8).then_some(())
    })
    .await;
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    prometheus.server.resume();
    shop.condition("honest", "MetricsFresh", "AsPlanned").await;

    prometheus.server.kill();
    is_reported(&shop, &operator, "honest", "prometheus does not answer").await;
    for (name, _) in lies {
        assert_eq!(shop.replicas(name).await, 4, "{name}");
    }
    assert!(shop.replicas("old").await >= kept);
    assert_eq!(shop.replicas("honest").await, 1);
}

#[tokio::test]
async fn usage_that_drops_to_zero_in_all_pods_at_once_is_not_trusted_at_first() {
    let Some(shop) = Shop::open("sudden").await else { return };
    idle(&shop, "checkout", ("250m", "100Mi"), None).await;
    let config = OperatorConfig { arguments: &["--no-webhook"], copy: "" };
    let operator = Operator::start(shop.cluster, &shop.namespace, &config);
    shop.condition("checkout", "MetricsFresh", "AsPlanned").await;
    for place in 0..4 {
        shop.uses(&format!("checkout-{place}"), "0", "100Mi").await;
    }
    let message = shop.condition("checkout", "MetricsFresh", "MetricsContradictory").await;
    assert!(message.contains("stopped using CPU at the same time"), "{message}");
    shop.event("checkout", "MetricsContradictory").await;
    let metrics = operator.get("/metrics").expect("it answers");
    assert!(metrics.contains("condition=\"MetricsFresh\"} 0"), "{metrics}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(shop.replicas("checkout").await, 4);
}

#[tokio::test]
async fn an_slo_violation_between_two_resyncs_is_answered_before_the_next() {
    const INTERVAL: Duration = Duration::from_secs(60);
    let Some(shop) = Shop::open("sentry").await else { return };
    let exporter = Exporter::start();
    exporter.say("latency", "0.1");
    let prometheus = PrometheusServer::start(&fresh_folder("sentry-prometheus"), &exporter);
    idle(&shop, "checkout", ("250m", "100Mi"), Some("latency")).await;
    let address = PrometheusAddress {
        url: prometheus.url(),
        timeout: Duration::from_secs(5),
        ..PrometheusAddress::default()
    };
    let known = Prometheus::new(&address).expect("an address");
    eventually("the first scrape", async || known.instant("latency").await.ok()).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_homeostat-operator"));
    command
        .args(["run", "--no-webhook", "--no-leader-election"])
        .args(["--interval", &format!("{}s", INTERVAL.as_secs())])
        .args(["--only-namespace", &shop.namespace, "--namespace", &shop.namespace])
        .args(["--prometheus", &prometheus.url(), "--prometheus-any-namespace"])
        .env("KUBECONFIG", shop.cluster.admin_kubeconfig());
    let started = Instant::now();
    let _operator = Operator::spawn(shop.cluster, &shop.namespace, &mut command);
    shop.condition("checkout", "SloMet", "AsPlanned").await;
    exporter.say("latency", "0.6");
    // The usage has not changed: only latency can be the reason.
    let doubled = async || (shop.replicas("checkout").await == 8).then_some(());
    eventually_within(INTERVAL, "twice the pods", doubled).await;
    let took = started.elapsed();
    assert!(took < INTERVAL, "{took:?}");
}

/// Queries of an object in the namespace shop, whose own series say 1 and those of others 100.
const QUERIES: [(&str, f64); 14] = [
    ("sum(revenue)", 1.0),
    ("sum by (x) (revenue)", 1.0),
    ("sum(revenue) by (x)", 1.0),
    ("sum({__name__=~\"rev.*\"})", 1.0),
    ("sum(revenue{namespace=~\".*\"})", 1.0),
    ("sum(revenue{namespace!=\"shop\"}) or vector(7)", 7.0),
    ("sum(max_over_time(revenue[1m]))", 1.0),
    ("sum(max_over_time(revenue[1m:1s]))", 1.0),
    ("sum(revenue) + on () group_left () sum(revenue)", 2.0),
    ("sum(revenue) # comment {\n + sum(revenue)", 2.0),
    ("sum(label_replace(revenue, \"y\", \"}\", \"x\", \"(.*)\"))", 1.0),
    ("count(revenue == bool 1)", 1.0),
    ("sum(revenue) unless absent(revenue)", 1.0),
    ("histogram_quantile(0.9, sum by (le) (bytes_bucket{x=\"}\"} or bytes_bucket))", 0.9),
];

#[tokio::test]
async fn a_query_of_an_object_reads_no_series_of_another_namespace() {
    let exporter = Exporter::start();
    for (namespace, value) in [("shop", "1"), ("bank", "100"), ("", "100")] {
        exporter.say(&format!("revenue{{namespace=\"{namespace}\",x=\"a\"}}"), value);
        for le in ["1", "+Inf"] {
            exporter.say(&format!("bytes_bucket{{namespace=\"{namespace}\",le=\"{le}\"}}"), value);
        }
    }
    let prometheus = PrometheusServer::start(&fresh_folder("namespaces-prometheus"), &exporter);
    let address = PrometheusAddress {
        url: prometheus.url(),
        timeout: Duration::from_secs(5),
        ..PrometheusAddress::default()
    };
    let known = Prometheus::new(&address).expect("an address");
    // A subquery looks at whole seconds only: it sees nothing within a second of the first scrape.
    let sampled = "sum(max_over_time(revenue[1m:1s])) + sum(bytes_bucket)";
    eventually("the first scrape", async || known.instant(sampled).await.ok()).await;
    let all = known.instant("sum(revenue)").await.expect("it answers").value;
    assert_eq!(all, 201.0, "without the matcher everything is read");
    for (query, expect) in QUERIES {
        let own = limited(query, "namespace", "shop").expect(query);
        let value = known.instant(&own).await.unwrap_or_else(|why| panic!("{own}: {why:?}")).value;
        assert!((value - expect).abs() < 1e-9, "{query} became {own}: {value}");
    }
}
