//! The operator with exactly the rights of the chart, on an API server with an audit log: no request is
//! forbidden, and every right is used.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use homeostat_operator::install::{Installation, manifests};
use homeostat_testbed::{Cluster, free_port};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::chart::{chart_file, helm};
use super::cluster;
use super::operator::{Operator, PATIENCE, eventually};
use super::shop::{Shop, spec};

/// Rights that cannot be used on this server, and the tests that cover them.
const NOT_ON_THIS_SERVER: [(&str, &str, &str); 1] = [(
    "pods/resize",
    "patch",
    "came with 1.33; update::apply sends it to a double of the API in its own test",
)];

/// One verb that a role grants on one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    /// None: everywhere.
    namespace: Option<String>,
    group: String,
    resource: String,
    verb: String,
    /// None: of any name.
    name: Option<String>,
}

/// A request in the audit log.
#[derive(Debug)]
struct Request {
    namespace: Option<String>,
    group: String,
    resource: String,
    verb: String,
    name: Option<String>,
    code: u64,
}

impl Grant {
    fn allows(&self, request: &Request) -> bool {
        let is_verb = self.verb == request.verb
            // A server-side apply of a new object needs the right to create it as well.
            || (self.verb == "create" && request.verb == "patch" && request.code == 201);
        is_verb
            && self.group == request.group
            && self.resource == request.resource
            && (self.namespace.is_none() || self.namespace == request.namespace)
            && (self.name.is_none() || self.name == request.name)
    }
}

/// All requests of a service account, from the audit log.
fn requests(cluster: &Cluster, account: &str) -> Vec<Request> {
    let text = fs::read_to_string(cluster.file("audit.log")).expect("the server writes it");
    // The last line may be half written.
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours = events.filter(|event| event["user"]["username"] == account);
    let read = |event: Value| {
        let word = |pointer: &str| {
            event.pointer(pointer).and_then(Value::as_str).filter(|word| !word.is_empty())
        };
        let of_object = |field: &str| word(&format!("/objectRef/{field}")).map(str::to_owned);
        let resource = match (of_object("resource"), of_object("subresource")) {
            (Some(resource), Some(subresource)) => format!("{resource}/{subresource}"),
            (Some(resource), None) => resource,
            // Discovery, which is allowed for every account.
            (None, _) => word("/requestURI").unwrap_or_default().to_owned(),
        };
        Request {
            namespace: of_object("namespace"),
            group: of_object("apiGroup").unwrap_or_default(),
            resource,
            verb: word("/verb").unwrap_or_default().to_owned(),
            name: of_object("name"),
            code: event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or(0),
        }
    };
    ours.map(read).collect()
}

/// The rights of a service account by the roles on the server.
async fn grants(client: &Client, account: &Subject) -> BTreeSet<Grant> {
    let mut found = BTreeSet::new();
    let list = ListParams::default();
    let is_ours = |subjects: &Option<Vec<Subject>>| {
        subjects.iter().flatten().any(|subject| {
            subject.kind == "ServiceAccount"
                && subject.name == account.name
                && subject.namespace == account.namespace
        })
    };
    let (roles, cluster_roles): (Api<Role>, Api<ClusterRole>) =
        (Api::all(client.clone()), Api::all(client.clone()));
    let roles = roles.list(&list).await.expect("listed");
    let bindings: Api<RoleBinding> = Api::all(client.clone());
    for binding in bindings.list(&list).await.expect("listed") {
        if is_ours(&binding.subjects) {
            assert_eq!(binding.role_ref.kind, "Role");
            let is_bound = |role: &&Role| {
                role.namespace() == binding.namespace() && role.name_any() == binding.role_ref.name
            };
            let role = roles.iter().find(is_bound).expect("the role exists");
            expand(&mut found, role.rules.iter().flatten(), binding.namespace());
        }
    }
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    for binding in bindings.list(&list).await.expect("listed") {
        if is_ours(&binding.subjects) {
            let role = cluster_roles.get(&binding.role_ref.name).await.expect("it exists");
            expand(&mut found, role.rules.iter().flatten(), None);
        }
    }
    found
}

