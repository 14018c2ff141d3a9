//! The Helm chart, rendered by a real Helm, compared with what `manifests` prints.
//!
//! `tests/cluster/helm` fetches Helm and prints its path; without `HOMEOSTAT_TEST_HELM` the
//! tests that need it say that they were skipped.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use homeostat_autoscaler::api::MultidimPodAutoscaler;
use homeostat_operator::install::{Installation, chart_rights, manifests};
use homeostat_test_skip::skip;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::Role;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Map, Value, json};

use super::shop::{Shop, spec};

/// A file of the chart. Cargo runs tests in the folder of their package.
pub(crate) fn chart_file(name: &str) -> PathBuf {
    Path::new("../../deploy/chart/homeostat").join(name)
}

/// Helm; none, with a message, if it is not installed.
pub(crate) fn helm() -> Option<Helm> {
    let program = std::env::var_os("HOMEOSTAT_TEST_HELM");
    if program.is_none() {
        skip("no Helm; set HOMEOSTAT_TEST_HELM=$(tests/cluster/helm)");
    }
    program.map(|program| Helm { program: program.into() })
}

/// A real Helm.
pub(crate) struct Helm {
    program: PathBuf,
}

impl Helm {
    /// Its output, or its error.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("helm");
        let output = Command::new(&self.program)
            .args(arguments)
            .env("HELM_CACHE_HOME", folder.join("cache"))
            .env("HELM_CONFIG_HOME", folder.join("config"))
            .env("HELM_DATA_HOME", folder.join("data"))
            .env("KUBECONFIG", "/dev/null")
            .output()
            .expect("it starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    fn template(&self, settings: &[&str]) -> Result<String, String> {
        let chart = chart_file("");
        let chart = chart.to_str().expect("a path of text");
        let mut arguments = vec!["template", "homeostat", chart, "--namespace", "homeostat"];
        arguments.extend(["--include-crds"]);
        arguments.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        self.run(&arguments)
    }
}

const IMAGE: [&str; 2] = ["image.repository=example.invalid/homeostat", "image.tag=v1"];

fn installation() -> Installation {
    Installation {
        namespace: "homeostat".to_owned(),
        image: "example.invalid/homeostat:v1".to_owned(),
        prometheus: None,
        only_namespace: None,
        has_webhook: true,
        has_policy_v1: true,
    }
}

/// The objects of a YAML text by kind, namespace and name, without parts that must differ.
fn objects(text: &str) -> BTreeMap<String, Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).expect("valid YAML");
    let all = all.into_iter().filter(|object| object["kind"] != "Namespace");
    let keyed = all.map(|mut object| {
        remove_helm_labels(&mut object);
        let word = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
        let (kind, namespace) = (word("/kind"), word("/metadata/namespace"));
        (format!("{kind} {namespace}/{}", word("/metadata/name")), object)
    });
    keyed.collect()
}

fn remove_helm_labels(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("helm.sh/chart");
            fields.remove("app.kubernetes.io/managed-by");
            fields.values_mut().for_each(remove_helm_labels);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_helm_labels),
        _ => {}
    }
}

