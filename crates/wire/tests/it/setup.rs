//! Servers and clients on this machine.

use std::time::Duration;

use homeostat_env::Task;
use homeostat_sim_faas::{FaasConfig, make_multi_agent};
use homeostat_simppo::{
    AgentName, Coordination, Coordinator, CoordinatorConfig, Member, Registration, TaskType,
};
use homeostat_wire::{ClientConfig, CoordinationClient, CoordinatorServer, ServerConfig, Token};

pub(crate) const SECRET: &str = "an-open-secret-of-the-tests";

/// A coordinator that hosts two functions.
pub(crate) fn coordinator() -> Coordinator {
    let plan = FaasConfig { functions: 2, steps: 6, ..FaasConfig::default() }.build().unwrap();
    let env = make_multi_agent("faas/fleet-v3", &plan).unwrap();
    let task = |name: &str| Task { name: name.to_owned(), task_type: TaskType::Cpu };
    let config = CoordinatorConfig {
        step_deadline: Duration::from_millis(200),
        ..CoordinatorConfig::default()
    };
    config.build(env, &[task("first"), task("second")]).unwrap()
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

pub(crate) fn life(incarnation: u64) -> Registration {
    Registration { incarnation, function: None }
}

pub(crate) fn join(coordination: &mut dyn Coordination, agent: &str) -> Member {
    coordination.register(&name(agent), &life(1)).unwrap().member
}