fn expand<'a>(
    found: &mut BTreeSet<Grant>,
    rules: impl Iterator<Item = &'a PolicyRule>,
    namespace: Option<String>,
) {
    for rule in rules {
        assert_eq!(rule.non_resource_urls, None);
        let names = match rule.resource_names.as_deref() {
            None | Some([]) => vec![None],
            Some(names) => names.iter().cloned().map(Some).collect(),
        };
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    assert!([group, resource, verb].iter().all(|word| *word != "*"), "{rule:?}");
                    for name in &names {
                        found.insert(Grant {
                            namespace: namespace.clone(),
                            group: group.clone(),
                            resource: resource.clone(),
                            verb: verb.clone(),
                            name: name.clone(),
                        });
                    }
                }
            }
        }
    }
}

/// Installs the operator: with Helm where there is one, else what `manifests` prints.
pub(crate) async fn install(
    cluster: &Cluster,
    client: &Client,
    namespace: &str,
    only: Option<&str>,
) {
    let kubeconfig = cluster.admin_kubeconfig();
    let kubeconfig = kubeconfig.to_str().expect("a path of text");
    if let Some(helm) = helm() {
        let chart = chart_file("");
        let only = format!("onlyNamespace={}", only.unwrap_or_default());
        let mut arguments = vec!["install", "homeostat", chart.to_str().expect("text")];
        arguments.extend(["--namespace", namespace, "--create-namespace"]);
        arguments.extend(["--kubeconfig", kubeconfig, "--set", &only]);
        arguments.extend(["--set", "image.repository=example.invalid/homeostat"]);
        let notes = helm.run(&arguments).expect("it installs");
        assert!(notes.contains("kubectl get mpa -A"), "{notes}");
        return;
    }
    let installation = Installation {
        namespace: namespace.to_owned(),
        image: "example.invalid/homeostat".to_owned(),
        prometheus: None,
        only_namespace: only.map(str::to_owned),
        has_webhook: true,
        has_policy_v1: false,
    };
    let objects: Vec<Value> =
        serde_saphyr::from_multiple(&manifests(&installation)).expect("valid YAML");
    for object in objects {
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        let types = object.types.clone().expect("it says what it is");
        let kind = GroupVersionKind::try_from(&types).expect("a kind");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let params = PatchParams::apply("test").force();
        let name = object.name_any();
        api.patch(&name, &params, &Patch::Apply(&object)).await.expect("applied");
    }
}

/// A token of the operator's account, from the server itself.
pub(crate) async fn token(client: &Client, namespace: &str) -> String {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/homeostat/token");
    let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {
        "audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3600,
    }});
    let request = http::Request::post(path).body(body.to_string().into_bytes()).expect("valid");
    let answer: Value = client.request(request).await.expect("a token");
    answer["status"]["token"].as_str().expect("a token").to_owned()
}

/// A kubeconfig of the operator's account.
async fn account_kubeconfig(cluster: &Cluster, client: &Client, namespace: &str) -> PathBuf {
    let token = token(client, namespace).await;
    let file = cluster.file("account.kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         clusters: [{{name: test, cluster: {{server: \"https://127.0.0.1:{}\", certificate-authority: {}}}}}]\n\
         users: [{{name: user, user: {{token: {token}}}}}]\n\
         contexts: [{{name: test, context: {{cluster: test, user: user}}}}]\n",
        cluster.port(),
        cluster.file("ca.crt").display(),
    );
    fs::write(&file, text).expect("written");
    file
}

/// The arguments of the installed Deployment, with addresses and times for a test.
async fn installed_arguments(client: &Client, namespace: &str, port: u16) -> Vec<String> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let deployment = deployments.get("homeostat").await.expect("it is installed");
    let mut containers = deployment.spec.template.spec.expect("a pod").containers;
    let mut arguments = containers.remove(0).args.expect("it has arguments");
    for argument in &mut arguments {
        let name = argument.split('=').next().expect("there is a first part").to_owned();
        match &name[..] {
            "--listen" => *argument = format!("--listen=127.0.0.1:{port}"),
            "--interval" => *argument = "--interval=1s".to_owned(),
            "--webhook-name" => *argument = "--webhook-name=127.0.0.1".to_owned(),
            _ => {}
        }
    }
    arguments.extend(["--checkpoint-interval=2s".to_owned(), format!("--namespace={namespace}")]);
    arguments
}

