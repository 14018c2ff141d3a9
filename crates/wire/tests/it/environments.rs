//! Simulated environments at the other end of a network: the same steps, and clear refusals.

use std::sync::Arc;
use std::time::Duration;

use homeostat_env::{Action, make};
use homeostat_wire::{
    ClientConfig, EnvironmentClient, EnvironmentError, EnvironmentServer, ServerConfig,
    SimulatedEnvironments,
};

use crate::setup::{server_config, token};

fn serve(config: &ServerConfig, most_sessions: usize) -> EnvironmentServer {
    let envs = SimulatedEnvironments::new(Box::new(make), most_sessions);
    EnvironmentServer::start(Arc::new(envs), config).unwrap()
}

fn client_config(server: &EnvironmentServer) -> ClientConfig {
    ClientConfig {
        url: format!("http://{}", server.address()),
        authorities: None,
        server_name: None,
        token: None,
        deadline: Duration::from_secs(10),
    }
}

#[test]
fn a_world_far_away_plays_as_one_at_hand() {
    let server = serve(&server_config(), 4);
    let mut client = EnvironmentClient::new(&client_config(&server)).unwrap();
    for (id, action) in [
        ("classic/cartpole-v1", Action::Discrete(1)),
        ("classic/pendulum-v1", Action::Continuous(vec![0.5])),
    ] {
        let mut at_hand = make(id).unwrap();
        let opening = client.init(id).unwrap();
        assert_eq!(opening.action, at_hand.spec().action);
        assert_eq!(opening.observation, at_hand.spec().observation);
        assert_eq!(opening.time_limit, at_hand.spec().time_limit);
        let state = client.reset(&opening.session, Some(7)).unwrap();
        assert_eq!(state, at_hand.reset(Some(7)).unwrap());
        for _ in 0..8 {
            let far = client.step(&opening.session, &action).unwrap();
            let near = at_hand.step(&action).unwrap();
            assert_eq!(far.state, near.obs);
            assert_eq!(far.reward.to_bits(), near.reward.to_bits());
            assert_eq!((far.terminated, far.truncated), (near.terminated, near.truncated));
        }
    }
}

#[test]
fn what_cannot_be_done_is_refused_in_words_that_help() {
    let server = serve(&server_config(), 1);
    let mut client = EnvironmentClient::new(&client_config(&server)).unwrap();
    let unknown = client.init("classic/cart-pole-v1").unwrap_err();
    assert!(matches!(&unknown, EnvironmentError::NotFound(why) if why.contains("did you mean")));
    let session = client.init("classic/cartpole-v1").unwrap().session;
    let early = client.step(&session, &Action::Discrete(0)).unwrap_err();
    assert!(matches!(early, EnvironmentError::NotNow(_)), "{early:?}");
    client.reset(&session, None).unwrap();
    for wrong in [
        Action::Discrete(2),
        Action::Continuous(vec![f32::NAN]),
        Action::MultiDiscrete(vec![0; 2000]),
    ] {
        let refused = client.step(&session, &wrong).unwrap_err();
        assert!(matches!(refused, EnvironmentError::NoAction(_)), "{refused:?}");
    }
    client.step(&session, &Action::Discrete(0)).unwrap();
    let strange = client.step("17", &Action::Discrete(0)).unwrap_err();
    assert!(matches!(strange, EnvironmentError::NotFound(_)), "{strange:?}");
    let full = client.init("classic/cartpole-v1").unwrap_err();
    assert!(matches!(full, EnvironmentError::Full(_)), "{full:?}");
}

#[test]
fn strangers_are_turned_away() {
    let config = ServerConfig { token: token(), ..server_config() };
    let server = serve(&config, 1);
    let mut stranger = EnvironmentClient::new(&client_config(&server)).unwrap();
    let denied = stranger.init("classic/cartpole-v1").unwrap_err();
    assert!(matches!(denied, EnvironmentError::Denied(_)), "{denied:?}");
    assert_eq!(server.transport_counts().unauthenticated, 1);
    let known = ClientConfig { token: token(), ..client_config(&server) };
    EnvironmentClient::new(&known).unwrap().init("classic/cartpole-v1").unwrap();
}
