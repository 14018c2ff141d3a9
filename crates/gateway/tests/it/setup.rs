//! A gateway in this process, a scripted upstream and a plain client.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use homeostat_gateway::server::Server;
use homeostat_gateway::settings::Settings;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};

/// A gateway that serves until it is dropped.
pub(crate) struct Running {
    pub(crate) address: String,
    pub(crate) admin: String,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) ended: tokio::task::JoinHandle<usize>,
}

impl Running {
    /// With these settings, short timeouts, and ports that the system chooses.
    pub(crate) async fn start(settings: &str) -> Self {
        let listen = "[listen]\naddress = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n";
        let settings = Settings::parse(&format!("{listen}{settings}")).unwrap();
        let server = Server::bind(settings, None).await.unwrap();
        let address = server.address().unwrap().to_string();
        let admin = server.admin_address().unwrap().to_string();
        let (stop, stopped) = oneshot::channel();
        let run = server.run(async { drop(stopped.await) });
        Self { address, admin, stop: Some(stop), ended: tokio::spawn(run) }
    }

    /// A chat with this prompt; further fields as JSON members, each behind a comma.
    pub(crate) async fn chat(&self, prompt: &str, more: &str) -> Answer {
        self.post("/v1/chat/completions", &chat(prompt, more), "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str, headers: &str) -> Answer {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n"
        );
        exchange(&self.address, &[head.as_bytes(), body.as_bytes()].concat()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        let head = format!("GET {path} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n");
        exchange(&self.address, head.as_bytes()).await
    }

    /// The value of a metric, 0 if it is not there.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let head = "GET /metrics HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n";
        let text = exchange(&self.admin, head.as_bytes()).await.body;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Waits until a metric has a value.
    pub(crate) async fn until(&self, name: &str, value: f64) {
        for _ in 0..500 {
            if self.metric(name).await == value {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{name} is {}, not {value}", self.metric(name).await);
    }

    /// No request holds a slot or waits.
    pub(crate) async fn until_idle(&self, upstream: &str) {
        let name = format!("homeostat_gateway_in_flight_requests{{upstream=\"{upstream}\"}}");
        self.until(&name, 0.0).await;
        self.until("homeostat_gateway_waiting_requests{model=\"m\"}", 0.0).await;
    }
}

pub(crate) fn chat(prompt: &str, more: &str) -> String {
    format!(
        "{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":{}}}]{more}}}",
        json!(prompt)
    )
}