/// There is no service here, so the API server calls the operator's address.
async fn call_directly(client: &Client, configuration: &str, port: u16) {
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let mut found = api.get(configuration).await.expect("it is installed");
    for webhook in found.webhooks.iter_mut().flatten() {
        webhook.client_config.service = None;
        webhook.client_config.url = Some(format!("https://127.0.0.1:{port}/mutate"));
    }
    api.replace(configuration, &PostParams::default(), &found).await.expect("replaced");
}

async fn create(client: &Client, namespace: &str, object: Value) {
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    let types = object.types.clone().expect("it says what it is");
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).expect("a kind"));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    api.create(&PostParams::default(), &object).await.expect("created");
}

/// Installs the definition of the VerticalPodAutoscaler.
async fn define_vertical_autoscalers(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = json!({
        "metadata": {
            "name": "verticalpodautoscalers.autoscaling.k8s.io",
            "annotations": { "api-approved.kubernetes.io": "unapproved, for tests" },
        },
        "spec": {
            "group": "autoscaling.k8s.io", "scope": "Namespaced",
            "names": { "kind": "VerticalPodAutoscaler", "plural": "verticalpodautoscalers" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    });
    let definition: CustomResourceDefinition = serde_json::from_value(definition).expect("valid");
    api.create(&PostParams::default(), &definition).await.expect("created");
    let established = kube::runtime::wait::conditions::is_crd_established();
    let name = definition.name_any();
    kube::runtime::wait::await_condition(api, &name, established).await.expect("established");
}

/// Overloaded workloads of every kind that can be scaled, and one whose pods are too small.
async fn open_shop(shop: &Shop) {
    let kinds = [
        ("apps/v1", "Deployment", "checkout"),
        ("apps/v1", "StatefulSet", "cart"),
        ("apps/v1", "ReplicaSet", "search"),
        ("v1", "ReplicationController", "mail"),
    ];
    for (version, kind, name) in kinds {
        let labels = json!({ "app": name });
        let selector = if kind == "ReplicationController" {
            labels.clone()
        } else {
            json!({ "matchLabels": labels })
        };
        let containers = json!([{ "name": "app", "image": "example.invalid/app:1" }]);
        let template =
            json!({ "metadata": { "labels": labels }, "spec": { "containers": containers } });
        let mut workload = json!({
            "apiVersion": version, "kind": kind, "metadata": { "name": name },
            "spec": { "replicas": 1, "selector": selector, "template": template },
        });
        if kind == "StatefulSet" {
            workload["spec"]["serviceName"] = json!(name);
        }
        create(&shop.client, &shop.namespace, workload).await;
        shop.pod(name, &format!("{name}-0")).await;
        shop.uses(&format!("{name}-0"), "490m", "100Mi").await;
        let mut busy = spec(name, "Auto");
        busy["scaleTargetRef"] = json!({ "apiVersion": version, "kind": kind, "name": name });
        busy["goals"] =
            json!({ "metrics": [{ "resource": { "name": "cpu", "averageUtilization": 50 } }] });
        shop.autoscaler(name, busy).await.expect("taken");
    }
    shop.deployment("images", 3).await;
    for place in 0..3 {
        shop.uses(&format!("images-{place}"), "300m", "400Mi").await;
    }
    let mut small = spec("images", "Auto");
    small["policy"] = json!({ "disruption": { "maxUnavailable": "2", "minPodAge": "1s" } });
    small["constraints"]["global"] = json!({ "minReplicas": 3, "maxReplicas": 3 });
    shop.autoscaler("images", small).await.expect("taken");
    // An unknown pause is reported repeatedly, as one event with a count.
    shop.deployment("ads", 1).await;
    shop.uses("ads-0", "100m", "100Mi").await;
    let mut learned = spec("ads", "Recommend");
    let file = json!({ "configMap": "ads-policy", "key": "policy" });
    learned["recommenders"] = json!([{ "name": "policy", "policyFile": file }]);
    shop.autoscaler("ads", learned).await.expect("taken");
    let api: Api<homeostat_autoscaler::api::MultidimPodAutoscaler> = shop.api();
    let pause = json!({ "metadata": { "annotations": { "homeostat.dev/paused": "perhaps" } } });
    api.patch("ads", &PatchParams::default(), &Patch::Merge(pause)).await.expect("patched");
}

/// Checks that the operator does everything that needs a right.
async fn check_that_it_works(shop: &Shop, operator: &Operator) {
    eventually("it to be ready", async || operator.get("/readyz").filter(|text| text == "ok\n"))
        .await;
    eventually("a workload of every kind to be scaled", async || {
        let metrics = operator.get("/metrics")?;
        let line = metrics.lines().find_map(|line| {
            line.strip_prefix("homeostat_operator_rescales_total{direction=\"up\"} ")
        });
        line.filter(|count| count.parse::<u32>().is_ok_and(|count| count >= 4)).map(|_| ())
    })
    .await;
    let pods: Api<Pod> = shop.api();
    eventually("a pod to be evicted", async || {
        let images = ListParams::default().labels("app=images");
        (pods.list(&images).await.expect("listed").items.len() < 3).then_some(())
    })
    .await;
    let mut made = 0;
    eventually("a pod to be sized when it starts", async || {
        made += 1;
        shop.pod("images", &format!("images-new-{made}")).await;
        let metrics = operator.get("/metrics")?;
        metrics.contains("homeostat_operator_admissions_total{kind=\"sized\"}").then_some(())
    })
    .await;
}

async fn check(name: &str, is_for_one_namespace: bool) {
    let Some(cluster) = cluster::audited(name) else { return };
    let client = cluster.client().await;
    define_vertical_autoscalers(&client).await;
    let shop = Shop::open_on(cluster, "shop").await;
    let only = is_for_one_namespace.then_some("shop");
    let namespace = "homeostat";
    install(cluster, &client, namespace, only).await;
    open_shop(&shop).await;

    let kubeconfig = account_kubeconfig(cluster, &client, namespace).await;
    let port = free_port();
    let configuration = if is_for_one_namespace { "homeostat-shop" } else { "homeostat" };
    call_directly(&client, configuration, port).await;
    let arguments = installed_arguments(&client, namespace, port).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_homeostat-operator"));
    command.args(arguments).env("KUBECONFIG", kubeconfig);
    let operator = Operator::spawn(cluster, name, &mut command);
    check_that_it_works(&shop, &operator).await;

    let account = Subject {
        kind: "ServiceAccount".to_owned(),
        name: "homeostat".to_owned(),
        namespace: Some(namespace.to_owned()),
        ..Subject::default()
    };
    let granted = grants(&client, &account).await;
    assert!(granted.len() > 20, "{granted:?}");
    let user = format!("system:serviceaccount:{namespace}:homeostat");
    let is_impossible = |grant: &Grant| {
        NOT_ON_THIS_SERVER
            .iter()
            .any(|(resource, verb, _)| *resource == grant.resource && *verb == grant.verb)
    };
    let unused = |is_running: bool| {
        let requests = requests(cluster, &user);
        let is_unused = |grant: &&Grant| {
            // A watch is logged when it ends.
            let is_unseen = is_impossible(grant) || (is_running && grant.verb == "watch");
            !is_unseen && !requests.iter().any(|request| grant.allows(request))
        };
        granted.iter().filter(is_unused).cloned().collect::<Vec<_>>()
    };
    let settle = async |is_running: bool| {
        let started = std::time::Instant::now();
        while !unused(is_running).is_empty() && started.elapsed() < PATIENCE {
            tokio::time::sleep(std::time::Duration::from_millis(250)).await;
        }
    };
    // Some requests come later: the second of two equal events, the next checkpoint.
    settle(true).await;
    let log = operator.log();
    operator.kill();
    settle(false).await;
    let unused = unused(false);
    assert!(unused.is_empty(), "granted and never used: {unused:#?}\n{log}");
    let requests = requests(cluster, &user);
    let forbidden: Vec<&Request> = requests.iter().filter(|request| request.code == 403).collect();
    assert!(forbidden.is_empty(), "forbidden: {forbidden:#?}");
    for (resource, verb, why) in NOT_ON_THIS_SERVER {
        let is_granted = |grant: &Grant| grant.resource == resource && grant.verb == verb;
        assert!(granted.iter().any(is_granted), "{verb} {resource} is not granted: {why}");
    }
    assert!(!log.contains("the API server did not do what was asked"), "{log}");
}

#[tokio::test]
async fn every_right_of_the_chart_is_needed_and_no_other() {
    check("rights", false).await;
}

#[tokio::test]
async fn every_right_of_the_chart_for_one_namespace_is_needed_and_no_other() {
    check("rights-of-one-namespace", true).await;
}
