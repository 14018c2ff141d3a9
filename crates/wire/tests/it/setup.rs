//! Servers and clients on this machine.

use std::time::Duration;

use homeostat_simppo::{AgentName, Coordinator, CoordinatorConfig, Transition};
use homeostat_wire::{ClientConfig, CoordinationClient, CoordinatorServer, ServerConfig, Token};

pub(crate) const SECRET: &str = "an-open-secret-of-the-tests";

pub(crate) fn coordinator() -> Coordinator {
    CoordinatorConfig::default().build().unwrap()
}

pub(crate) fn server_config() -> ServerConfig {
    ServerConfig::new("127.0.0.1:0".parse().unwrap())
}

pub(crate) fn serve() -> CoordinatorServer {
    CoordinatorServer::start(coordinator(), &server_config()).unwrap()
}

pub(crate) fn client_config(server: &CoordinatorServer) -> ClientConfig {
    ClientConfig {
        url: format!("http://{}", server.address()),
        authorities: None,
        server_name: None,
        token: None,
        deadline: Duration::from_secs(5),
    }
}

pub(crate) fn client(server: &CoordinatorServer) -> CoordinationClient {
    CoordinationClient::new(&client_config(server)).unwrap()
}

pub(crate) fn token() -> Option<Token> {
    Some(Token::new(SECRET).unwrap())
}

pub(crate) fn name(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

pub(crate) fn step(sequence: u64, reward: f64) -> Transition {
    let state = vec![0.1, 0.2, 0.3, -0.4, 0.5, 0.6, 0.7];
    Transition { sequence, state, action: (sequence % 7) as u32, reward }
}
