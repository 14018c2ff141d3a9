//! Metrics of a model server whose latency follows the clock of the first fake GPU, and which can hang,
//! return wrong figures and go away.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the server does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Conduct {
    /// Finishes requests; their latency at the highest clock is multiplied by this.
    Serve { load: f64 },
    /// Finishes none.
    Idle,
    /// Answers with this.
    Say(String),
    /// Does not answer.
    Hang,
    /// Closes connections.
    Refuse,
}

pub(crate) struct ScriptedGateway {
    address: SocketAddr,
    conduct: Arc<Mutex<Conduct>>,
}

/// Milliseconds that do not depend on the clock, and those at the highest clock.
const FIXED_MS: f64 = 20.0;
const CLOCK_MS: f64 = 80.0;
const HIGHEST: f64 = 1980.0;

impl ScriptedGateway {
    pub(crate) fn start(clock_file: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let conduct = Arc::new(Mutex::new(Conduct::Serve { load: 1.0 }));
        let shared = conduct.clone();
        std::thread::spawn(move || {
            // Cumulative counts of finished requests.
            let mut counts = vec![0_u64; bounds().len()];
            for stream in listener.incoming().map_while(Result::ok) {
                let conduct = shared.lock().unwrap().clone();
                if let Conduct::Serve { load } = conduct {
                    let limit = std::fs::read_to_string(&clock_file).unwrap_or_default();
                    let limit = limit.trim().parse().ok().filter(|limit| *limit > 0.0);
                    let latency = FIXED_MS + load * CLOCK_MS * HIGHEST / limit.unwrap_or(HIGHEST);
                    for (bound, count) in bounds().iter().zip(&mut counts) {
                        *count += if latency / 1e3 <= *bound { 20 } else { 0 };
                    }
                }
                if conduct == Conduct::Hang {
                    // Open until long after the client's patience.
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_secs(5));
                        drop(stream);
                    });
                } else if conduct != Conduct::Refuse {
                    let text = match conduct {
                        Conduct::Say(text) => text,
                        _ => exposition(&counts),
                    };
                    let _ = answer(stream, &text);
                }
            }
        });
        Self { address, conduct }
    }

    pub(crate) fn source(&self) -> String {
        format!("metrics = \"http://{}/metrics\"\nwaiting_metric = \"waiting\"", self.address)
    }

    pub(crate) fn prometheus(&self) -> String {
        format!("prometheus = \"http://{}\"", self.address)
    }

    pub(crate) fn set(&self, conduct: Conduct) {
        *self.conduct.lock().unwrap() = conduct;
    }
}

/// Two percent apart: the scene is about the loop, not about the resolution of histograms.
fn bounds() -> Vec<f64> {
    (0..250).map(|place| 0.005 * 1.02_f64.powi(place)).chain([f64::INFINITY]).collect()
}

fn exposition(counts: &[u64]) -> String {
    let mut text = String::from("# TYPE ttft_seconds histogram\n");
    for (bound, count) in bounds().iter().zip(counts) {
        let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() };
        text.push_str(&format!("ttft_seconds_bucket{{le=\"{bound}\",model=\"m\"}} {count}\n"));
    }
    text + "# EOF\n"
}

fn answer(mut stream: TcpStream, text: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let length = text.len();
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}")
}
