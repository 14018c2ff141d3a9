//! The real API server of 1.20 behind a proxy that adds `pods/resize` of 1.33. Its answers are scripted
//! after the documentation of that subresource; everything else comes from the real server.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The result of a resize.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is done.
    Done,
    /// The node is too small.
    Infeasible,
    /// The node has had no room for this many seconds.
    Deferred(i64),
    /// The server refuses it.
    Refused,
}

/// The proxy.
pub(crate) struct NewerServer {
    port: u16,
    script: Arc<Script>,
}

struct Script {
    client: Client,
    /// Results by the prefix of a pod's name.
    fates: Vec<(&'static str, Fate)>,
    /// Containers of resized pods, by name of the pod.
    resized: Mutex<BTreeMap<String, Value>>,
    /// Every requested resize: the pod's name and the body.
    asked: Mutex<Vec<(String, Value)>>,
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

impl NewerServer {
    /// Starts a proxy to the server of this client.
    pub(crate) async fn start(client: Client, fates: Vec<(&'static str, Fate)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (resized, asked) = (Mutex::default(), Mutex::default());
        let script = Arc::new(Script { client, fates, resized, asked });
        let serving = script.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let script = serving.clone();
                let service = service_fn(move |request| {
                    let script = script.clone();
                    async move { Ok::<_, Infallible>(script.answer(request).await) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        Self { port, script }
    }

    /// A kubeconfig without credentials: the proxy has those of the real server.
    pub(crate) fn kubeconfig(&self, folder: &Path) -> PathBuf {
        let path = folder.join("newer.kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
             clusters: [{{name: test, cluster: {{server: \"http://127.0.0.1:{}\"}}}}]\n\
             users: [{{name: user, user: {{}}}}]\n\
             contexts: [{{name: test, context: {{cluster: test, user: user}}}}]\n",
            self.port
        );
        std::fs::write(&path, text).expect("written");
        path
    }

    /// The requested resizes of pods with this name prefix.
    pub(crate) fn asked(&self, beginning: &str) -> Vec<Value> {
        let asked = self.script.asked.lock().expect("no poisoned lock");
        let ours = asked.iter().filter(|(name, _)| name.starts_with(beginning));
        ours.map(|(_, body)| body.clone()).collect()
    }
}

impl Script {
    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().to_owned();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (request.method(), &parts[..]) {
            (&Method::PATCH, ["api", "v1", "namespaces", namespace, "pods", name, "resize"]) => {
                let kind = request.headers().get(header::CONTENT_TYPE).cloned();
                let strategic = "application/strategic-merge-patch+json";
                assert_eq!(kind.expect("a patch has one"), strategic);
                let body = request.into_body().collect().await.expect("read").to_bytes();
                let body: Value = serde_json::from_slice(&body).expect("JSON");
                self.resize(namespace, name, body).await
            }
            (&Method::GET, ["api", "v1"]) => {
                let mut answer = self.whole(request).await;
                let resources = answer["resources"].as_array_mut().expect("a list");
                resources.push(json!({
                    "name": "pods/resize", "singularName": "", "namespaced": true, "kind": "Pod",
                    "verbs": ["get", "patch", "update"],
                }));
                text(StatusCode::OK, &answer)
            }
            (&Method::GET, ["api", "v1", .., "pods"]) => {
                if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                    return self.watch(request).await;
                }
                let mut answer = self.whole(request).await;
                for pod in answer["items"].as_array_mut().into_iter().flatten() {
                    self.dress(pod);
                }
                text(StatusCode::OK, &answer)
            }
            _ => {
                let answer = self.send(request).await;
                answer.map(|body| {
                    let body = body.map_err(|error| -> Infallible { panic!("{error}") });
                    body.boxed_unsync()
                })
            }
        }
    }

    /// Changes the pod as the server would, and its status as the node would.
    async fn resize(&self, namespace: &str, name: &str, body: Value) -> Answer {
        self.asked.lock().expect("no poisoned lock").push((name.to_owned(), body.clone()));
        let fate = self.fates.iter().find(|(beginning, _)| name.starts_with(beginning));
        let fate = fate.map_or(Fate::Done, |(_, fate)| *fate);
        if fate == Fate::Refused {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid",
                "code": 422, "message": format!(
                    "Pod \"{name}\" is invalid: metadata: Invalid value: \"Guaranteed\": \
                     Pod QOS Class may not change as a result of resizing"),
            });
            return text(StatusCode::UNPROCESSABLE_ENTITY, &status);
        }
        let containers = body["spec"]["containers"].clone();
        self.resized.lock().expect("no poisoned lock").insert(name.to_owned(), containers);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let pending = |reason: &str, ago: i64| {
            let since = Timestamp::now() - k8s_openapi::jiff::SignedDuration::from_secs(ago);
            json!([{ "type": "PodResizePending", "status": "True", "reason": reason,
                "lastTransitionTime": since.to_string() }])
        };
        let conditions = match fate {
            Fate::Infeasible => pending("Infeasible", 0),
            Fate::Deferred(seconds) => pending("Deferred", seconds),
            Fate::Done | Fate::Refused => json!([]),
        };
        let params = PatchParams::default();
        // The status changes in any case, so that watches deliver the new size.
        let touched = json!({ "metadata": { "annotations": { "resized": "true" } } });
        pods.patch(name, &params, &Patch::Merge(touched)).await.expect("patched");
        let status = json!({ "status": { "conditions": conditions } });
        let pod =
            pods.patch_status(name, &params, &Patch::Strategic(status)).await.expect("patched");
        let mut pod = serde_json::to_value(pod).expect("JSON");
        self.dress(&mut pod);
        text(StatusCode::OK, &pod)
    }

    /// Sets the sizes of a resized pod.
    fn dress(&self, pod: &mut Value) {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let resized = self.resized.lock().expect("no poisoned lock");
        let Some(resized) = resized.get(&name) else { return };
        for change in resized.as_array().into_iter().flatten() {
            let containers = pod["spec"]["containers"].as_array_mut().into_iter().flatten();
            for container in containers.filter(|container| container["name"] == change["name"]) {
                container["resources"] = change["resources"].clone();
            }
        }
    }

    /// Serves a watch, which returns a line for every change.
    async fn watch(self: &Arc<Self>, request: Request<Incoming>) -> Answer {
        let (mut parts, body) = self.send(request).await.into_parts();
        parts.headers.remove(header::TRANSFER_ENCODING);
        let script = self.clone();
        let begun = (body.into_data_stream(), Vec::new());
        let frames = futures::stream::unfold(begun, move |(mut stream, mut rest)| {
            let script = script.clone();
            async move {
                loop {
                    if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                        let line: Vec<u8> = rest.drain(..=end).collect();
                        let mut event: Value = serde_json::from_slice(&line).expect("JSON");
                        script.dress(&mut event["object"]);
                        let frame = Frame::data(Bytes::from(format!("{event}\n")));
                        return Some((Ok::<_, Infallible>(frame), (stream, rest)));
                    }
                    // A watch that breaks ends.
                    let Ok(chunk) = stream.next().await? else { return None };
                    rest.extend_from_slice(&chunk);
                }
            }
        });
        Response::from_parts(parts, StreamBody::new(frames).boxed_unsync())
    }

    async fn whole(&self, request: Request<Incoming>) -> Value {
        let answer = self.send(request).await.into_body().collect().await.expect("read");
        serde_json::from_slice(&answer.to_bytes()).expect("JSON")
    }

    async fn send(&self, request: Request<Incoming>) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        // It goes to another host over another connection.
        parts.headers.remove(header::HOST);
        parts.headers.remove(header::CONNECTION);
        let body = body.collect().await.expect("read").to_bytes();
        let request = Request::from_parts(parts, Body::from(body.to_vec()));
        self.client.send(request).await.expect("the real server answers")
    }
}

fn text(status: StatusCode, answer: &Value) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(answer.to_string())).boxed_unsync());
    *answer.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}
