//! What an open stream costs the gateway.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::process::{LISTEN, Process};
use crate::setup::{Scripted, chat};

const STREAMS: usize = 1000;
/// 10 000 streams in 200 MB.
const MAX_BYTES_PER_STREAM: usize = 20_000;

/// Resident memory of a process.
fn resident_bytes(process: &Process) -> Option<usize> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", process.child.id())).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<usize>().unwrap() * 1024)
}

/// A stream of which the first event has come.
async fn open(address: String) -> TcpStream {
    let body = chat("silent-stream", ",\"stream\":true");
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-length: ";
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !seen.windows(6).any(|window| window == b"data: ") {
        let count = stream.read_buf(&mut seen).await.unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
    }
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_stream_costs_less_than_20_kilobytes() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    if limit.maximum.is_some_and(|files| files < 3 * STREAMS as u64) {
        homeostat_test_skip::skip("too few files may be open for a thousand streams: ulimit -Hn");
        return;
    }
    let upstream = Scripted::start().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gateway.toml");
    std::fs::write(&file, format!("{LISTEN}{}", upstream.settings("a", 2 * STREAMS))).unwrap();
    let process = Process::start(&file);
    let mut streams = Vec::new();
    let mut open_more = async |count: usize| {
        let mut opening = JoinSet::new();
        (0..count).for_each(|_| drop(opening.spawn(open(process.address.clone()))));
        streams.extend(opening.join_all().await);
    };
    // What is allocated once is there after a few.
    open_more(50).await;
    let Some(before) = resident_bytes(&process) else {
        homeostat_test_skip::skip("no /proc to read the memory of a process from");
        return;
    };
    for _ in 0..STREAMS / 50 {
        open_more(50).await;
    }
    let per_stream = (resident_bytes(&process).unwrap() - before) / STREAMS;
    assert!(per_stream < MAX_BYTES_PER_STREAM, "{per_stream} bytes per stream");
    // Far less than what it holds would mean that it holds nothing.
    assert!(per_stream > 2000, "{per_stream} bytes per stream");
    drop(streams);
    tokio::time::timeout(Duration::from_secs(20), upstream.until_closed_to(1)).await.unwrap();
}
