//! The service that runs in real pods: every request costs a fixed amount of CPU work.
//!
//! The amount is a number of iterations, so that a pod with less CPU takes longer. Requests are
//! worked on one at a time in their order, as in the many runtimes with one thread; those whose
//! client has gone meanwhile are dropped. It stands alone on the standard library: [`homeostat_testbed`] compiles this file into a static binary,
//! which is all that an image holds.
//!
//! | argument | what it does |
//! |---|---|
//! | `serve` | `GET /work`, `/ready`, `/metrics`, `/drain` on port 8080 |
//! | `calibrate` | prints how many iterations take a millisecond here |
//! | `pause` | nothing: holds the place of a pod |

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

/// Upper ends of the latency histogram, in seconds.
const BUCKETS: [f64; 10] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0];
/// After it began to drain, a pod still gets requests until the others have heard of it.
const HEARSAY: Duration = Duration::from_secs(1);

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("serve") => serve(),
        Some("calibrate") => println!("{:.0}", iterations_per_millisecond()),
        Some("pause") => loop {
            std::thread::park();
        },
        _ => {
            eprintln!("usage: work-service serve | calibrate | pause");
            std::process::exit(2);
        }
    }
}

/// The work: it cannot be cut short, since each step needs the one before.
fn work(iterations: u64) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..iterations {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    std::hint::black_box(state)
}

/// The fastest of many short trials: what an undisturbed core does.
fn iterations_per_millisecond() -> f64 {
    const TRIAL: u64 = 1_000_000;
    let trial = |_| {
        let started = Instant::now();
        work(std::hint::black_box(TRIAL));
        TRIAL as f64 / (started.elapsed().as_secs_f64() * 1e3)
    };
    (0..200).map(trial).fold(0.0, f64::max)
}

/// A request that waits for its turn: its client, and the channel on which its end is reported.
type Job = (Arc<TcpStream>, SyncSender<()>);

struct Service {
    jobs: Sender<Job>,
    in_flight: AtomicU64,
    requests: AtomicU64,
    latency_nanos: AtomicU64,
    buckets: [AtomicU64; BUCKETS.len()],
    is_draining: AtomicBool,
}

fn serve() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let iterations = number("WORK_ITERATIONS").expect("WORK_ITERATIONS is a number");
    // Touched, so that it is really there.
    let memory = vec![1_u8; number("WORK_MEMORY_MIB").unwrap_or(16) as usize * 1024 * 1024];
    std::hint::black_box(&memory);
    let (jobs, waiting) = channel();
    std::thread::spawn(move || work_in_turn(&waiting, iterations));
    let service = Arc::new(Service {
        jobs,
        in_flight: AtomicU64::default(),
        requests: AtomicU64::default(),
        latency_nanos: AtomicU64::default(),
        buckets: Default::default(),
        is_draining: AtomicBool::default(),
    });
    let listener = TcpListener::bind("0.0.0.0:8080").expect("the port is free");
    for stream in listener.incoming().flatten() {
        let service = service.clone();
        std::thread::spawn(move || service.converse(&Arc::new(stream)));
    }
}

fn work_in_turn(waiting: &Receiver<Job>, iterations: u64) {
    for (client, done) in waiting {
        if !is_gone(&client) {
            work(iterations);
        }
        // The client waits for this.
        let _ = done.send(());
    }
}

/// Whether a client hung up: the answer would not be read.
fn is_gone(client: &TcpStream) -> bool {
    let peek = || {
        client.set_nonblocking(true)?;
        let peeked = client.peek(&mut [0]);
        client.set_nonblocking(false)?;
        peeked
    };
    match peek() {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

impl Service {
    /// Answers the requests of one connection until the client goes.
    fn converse(&self, stream: &Arc<TcpStream>) -> Option<()> {
        stream.set_nodelay(true).ok()?;
        let mut lines = BufReader::new(&**stream).lines();
        loop {
            let request = lines.next()?.ok()?;
            while !lines.next()?.ok()?.is_empty() {}
            // A kubelet before 1.25 asks for //drain.
            let path = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
            let (code, body) = self.answer(path, stream);
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {code}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n"
            );
            (&mut &**stream).write_all((head + &body).as_bytes()).ok()?;
            if path == "drain" {
                std::thread::sleep(Duration::from_millis(100));
                std::process::exit(0);
            }
        }
    }

    fn answer(&self, path: &str, client: &Arc<TcpStream>) -> (&'static str, String) {
        match path {
            "work" => {
                self.wait_for_work(client);
                ("200 OK", "done\n".to_owned())
            }
            "ready" if self.is_draining.load(Ordering::SeqCst) => {
                ("503 Service Unavailable", "draining\n".to_owned())
            }
            "ready" => ("200 OK", "ready\n".to_owned()),
            "metrics" => ("200 OK", self.metrics()),
            "drain" => {
                self.drain();
                ("200 OK", "drained\n".to_owned())
            }
            _ => ("404 Not Found", "there is /work, /ready, /metrics and /drain\n".to_owned()),
        }
    }

    fn wait_for_work(&self, client: &Arc<TcpStream>) {
        let started = Instant::now();
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let (done, is_done) = sync_channel(1);
        self.jobs.send((client.clone(), done)).expect("the worker never ends");
        is_done.recv().expect("the worker answers");
        let took = started.elapsed();
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.latency_nanos.fetch_add(took.as_nanos() as u64, Ordering::SeqCst);
        for (bucket, end) in self.buckets.iter().zip(BUCKETS) {
            if took.as_secs_f64() <= end {
                bucket.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// Reports not ready; returns when all requests were served.
    fn drain(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
        std::thread::sleep(HEARSAY);
        while self.in_flight.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn metrics(&self) -> String {
        let requests = self.requests.load(Ordering::SeqCst);
        let mut text = "# TYPE work_request_duration_seconds histogram\n".to_owned();
        for (bucket, end) in self.buckets.iter().zip(BUCKETS) {
            let count = bucket.load(Ordering::SeqCst);
            text += &format!("work_request_duration_seconds_bucket{{le=\"{end}\"}} {count}\n");
        }
        let sum = self.latency_nanos.load(Ordering::SeqCst) as f64 / 1e9;
        let in_flight = self.in_flight.load(Ordering::SeqCst);
        text + &format!(
            "work_request_duration_seconds_bucket{{le=\"+Inf\"}} {requests}\n\
                 work_request_duration_seconds_sum {sum}\n\
                 work_request_duration_seconds_count {requests}\n\
                 # TYPE work_requests_in_flight gauge\nwork_requests_in_flight {in_flight}\n"
        )
    }
}