/// What a client got.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Status and code of an error in OpenAI's form.
    pub(crate) fn error(&self) -> (u16, String) {
        let error = &self.json()["error"];
        assert!(error["message"].is_string() && error["type"].is_string(), "{self:?}");
        (self.status, error["code"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// The events of a stream, without chunk sizes.
    pub(crate) fn events(&self) -> Vec<&str> {
        self.body.lines().filter(|line| line.starts_with("data: ")).collect()
    }
}

pub(crate) async fn exchange(address: &str, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server may answer and close before it has read everything.
    let _ = stream.write_all(request).await;
    read_answer(&mut stream).await
}

pub(crate) async fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let limit = Duration::from_secs(20);
    let _ = tokio::time::timeout(limit, stream.read_to_end(&mut bytes)).await.expect("an answer");
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// A server that does what the prompt says.
#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) url: String,
    /// Connections that are open now.
    pub(crate) open: Arc<AtomicUsize>,
    /// Bodies of requests in order of arrival.
    pub(crate) seen: Arc<Mutex<Vec<Value>>>,
    /// Their heads, in lower case.
    pub(crate) heads: Arc<Mutex<Vec<String>>>,
    /// Lets one request with the prompt `hold` go on per permit.
    pub(crate) release: Arc<Semaphore>,
    task: Arc<AbortOnDrop>,
    is_stopped: Arc<AtomicBool>,
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Scripted {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let open = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let heads = Arc::new(Mutex::new(Vec::new()));
        let release = Arc::new(Semaphore::new(0));
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (of_task, gate) = (open.clone(), release.clone());
        let requests = (seen.clone(), heads.clone());
        let stopped = is_stopped.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (open, seen, release) = (of_task.clone(), requests.clone(), gate.clone());
                let stopped = stopped.clone();
                open.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let _ = serve(stream, (&seen.0, &seen.1), &release, &stopped).await;
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { url, open, seen, heads, release, task: Arc::new(AbortOnDrop(task)), is_stopped }
    }

    /// As `[[upstreams]]` of settings.
    pub(crate) fn settings(&self, name: &str, max_parallel: usize) -> String {
        format!(
            "[[upstreams]]\nname = \"{name}\"\nurl = \"{}\"\nmax_parallel = {max_parallel}\n",
            self.url
        )
    }

    /// Refuses connections from now on, and answers nothing on those that are open.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.task.0.abort();
    }

    pub(crate) fn prompts(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .map(|body| body["messages"][0]["content"].as_str().unwrap_or("").to_owned())
            .collect()
    }

    pub(crate) async fn until_seen(&self, count: usize) {
        for _ in 0..500 {
            if self.seen.lock().unwrap().len() >= count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} of {count} requests came", self.seen.lock().unwrap().len());
    }

    /// Waits until the gateway has closed its connections.
    pub(crate) async fn until_closed(&self) {
        self.until_closed_to(0).await;
    }

    /// Waits until the gateway has no more than so many connections open.
    pub(crate) async fn until_closed_to(&self, most: usize) {
        for _ in 0..1000 {
            if self.open.load(Ordering::SeqCst) <= most {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} connections stay open", self.open.load(Ordering::SeqCst));
    }
}

async fn serve(
    mut stream: TcpStream,
    (seen, heads): (&Mutex<Vec<Value>>, &Mutex<Vec<String>>),
    release: &Semaphore,
    stopped: &AtomicBool,
) -> std::io::Result<()> {
    loop {
        let Some((head, body)) = read_request(&mut stream).await? else { return Ok(()) };
        if stopped.load(Ordering::SeqCst) {
            return Ok(());
        }
        if head.split(' ').nth(1) == Some("/v1/models") {
            answer(&mut stream, 200, &json!({"object": "list", "data": [{"id": "m"}]}).to_string())
                .await?;
            continue;
        }
        let body: Value = serde_json::from_slice(&body).unwrap();
        heads.lock().unwrap().push(head);
        seen.lock().unwrap().push(body.clone());
        let prompt = body["messages"][0]["content"].as_str().unwrap_or("answer 3").to_owned();
        let (what, number) = prompt.split_once(' ').unwrap_or((&prompt, ""));
        let events =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let one = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
        match what {
            "hang" => return stream.read(&mut [0; 64]).await.map(drop),
            "reset" => {
                rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
                return Ok(());
            }
            "half-answer" => {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"choices\"")
                    .await?;
                return Ok(());
            }
            "half-event" => {
                stream.write_all(format!("{events}{one}data: {{\"cho").as_bytes()).await?;
                return Ok(());
            }
            "half-first-event" => {
                stream.write_all(format!("{events}data: {{\"cho").as_bytes()).await?;
                return Ok(());
            }
            "silent-stream" => {
                stream.write_all(format!("{events}{one}").as_bytes()).await?;
                return stream.read(&mut [0; 64]).await.map(drop);
            }
            "endless" => {
                stream.write_all(events.as_bytes()).await?;
                loop {
                    stream.write_all(one.repeat(500).as_bytes()).await?;
                }
            }
            "huge" => {
                let is_stream = body["stream"] == true;
                let head =
                    if is_stream { events } else { "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" };
                stream.write_all(head.as_bytes()).await?;
                let block = vec![b'x'; 1 << 20];
                for _ in 0..100 {
                    stream.write_all(&block).await?;
                }
                return Ok(());
            }
            "garbage" => return stream.write_all(b"220 smtp ready\r\n").await,
            "status" => {
                let status: u16 = number.parse().unwrap();
                answer(&mut stream, status, &json!({"detail": "because"}).to_string()).await?;
                continue;
            }
            "hold" => release.acquire().await.unwrap().forget(),
            _ => {}
        }
        let tokens: u64 = number.parse().unwrap_or(3);
        let usage = json!({"prompt_tokens": 7, "completion_tokens": tokens});
        if body["stream"] == true {
            let end =
                format!("data: {}\n\ndata: [DONE]\n\n", json!({"choices": [], "usage": usage}));
            let text = format!("{events}{}{end}", one.repeat(tokens as usize));
            return stream.write_all(text.as_bytes()).await;
        }
        let choice = json!({"message": {"content": "x"}, "finish_reason": "stop"});
        answer(&mut stream, 200, &json!({"choices": [choice], "usage": usage}).to_string()).await?;
    }
}

pub(crate) async fn answer(stream: &mut TcpStream, status: u16, body: &str) -> std::io::Result<()> {
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await
}

/// Head and body of the next request; none at the end of the connection.
pub(crate) async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await?;
    Ok(Some((head, body)))
}
