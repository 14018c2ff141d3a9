//! The virtual agent: sums, means and deviations over the others, exactly.

use homeostat_decide::{Contribution, GlobalState, ScalingAction, VirtualAgent};
use proptest::prelude::*;

type Agent = ([f32; 7], usize);

fn part((state, action): &Agent) -> Contribution {
    Contribution::new(state, ScalingAction::ALL[*action]).expect("a finite state")
}

fn all_agents(agents: &[Agent]) -> VirtualAgent {
    let mut all = VirtualAgent::default();
    agents.iter().for_each(|agent| all.add(&part(agent)));
    all
}

fn agents(most: usize) -> impl Strategy<Value = Vec<Agent>> {
    prop::collection::vec((prop::array::uniform7(-1.0f32..=1.0), 0..7usize), 1..most)
}

/// Section 4.7.1 word by word, in quadratic time.
fn printed(agents: &[Agent], own: usize) -> GlobalState {
    let others: Vec<&Agent> =
        agents.iter().enumerate().filter(|(k, _)| *k != own).map(|(_, agent)| agent).collect();
    let n = others.len().max(1) as f64;
    let steps = |agent: &Agent, up: [usize; 2], down: [usize; 2]| {
        f64::from(u8::from(up.contains(&agent.1))) - f64::from(u8::from(down.contains(&agent.1)))
    };
    let variable = |agent: &Agent, k: usize| match k {
        0 => f64::from(agent.0[4]),
        1 => f64::from(agent.0[5]),
        2 => steps(agent, [1, 3], [2, 4]),
        3 => steps(agent, [5, 5], [6, 6]),
        _ => f64::from(agent.0[k - 4]),
    };
    let sum = |k: usize| others.iter().map(|agent| variable(agent, k)).sum::<f64>();
    let deviation = |k: usize| {
        let mean = sum(k) / n;
        let squares = others.iter().map(|agent| (variable(agent, k) - mean).powi(2));
        (squares.sum::<f64>() / n).sqrt()
    };
    GlobalState {
        others: others.len(),
        limit_cpu: sum(0),
        limit_memory: sum(1),
        vertical: sum(2),
        horizontal: sum(3),
        preservation: sum(4) / n,
        use_cpu: sum(5) / n,
        use_memory: sum(6) / n,
        deviations: std::array::from_fn(deviation),
    }
}

proptest! {
    #[test]
    fn each_agent_sees_the_sums_means_and_deviations_of_the_others(agents in agents(20)) {
        let all = all_agents(&agents);
        for (own, agent) in agents.iter().enumerate() {
            let (got, expect) = (all.of_others(&part(agent)), printed(&agents, own));
            prop_assert_eq!(got.others, agents.len() - 1);
            for (got, expect) in got.features(1.0).iter().zip(expect.features(1.0)) {
                prop_assert!((got - expect).abs() < 1e-5, "{got}, expected {expect}");
            }
        }
    }

    #[test]
    fn the_order_of_agents_does_not_matter_in_any_bit(agents in agents(50)) {
        let mut turned = agents.clone();
        turned.reverse();
        prop_assert!(all_agents(&agents) == all_agents(&turned));
    }
}

#[test]
fn a_million_joins_and_leaves_leave_nothing_behind() {
    let stays = part(&([0.7, 0.1, 0.2, 0.0, 0.3, 0.4, 0.5], 5));
    let comes = part(&([1e-6, 1.0, 0.3, -1.0, 0.999_999, 0.1, 0.2], 2));
    let mut all = VirtualAgent::default();
    for _ in 0..3000 {
        all.add(&stays);
    }
    let before = all;
    for _ in 0..1_000_000 {
        all.add(&comes);
        all.remove(&comes);
    }
    assert_eq!(all, before);
    assert_eq!(all.of_others(&stays).deviations, [0.0; 7], "equal agents do not deviate");
}

#[test]
fn an_agent_alone_sees_nobody() {
    let own = part(&([0.5; 7], 1));
    let mut all = VirtualAgent::default();
    all.add(&own);
    assert_eq!(all.of_others(&own).features(1.0), [0.0; GlobalState::FEATURES]);
}

#[test]
fn a_number_that_is_not_finite_is_refused_by_its_place() {
    let mut state = [0.5; 7];
    state[3] = f32::NAN;
    assert_eq!(Contribution::new(&state, ScalingAction::Hold), Err(3));
}
