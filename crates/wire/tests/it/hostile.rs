//! Garbage, giants and the mute: the port survives them, and no agent is disturbed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use homeostat_env::Action;
use homeostat_simppo::Coordination;
use homeostat_wire::{CoordinatorServer, ServerConfig};

use crate::setup::{client, coordinator, join, life, name, serve, server_config};

/// Sends bytes and waits until the other side has had enough, or for a moment.
fn send(server: &CoordinatorServer, bytes: &[u8]) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    // It may hang up before it has heard everything.
    let _ = stream.write_all(bytes);
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn garbage_on_the_port_disturbs_nobody() {
    let server = serve();
    let mut agent = client(&server);
    let member = join(&mut agent, "a");
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let noise: Vec<u8> =
        (0..100_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for (step, bytes) in [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![0; 4096],
        vec![0xff; 4096],
        noise.clone(),
        [&preface[..], &noise].concat(),
        // A frame that announces sixteen megabytes.
        [&preface[..], &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat(),
        Vec::new(),
    ]
    .into_iter()
    .enumerate()
    {
        send(&server, &bytes);
        let outcome = agent.act(&member, step as u64, &Action::Discrete(0)).unwrap();
        assert_eq!(outcome.members, 1);
    }
    assert_eq!(server.with(|coordinator| coordinator.status().accepted), 7);
}

#[test]
fn a_message_that_is_too_large_is_refused_and_counted() {
    let server = serve();
    let mut agent = client(&server);
    let member = join(&mut agent, "a");
    let giant = Action::Continuous(vec![0.5; 10_000]);
    let error = agent.act(&member, 0, &giant).unwrap_err().to_string();
    assert!(error.contains("too large"), "{error}");
    assert_eq!(server.transport_counts().too_large, 1);
    agent.act(&member, 0, &Action::Discrete(0)).unwrap();
}

#[test]
fn more_connections_than_there_is_room_for_are_closed_at_once() {
    let config = ServerConfig { most_connections: 2, ..server_config() };
    let server = CoordinatorServer::start(coordinator(), &config).unwrap();
    let mute: Vec<TcpStream> =
        (0..2).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let mut third = TcpStream::connect(server.address()).unwrap();
    third.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let read = third.read(&mut [0; 1]);
    let is_closed = match &read {
        Ok(bytes) => *bytes == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    assert!(is_closed, "{read:?}");
    drop(mute);
    // As soon as the mute are gone, there is room again.
    let mut agent = client(&server);
    let begun = std::time::Instant::now();
    while agent.register(&name("a"), &life(1)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(10), "there is no room again");
    }
}
