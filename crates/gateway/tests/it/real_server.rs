//! The gateway between the official Python client of OpenAI and llama.cpp's server with a tiny model
//! of random weights. `./test` makes the Python environment.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use homeostat_gateway::admission::hash;

use crate::setup::Running;

/// A server in a process of its own, which ends with the test.
struct LlamaServer {
    process: Child,
    url: String,
}

impl LlamaServer {
    fn start(python: &Path, directory: &Path, purpose: &str, slots: usize) -> Self {
        let mut process = Command::new(python)
            .arg(script("server.py"))
            .args([directory.to_str().unwrap(), purpose, &slots.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let url = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("serving ").map(str::to_owned));
        Self { process, url: url.expect("the server starts") }
    }

    fn settings(&self, name: &str, slots: usize) -> String {
        format!(
            "[[upstreams]]\nname = \"{name}\"\nurl = \"{}\"\nmax_parallel = {slots}\n",
            self.url
        )
    }
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real").join(name)
}

fn key(name: &str, limits: &str) -> String {
    let hash: String = hash(name).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("[[keys]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n{limits}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_client_works_through_the_gateway_on_a_real_server() {
    let Some(python) = std::env::var_os("HOMEOSTAT_TEST_LLAMA_PYTHON").map(PathBuf::from) else {
        homeostat_test_skip::skip("no Python with llama.cpp and openai; ./test makes one");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let chat = LlamaServer::start(&python, directory.path(), "chat", 1);
    let embeddings = LlamaServer::start(&python, directory.path(), "embeddings", 2);
    let settings = [
        chat.settings("chat", 1),
        embeddings.settings("embeddings", 2),
        "[[models]]\nname = \"chat\"\nserve = [\"gone\", \"random-chat\"]\n".to_owned(),
        key("user", ""),
        key("limited", "requests_per_minute = 1\n"),
    ];
    let gateway = Running::start(&settings.concat()).await;
    let url = format!("http://{}/v1", gateway.address);
    let client = tokio::task::spawn_blocking(move || {
        Command::new(python)
            .arg(script("client.py"))
            .args([&url, "user", "limited"])
            .output()
            .unwrap()
    });
    let output = client.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    gateway.until("homeostat_gateway_in_flight_requests{upstream=\"chat\"}", 0.0).await;
    assert!(
        gateway
            .metric("homeostat_gateway_length_actual_to_predicted_count{model=\"random-chat\"}")
            .await
            > 5.0
    );
}
