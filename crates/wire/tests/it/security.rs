//! Who gets in, and from where.

use homeostat_simppo::{Coordination, CoordinationError};
use homeostat_wire::{
    ClientConfig, CoordinationClient, CoordinatorServer, ServerConfig, ServerIdentity, Token,
};

use crate::setup::{client_config, coordinator, life, name, server_config, token};

fn register(config: &ClientConfig) -> Result<(), CoordinationError> {
    CoordinationClient::new(config).unwrap().register(&name("a"), &life(1)).map(drop)
}

fn denied(config: &ClientConfig, expect: &str) {
    match register(config) {
        Err(CoordinationError::Denied { reason }) if reason.contains(expect) => {}
        other => panic!("expected to be denied for {expect}, got {other:?}"),
    }
}

#[test]
fn a_token_lets_in_and_nothing_else_does() {
    let config = ServerConfig { token: token(), ..server_config() };
    let server = CoordinatorServer::start(coordinator(), &config).unwrap();
    let open = client_config(&server);
    denied(&open, "this server asks for a token");
    let other = Some(Token::new("another-secret-entirely").unwrap());
    denied(&ClientConfig { token: other, ..open.clone() }, "not the right one");
    assert_eq!(server.transport_counts().unauthenticated, 2);
    assert_eq!(server.with(|coordinator| coordinator.agents().count()), 0);
    register(&ClientConfig { token: token(), ..open }).unwrap();
}

#[test]
fn off_this_machine_there_is_no_talk_without_tls_and_token() {
    let (_, identity) = certificate();
    let check = |config: ServerConfig, expect: &str| {
        let config = ServerConfig { listen: "0.0.0.0:0".parse().unwrap(), ..config };
        let error = CoordinatorServer::start(coordinator(), &config).err().unwrap().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(server_config(), "neither TLS nor a token");
    check(ServerConfig { token: token(), ..server_config() }, "no TLS");
    check(ServerConfig { identity: Some(identity), ..server_config() }, "no token");
    let client = |url: &str, token: Option<Token>, expect: &str| {
        let config = ClientConfig {
            url: url.to_owned(),
            authorities: None,
            server_name: None,
            token,
            deadline: std::time::Duration::from_secs(1),
        };
        let error = CoordinationClient::new(&config).err().unwrap().to_string();
        assert!(error.contains(expect), "{error}");
    };
    client("http://10.1.2.3:7700", None, "neither TLS nor a token");
    client("http://10.1.2.3:7700", token(), "no TLS");
    client("https://coordinator.example.org:7700", None, "no token");
    client("https://coordinator.example.org:7700", token(), "--tls-ca");
    client("ftp://127.0.0.1:7700", None, "neither http:// nor https://");
    client("http://127.0.0.1", None, "no port");
    client("nonsense of the second kind", None, "is not an address of a server");
}

/// A certificate for `localhost`, signed by itself.
fn certificate() -> (Vec<u8>, ServerIdentity) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let pem = made.cert.pem().into_bytes();
    (pem.clone(), ServerIdentity::new(pem, made.signing_key.serialize_pem().into_bytes()))
}

#[test]
fn over_tls_only_a_trusted_certificate_is_talked_to() {
    let (authority, identity) = certificate();
    let (stranger, _) = certificate();
    let config = ServerConfig { identity: Some(identity), token: token(), ..server_config() };
    let server = CoordinatorServer::start(coordinator(), &config).unwrap();
    let port = server.address().port();
    let trusting = ClientConfig {
        url: format!("https://localhost:{port}"),
        authorities: Some(authority.clone()),
        token: token(),
        ..client_config(&server)
    };
    register(&trusting).unwrap();
    let by_number = ClientConfig {
        url: format!("https://127.0.0.1:{port}"),
        server_name: Some("localhost".to_owned()),
        ..trusting.clone()
    };
    register(&by_number).unwrap();
    denied(&ClientConfig { server_name: None, ..by_number }, "invalid peer certificate");
    let wary = ClientConfig { authorities: Some(stranger), ..trusting.clone() };
    denied(&wary, "invalid peer certificate");
    let plain = ClientConfig { url: format!("http://127.0.0.1:{port}"), ..trusting };
    assert!(matches!(register(&plain), Err(CoordinationError::Away { .. })));
    assert_eq!(server.with(|coordinator| coordinator.agents().count()), 1);
}

#[test]
fn certificates_that_are_none_are_refused_before_anybody_listens() {
    let identity = Some(ServerIdentity::new(b"no".to_vec(), b"no".to_vec()));
    let config = ServerConfig { identity, ..server_config() };
    let error = CoordinatorServer::start(coordinator(), &config).err().unwrap().to_string();
    assert!(error.contains("the certificate or its key is not usable"), "{error}");
}