fn check_equal(helm: &Helm, settings: &[&str], installation: &Installation) {
    let settings = [&IMAGE[..], settings].concat();
    let chart = objects(&helm.template(&settings).expect("it renders"));
    let ours = objects(&manifests(installation));
    let names = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&chart), names(&ours), "{settings:?}");
    for (name, object) in &chart {
        let pretty = |value: &Value| serde_saphyr::to_string(&sorted(value)).expect("YAML");
        assert!(
            *object == ours[name],
            "{settings:?}: {name} differs\n--- chart\n{}\n--- manifests\n{}",
            pretty(object),
            pretty(&ours[name]),
        );
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().collect();
            let fields = fields.into_iter().map(|(key, value)| (key.clone(), sorted(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

#[test]
fn rights_of_the_chart_are_those_of_the_list() {
    let path = chart_file("templates/_rights.tpl");
    if std::env::var_os("HOMEOSTAT_WRITE").is_some() {
        fs::write(&path, chart_rights()).expect("written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == chart_rights(),
        "the rights of the chart are not those of the list: HOMEOSTAT_WRITE=1 \
         cargo test -p homeostat-operator --test it rights_of_the_chart"
    );
}

#[test]
fn the_chart_installs_what_manifests_prints() {
    let Some(helm) = helm() else { return };
    check_equal(&helm, &[], &installation());
    let only = Installation { only_namespace: Some("shop".to_owned()), ..installation() };
    check_equal(&helm, &["onlyNamespace=shop"], &only);
    check_equal(
        &helm,
        &["webhook.enabled=false"],
        &Installation { has_webhook: false, ..installation() },
    );
    for url in ["http://prometheus.monitoring:9090", "https://prometheus.example/prefix"] {
        let setting = format!("prometheus.url={url}");
        let prometheus = Some(url.to_owned());
        check_equal(&helm, &[&setting], &Installation { prometheus, ..installation() });
    }
}

#[test]
fn helm_lints_the_chart_without_errors() {
    let Some(helm) = helm() else { return };
    let chart = chart_file("");
    let chart = chart.to_str().expect("a path of text");
    let image = IMAGE.join(",");
    let linted = helm.run(&["lint", "--strict", chart, "--set", &image]).expect("it is clean");
    assert!(linted.contains("0 chart(s) failed"), "{linted}");

    let everything = [
        IMAGE[0],
        "serviceMonitor.enabled=true,serviceMonitor.labels.release=prometheus",
        "dashboard.enabled=true",
        "prometheus.url=https://prometheus,prometheus.tokenSecret=t,prometheus.allowPlainToken=true,prometheus.anyNamespace=true,prometheus.caConfigMap=c",
        "learners.enabled=true,learners.tokenSecret=learners",
        "collector.enabled=true,collector.image.repository=example.invalid/collector,collector.tokenSecret=t,collector.tlsSecret=s,collector.claim=c,collector.learnArgs[0]=--margin=0.01",
        "rbac.extraRules[0].apiGroups[0]=argoproj.io,rbac.extraRules[0].resources[0]=rollouts/scale,rbac.extraRules[0].verbs[0]=patch",
        "networkPolicy.extraEgress[0].ports[0].port=50051",
        "networkPolicy.peers.ingress[0].ipBlock.cidr=10.1.0.0/16,networkPolicy.peers.learners[0].podSelector.matchLabels.app=learner",
        "networkPolicy.peers.dns[0].ipBlock.cidr=10.2.0.0/16,networkPolicy.peers.apiServer[0].ipBlock.cidr=10.3.0.1/32",
        "networkPolicy.peers.prometheus[0].podSelector.matchLabels.app=prometheus",
        "podLabels.team=shop,podAnnotations.note=x,priorityClassName=high,nodeSelector.disk=ssd",
        "tolerations[0].operator=Exists,affinity.podAntiAffinity.x=y,imagePullSecrets[0].name=pull",
        "serviceAccount.name=other,serviceAccount.annotations.note=x,extraArgs[0]=--stale-after=60s",
    ];
    let rendered = objects(&helm.template(&everything).expect("it renders"));
    let dashboard = &rendered["ConfigMap homeostat/homeostat-dashboard"]["data"]["homeostat.json"];
    let dashboard: Value =
        serde_json::from_str(dashboard.as_str().expect("text")).expect("it is JSON still");
    assert_eq!(dashboard["uid"], "homeostat");
    let monitor = &rendered["ServiceMonitor homeostat/homeostat"];
    assert_eq!(monitor["spec"]["endpoints"][0]["tlsConfig"]["ca"]["secret"]["key"], "ca.crt");
    let pod = &rendered["Deployment homeostat/homeostat"]["spec"]["template"]["spec"];
    let arguments = pod["containers"][0]["args"].to_string();
    for expect in [
        "--prometheus-token-file=/etc/homeostat/token/token",
        "--prometheus-allow-plain-token",
        "--prometheus-any-namespace",
        "--prometheus-ca-file=/etc/homeostat/ca/ca.crt",
        "--listen-learners=0.0.0.0:8444",
        "--learner-token-file=/etc/homeostat/learners/token",
        "--decisions-dir=/var/lib/homeostat/decisions",
        "--collector=https://homeostat-collector.homeostat.svc:8445",
        "--collector-token-file=/etc/homeostat/collector/token",
        "--collector-ca-file=/etc/homeostat/collector-ca/ca.crt",
        "--stale-after=60s",
    ] {
        assert!(arguments.contains(expect), "{arguments}");
    }
    let policy = &rendered["NetworkPolicy homeostat/homeostat"]["spec"];
    let cidr = |rule: &Value, side: &str| rule[side][0]["ipBlock"]["cidr"].clone();
    let app = |rule: &Value, side: &str| rule[side][0]["podSelector"]["matchLabels"]["app"].clone();
    let (ingress, egress) = (&policy["ingress"], &policy["egress"]);
    assert_eq!(
        (cidr(&ingress[0], "from"), app(&ingress[1], "from")),
        ("10.1.0.0/16".into(), "learner".into())
    );
    assert_eq!(
        (cidr(&egress[0], "to"), cidr(&egress[1], "to")),
        ("10.2.0.0/16".into(), "10.3.0.1/32".into())
    );
    assert_eq!(app(&egress[2], "to"), "prometheus");
    assert_eq!(pod["serviceAccountName"], "other");
    let volumes = pod["volumes"].as_array().map(Vec::len);
    assert_eq!(volumes, pod["containers"][0]["volumeMounts"].as_array().map(Vec::len));
    assert_eq!(volumes, Some(6));
    // The collector has no rights, and only the operator reaches it.
    let collector =
        &rendered["Deployment homeostat/homeostat-collector"]["spec"]["template"]["spec"];
    assert_eq!(collector["automountServiceAccountToken"], false);
    let learn = collector["containers"][1]["args"].to_string();
    assert!(learn.contains("--every=1h") && learn.contains("--margin=0.01"), "{learn}");
    let reached = &rendered["NetworkPolicy homeostat/homeostat-collector"]["spec"];
    let from = &reached["ingress"][0]["from"][0]["podSelector"]["matchLabels"];
    assert_eq!(from["app.kubernetes.io/name"], "homeostat");
    let rules = &rendered["ClusterRole -/homeostat"]["rules"];
    assert!(rules.to_string().contains("rollouts/scale"), "{rules}");
}

#[test]
fn invalid_values_are_refused_by_name() {
    let Some(helm) = helm() else { return };
    let check = |settings: &[&str], expect: &str| {
        let refused = helm.template(settings).expect_err(expect);
        assert!(refused.contains(expect), "{refused}");
    };
    check(&[], "image.repository is required");
    check(&[IMAGE[0], "learners.enabled=true"], "learners.tokenSecret");
    check(&[IMAGE[0], "collector.enabled=true"], "collector.");
    let collector = "collector.enabled=true,collector.image.repository=x,collector.tokenSecret=t";
    check(&[IMAGE[0], collector], "collector.tlsSecret");
    check(&[IMAGE[0], "replica=3"], "replica");
    check(&[IMAGE[0], "replicas=0"], "replicas");
    check(&[IMAGE[0], "webhook.timeoutSeconds=60"], "timeoutSeconds");
    check(&[IMAGE[0], "prometheus.url=prometheus:9090"], "url");
    check(&[IMAGE[0], "onlyNamespace=Shop"], "onlyNamespace");
}

#[tokio::test]
async fn an_upgrade_keeps_what_the_operator_wrote_and_removal_leaves_only_the_definitions() {
    let Some(helm) = helm() else { return };
    let Some(shop) = Shop::open("upgraded").await else { return };
    shop.autoscaler("checkout", spec("checkout", "Off")).await.expect("taken");
    let kubeconfig = shop.cluster.admin_kubeconfig();
    let chart = chart_file("");
    let run = |command: &str, settings: &str| {
        let mut arguments = vec![command, "homeostat"];
        if command != "uninstall" {
            arguments.extend([chart.to_str().expect("text"), "--set", IMAGE[0]]);
            arguments.extend(["--set", "onlyNamespace=upgraded", "--set", settings]);
        }
        arguments.extend(["--kubeconfig", kubeconfig.to_str().expect("text")]);
        arguments.extend(["--namespace", "upgraded"]);
        helm.run(&arguments).expect(command)
    };
    run("install", "replicas=2");
    // As the operator does after it has made a certificate.
    let secrets: Api<Secret> = shop.api();
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(shop.client.clone());
    let params = PatchParams::default();
    let change = json!({ "stringData": { "ends": "1000" } });
    secrets.patch("homeostat-webhook", &params, &Patch::Merge(change)).await.expect("patched");
    let bundle = ByteString(b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n".to_vec());
    let mut configuration = configurations.get("homeostat-upgraded").await.expect("installed");
    for webhook in configuration.webhooks.iter_mut().flatten() {
        webhook.client_config.ca_bundle = Some(bundle.clone());
    }
    let post = PostParams::default();
    configurations.replace("homeostat-upgraded", &post, &configuration).await.expect("replaced");

    run("upgrade", "replicas=3");
    let deployments: Api<Deployment> = shop.api();
    let deployment = deployments.get("homeostat").await.expect("there");
    assert_eq!(deployment.spec.replicas, Some(3));
    let secret = secrets.get("homeostat-webhook").await.expect("there");
    assert!(secret.data.is_some_and(|data| data.contains_key("ends")));
    let configuration = configurations.get("homeostat-upgraded").await.expect("there");
    let webhook = &configuration.webhooks.expect("there")[0];
    assert_eq!(webhook.client_config.ca_bundle, Some(bundle));

    run("uninstall", "");
    assert!(configurations.get_opt("homeostat-upgraded").await.expect("asked").is_none());
    assert!(secrets.get_opt("homeostat-webhook").await.expect("asked").is_none());
    let roles: Api<Role> = shop.api();
    assert!(roles.list(&ListParams::default()).await.expect("listed").items.is_empty());
    let objects: Api<MultidimPodAutoscaler> = shop.api();
    assert!(objects.get_opt("checkout").await.expect("asked").is_some());
}

/// Every line of values.yaml that sets something, as a path.
fn values() -> Vec<String> {
    let text = fs::read_to_string(chart_file("values.yaml")).expect("it is there");
    let mut paths = Vec::new();
    let (mut group, mut is_group_documented, mut before) = (String::new(), false, "");
    for line in text.lines() {
        let key = line.trim_start();
        let depth = (line.len() - key.len()) / 2;
        if let Some((key, value)) = key.split_once(':').filter(|_| !key.starts_with('#')) {
            let is_documented = before.trim_start().starts_with('#');
            let is_group = depth == 0 && value.is_empty();
            let path = if depth == 0 { key.to_owned() } else { format!("{group}.{key}") };
            assert!(
                is_documented || is_group || (depth > 0 && is_group_documented),
                "no comment above {path}"
            );
            if depth == 0 {
                (group, is_group_documented) = (key.to_owned(), is_documented && is_group);
            }
            // A map with one comment is one value.
            let is_inside_a_value = depth > 0 && is_group_documented;
            let is_value = if is_group { is_documented } else { !is_inside_a_value };
            if is_value {
                paths.push(path);
            }
        }
        before = line;
    }
    paths
}

#[test]
fn every_value_is_documented_used_and_in_the_schema() {
    let paths = values();
    assert!(paths.len() > 35, "{paths:?}");
    let schema = fs::read_to_string(chart_file("values.schema.json")).expect("it is there");
    let schema: Value = serde_json::from_str(&schema).expect("it is JSON");
    let mut templates = String::new();
    for file in fs::read_dir(chart_file("templates")).expect("they are there").flatten() {
        templates.push_str(&fs::read_to_string(file.path()).expect("text"));
    }
    for path in &paths {
        let used = format!(".Values.{path}");
        assert!(templates.contains(&used), "{path} is used nowhere");
        let pointer = format!("/properties/{}", path.replace('.', "/properties/"));
        assert!(schema.pointer(&pointer).is_some(), "{path} is not in the schema");
    }
    for (key, value) in schema["properties"].as_object().expect("properties") {
        let inner = value["properties"].as_object();
        let described: Vec<String> = match inner {
            Some(inner) => inner.keys().map(|inner| format!("{key}.{inner}")).collect(),
            None => vec![key.clone()],
        };
        for path in described.iter().filter(|path| *path != "global") {
            assert!(paths.contains(path), "{path} of the schema is not in values.yaml");
        }
    }
}
