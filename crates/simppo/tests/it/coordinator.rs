//! The coordinator: one agent's silence, lies and repetitions are its own affair.

use std::collections::BTreeMap;

use homeostat_core::{Persist, Snapshot};
use homeostat_decide::ScalingAction;
use homeostat_simppo::{
    AgentName, Contribution, Coordination, Coordinator, CoordinatorConfig, CoordinatorEvent,
    Member, RefusalKind, Transition, VirtualAgent,
};
use proptest::prelude::*;

use crate::team::{coordinator, join, ms, name, observe, refusal, step};

#[test]
fn the_team_reward_is_the_mean_over_the_living_and_the_global_state_is_of_the_others() {
    let mut coordinator = coordinator();
    let [a, b, c] = ["a", "b", "c"].map(|agent| join(&mut coordinator, agent, 1));
    let first = observe(&mut coordinator, &a, &step(1, 0.25));
    assert_eq!((first.members, first.team_reward, first.global.others), (1, 0.25, 0));
    observe(&mut coordinator, &b, &step(1, 0.75));
    let third = observe(&mut coordinator, &c, &step(1, -1.0));
    assert_eq!((third.members, third.team_reward, third.global.others), (3, 0.0, 2));
    assert_eq!((third.global.limit_cpu, third.global.vertical), (1.0, 2.0));
    // A new step replaces the old one of the same agent.
    assert_eq!(observe(&mut coordinator, &c, &step(2, 0.5)).team_reward, 0.5);
    coordinator.deregister(&b).unwrap();
    let now = coordinator.global_state(&a).unwrap();
    assert_eq!((now.members, now.team_reward, now.global.others), (2, 0.375, 1));
}

#[test]
fn a_silent_agent_leaves_the_global_state_after_the_timeout_and_comes_back_with_its_next_step() {
    let mut coordinator = coordinator();
    let [talks, stalls] = ["talks", "stalls"].map(|agent| join(&mut coordinator, agent, 1));
    observe(&mut coordinator, &talks, &step(1, 0.0));
    observe(&mut coordinator, &stalls, &step(1, 1.0));
    let mut left_after = None;
    for quarter in 0..20 {
        coordinator.advance(ms(250 * quarter));
        coordinator.heartbeat(&talks).unwrap();
        let members = coordinator.global_state(&talks).unwrap().members;
        if members == 1 && left_after.is_none() {
            left_after = Some(250 * quarter);
        }
    }
    assert_eq!(left_after, Some(3250), "the first look after three silent seconds");
    let timed_out = CoordinatorEvent::TimedOut { name: name("stalls") };
    assert!(coordinator.take_events().contains(&timed_out));
    // Its heartbeat brings it back to the living, its next step to the global state.
    coordinator.heartbeat(&stalls).unwrap();
    assert_eq!(coordinator.take_events(), [CoordinatorEvent::Returned { name: name("stalls") }]);
    assert_eq!((coordinator.standing().members, coordinator.standing().waiting), (1, 1));
    assert_eq!(observe(&mut coordinator, &stalls, &step(9, 0.5)).team_reward, 0.25);
    assert_eq!(coordinator.standing().missed, 7, "steps 2 to 8 never came");
}

#[test]
fn after_a_restart_messages_of_the_earlier_life_are_refused() {
    let mut coordinator = coordinator();
    let earlier = join(&mut coordinator, "a", 1);
    observe(&mut coordinator, &earlier, &step(40, 1.0));
    let later = join(&mut coordinator, "a", 2);
    assert!(later.session > earlier.session);
    assert_eq!(coordinator.standing().members, 0, "what the earlier life did is over");
    observe(&mut coordinator, &later, &step(1, 0.5));
    let kind = refusal(coordinator.observe(&earlier, &step(41, -1.0)));
    assert_eq!(kind, RefusalKind::EarlierSession);
    assert_eq!(refusal(coordinator.heartbeat(&earlier)), RefusalKind::EarlierSession);
    assert_eq!(refusal(coordinator.deregister(&earlier)), RefusalKind::EarlierSession);
    assert_eq!(coordinator.global_state(&later).unwrap().team_reward, 0.5);
}

#[test]
fn registering_twice_in_one_life_changes_nothing() {
    let mut coordinator = coordinator();
    let member = join(&mut coordinator, "a", 7);
    observe(&mut coordinator, &member, &step(3, 1.0));
    let again = coordinator.register(&name("a"), 7).unwrap();
    assert_eq!((again.member, again.last_sequence), (member, 3));
    assert_eq!(coordinator.standing().members, 1);
}

#[test]
fn what_cannot_be_true_is_refused_by_kind_and_reaches_nobody() {
    let mut coordinator = coordinator();
    let [sound, liar] = ["sound", "liar"].map(|agent| join(&mut coordinator, agent, 1));
    observe(&mut coordinator, &sound, &step(1, 0.5));
    observe(&mut coordinator, &liar, &step(10, 0.5));
    let before = coordinator.global_state(&sound).unwrap();
    let mut expected: BTreeMap<RefusalKind, u64> = BTreeMap::new();
    let mut check = |transition: Transition, kind: RefusalKind| {
        assert_eq!(refusal(coordinator.observe(&liar, &transition)), kind, "{transition:?}");
        assert_eq!(coordinator.global_state(&sound).unwrap(), before, "{transition:?}");
        *expected.entry(kind).or_default() += 1;
    };
    let with_state = |sequence: u64, index: usize, value: f32| {
        let mut transition = step(sequence, 0.5);
        transition.state[index] = value;
        transition
    };
    check(step(10, -1.0), RefusalKind::Duplicate);
    check(step(9, -1.0), RefusalKind::OutOfOrder);
    check(step(0, -1.0), RefusalKind::OutOfOrder);
    check(step(u64::MAX, -1.0), RefusalKind::SequenceJump);
    check(with_state(11, 0, f32::NAN), RefusalKind::NotFinite);
    check(with_state(12, 6, f32::INFINITY), RefusalKind::NotFinite);
    check(step(13, f64::NAN), RefusalKind::NotFinite);
    check(with_state(14, 4, 1.001), RefusalKind::OutOfRange);
    check(with_state(15, 3, -1.001), RefusalKind::OutOfRange);
    check(step(16, 1e9), RefusalKind::OutOfRange);
    check(Transition { state: vec![0.5; 6], ..step(17, 0.5) }, RefusalKind::WrongLength);
    check(Transition { state: Vec::new(), ..step(18, 0.5) }, RefusalKind::WrongLength);
    check(Transition { action: 7, ..step(19, 0.5) }, RefusalKind::UnknownAction);
    let agents: Vec<_> = coordinator.agents().collect();
    let [liar, sound] = agents.as_slice() else { panic!("{agents:?}") };
    assert_eq!(liar.refusals.iter().collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(sound.refusals.total(), 0);
    assert_eq!(coordinator.standing().refusals, liar.refusals);
}

#[test]
fn strangers_are_refused_and_counted() {
    let mut coordinator = coordinator();
    let member = join(&mut coordinator, "a", 1);
    let stranger = Member { name: name("nobody"), ..member.clone() };
    assert_eq!(refusal(coordinator.heartbeat(&stranger)), RefusalKind::UnknownAgent);
    let mut forged = member.clone();
    forged.session.number += 1;
    assert_eq!(refusal(coordinator.heartbeat(&forged)), RefusalKind::UnknownSession);
    coordinator.deregister(&member).unwrap();
    assert_eq!(refusal(coordinator.heartbeat(&member)), RefusalKind::UnknownAgent);
    assert_eq!(coordinator.standing().refusals.of(RefusalKind::UnknownAgent), 2);
    for wrong in ["", "a b", "a/b", "ü", "a\n", &"x".repeat(65)] {
        assert_eq!(AgentName::new(wrong).unwrap_err().kind, RefusalKind::Name, "{wrong:?}");
    }
}

#[test]
fn a_full_coordinator_forgets_the_longest_silent_and_nobody_who_is_alive() {
    let config = CoordinatorConfig { most_agents: 2, ..CoordinatorConfig::default() };
    let mut coordinator = config.build().unwrap();
    let [a, b] = ["a", "b"].map(|agent| join(&mut coordinator, agent, 1));
    assert_eq!(refusal(coordinator.register(&name("c"), 1)), RefusalKind::Full);
    for second in 0..5 {
        coordinator.advance(ms(1000 * second));
        coordinator.heartbeat(&b).unwrap();
    }
    join(&mut coordinator, "c", 1);
    assert_eq!(refusal(coordinator.heartbeat(&a)), RefusalKind::UnknownAgent);
    coordinator.heartbeat(&b).unwrap();
}

#[test]
fn a_clock_that_jumps_forward_evicts_nobody_at_once() {
    let mut coordinator = coordinator();
    let members: Vec<Member> =
        (0..20).map(|agent| join(&mut coordinator, &format!("agent-{agent}"), 1)).collect();
    for member in &members {
        observe(&mut coordinator, member, &step(1, 1.0));
    }
    for reading in [1_000, 3_600_000, 3_600_500, 90_000_000, 90_000_900] {
        coordinator.advance(ms(reading));
        assert_eq!(coordinator.standing().members, 20, "after {reading} ms");
        for member in &members {
            coordinator.heartbeat(member).unwrap();
        }
    }
    assert_eq!(coordinator.standing().clock_jumps, 2);
}

#[test]
fn a_clock_that_jumps_backward_does_not_stop_evictions() {
    let mut coordinator = coordinator();
    let silent = join(&mut coordinator, "silent", 1);
    coordinator.advance(ms(1_000_000));
    observe(&mut coordinator, &silent, &step(1, 1.0));
    for second in 0..=4 {
        coordinator.advance(ms(1000 * second));
    }
    assert_eq!(coordinator.standing().silent, 1, "four seconds after the jump");
}

proptest! {
    #[test]
    fn whatever_the_clock_does_the_talking_stay_and_the_silent_go(
        jumps in prop::collection::vec((any::<u32>(), 1u64..8), 1..12),
    ) {
        let mut coordinator = coordinator();
        let [talks, silent] = ["talks", "silent"].map(|agent| join(&mut coordinator, agent, 1));
        observe(&mut coordinator, &talks, &step(1, 1.0));
        observe(&mut coordinator, &silent, &step(1, 1.0));
        let mut steady = 0;
        for (start, ticks) in jumps {
            for tick in 0..ticks {
                coordinator.advance(ms(u64::from(start) + 500 * tick));
                coordinator.heartbeat(&talks).unwrap();
                // The tick after a jump may count for nothing, the others are half a second.
                steady += u64::from(tick > 0);
                let standing = coordinator.standing();
                prop_assert!(standing.heard >= 1);
                if steady > 6 {
                    prop_assert_eq!(standing.silent, 1);
                }
            }
        }
        let agents: Vec<_> = coordinator.agents().collect();
        let talking = agents.iter().find(|agent| agent.name == name("talks")).unwrap();
        prop_assert_eq!(talking.timeouts, 0);
    }
}

/// What an agent may send.
#[derive(Debug, Clone)]
enum Message {
    /// The next step, after so many that got lost.
    Step {
        lost: u64,
        state: [f32; 7],
        action: u32,
        reward: f64,
    },
    /// The next step with a number that is none.
    Poison {
        index: usize,
    },
    /// A step that was sent before.
    Old {
        back: u64,
    },
    Heartbeat,
    /// Another life of the same agent.
    Restart,
}

fn message() -> impl Strategy<Value = Message> {
    let state = prop::array::uniform7(0.0f32..=1.0);
    prop_oneof![
        4 => (0u64..3, state, 0u32..7, -2.0f64..2.0)
            .prop_map(|(lost, state, action, reward)| Message::Step { lost, state, action, reward }),
        1 => (0usize..7).prop_map(|index| Message::Poison { index }),
        1 => (0u64..5).prop_map(|back| Message::Old { back }),
        1 => Just(Message::Heartbeat),
        1 => Just(Message::Restart),
    ]
}

/// What should be known of an agent, kept in the plainest way.
#[derive(Default, Clone)]
struct Expected {
    member: Option<Member>,
    incarnation: u64,
    sequence: u64,
    used: u64,
    last: Option<(Contribution, f64)>,
}

proptest! {
    #[test]
    fn the_team_is_the_last_good_step_of_each_and_every_step_is_counted_once(
        messages in prop::collection::vec((0usize..6, message()), 1..150),
    ) {
        let mut coordinator = coordinator();
        let mut agents = vec![Expected::default(); 6];
        for (who, message) in messages {
            let agent = &mut agents[who];
            let name = name(&format!("agent-{who}"));
            if agent.member.is_none() || matches!(message, Message::Restart) {
                agent.incarnation += 1;
                let membership = coordinator.register(&name, agent.incarnation).unwrap();
                agent.member = Some(membership.member);
                (agent.sequence, agent.last) = (0, None);
            }
            let member = agent.member.clone().unwrap();
            match message {
                Message::Step { lost, state, action, reward } => {
                    agent.sequence += 1 + lost;
                    agent.used += 1 + lost;
                    let sequence = agent.sequence;
                    let transition = Transition { sequence, state: state.to_vec(), action, reward };
                    coordinator.observe(&member, &transition).unwrap();
                    let action = ScalingAction::from_index(action as usize).unwrap();
                    agent.last = Some((Contribution::new(&state, action).unwrap(), reward));
                }
                Message::Poison { index } => {
                    agent.sequence += 1;
                    agent.used += 1;
                    let mut transition = step(agent.sequence, 0.0);
                    transition.state[index] = f32::NAN;
                    let kind = refusal(coordinator.observe(&member, &transition));
                    prop_assert_eq!(kind, RefusalKind::NotFinite);
                }
                Message::Old { back } => {
                    let old = step(agent.sequence.saturating_sub(back), -2.0);
                    let kind = refusal(coordinator.observe(&member, &old));
                    prop_assert!(matches!(kind, RefusalKind::Duplicate | RefusalKind::OutOfOrder));
                }
                Message::Heartbeat => coordinator.heartbeat(&member).unwrap(),
                Message::Restart => {}
            }
        }
        let mut team = VirtualAgent::default();
        let mut rewards = Vec::new();
        for (contribution, reward) in agents.iter().filter_map(|agent| agent.last.as_ref()) {
            team.add(contribution);
            rewards.push(*reward);
        }
        for agent in agents.iter().filter(|agent| agent.member.is_some()) {
            let guidance = coordinator.global_state(agent.member.as_ref().unwrap()).unwrap();
            let global = agent.last.as_ref().map_or(team.of_all(), |own| team.of_others(&own.0));
            prop_assert_eq!(guidance.global, global);
            let mean = rewards.iter().sum::<f64>() / rewards.len().max(1) as f64;
            prop_assert!((guidance.team_reward - mean).abs() < 1e-9);
        }
        for standing in coordinator.agents() {
            let who: usize = standing.name.as_str()[6..].parse().unwrap();
            let poisoned = standing.refusals.of(RefusalKind::NotFinite);
            prop_assert_eq!(standing.accepted + poisoned + standing.missed, agents[who].used);
        }
    }
}

fn restored(from: &Coordinator) -> Coordinator {
    let mut snapshot = Snapshot::default();
    from.save("coordinator", &mut snapshot);
    let mut fresh = coordinator();
    // Its clock has run for longer than a timeout before.
    for second in 0..=5 {
        fresh.advance(ms(1000 * second));
    }
    fresh.load("coordinator", &snapshot).unwrap();
    fresh
}

#[test]
fn a_killed_coordinator_comes_back_knowing_who_was_there() {
    let mut first = coordinator();
    let [a, b] = ["a", "b"].map(|agent| join(&mut first, agent, 1));
    observe(&mut first, &a, &step(5, 0.25));
    observe(&mut first, &b, &step(5, 0.75));
    refusal(first.observe(&b, &step(5, 0.0)));
    let mut second = restored(&first);
    assert_eq!(second.standing().refusals, first.standing().refusals);
    assert_eq!((second.standing().members, second.standing().heard), (2, 0));
    // Steps 6 to 8 were in flight: sent to the coordinator that was killed, or to nobody.
    second.advance(ms(5500));
    let guidance = observe(&mut second, &a, &step(9, 0.25));
    assert_eq!((guidance.members, guidance.team_reward), (2, 0.5));
    assert_eq!(second.standing().missed, first.standing().missed + 3);
    let heard = CoordinatorEvent::HeardAgain { name: name("a") };
    assert_eq!(second.take_events(), [heard]);
    // Whoever does not come back leaves after the timeout, as always.
    for second_of_time in 0..5 {
        second.advance(ms(5500 + 1000 * second_of_time));
        second.heartbeat(&a).unwrap();
    }
    assert_eq!((second.standing().members, second.standing().silent), (1, 1));
}

#[test]
fn sessions_of_a_later_coordinator_are_larger_even_than_those_its_checkpoint_missed() {
    let first = coordinator();
    let checkpoint = first.clone();
    let mut first = first;
    // Registered after the last checkpoint: the second life does not know of it.
    let lost = join(&mut first, "a", 1);
    let mut second = restored(&checkpoint);
    assert_eq!(refusal(second.heartbeat(&lost)), RefusalKind::UnknownAgent);
    let again = join(&mut second, "a", 1);
    assert!(again.session > lost.session);
    assert_eq!(refusal(second.heartbeat(&lost)), RefusalKind::EarlierSession);
}

#[test]
fn a_checkpoint_of_another_shape_is_refused() {
    let mut snapshot = Snapshot::default();
    coordinator().save("coordinator", &mut snapshot);
    snapshot.put_u8("coordinator/names", b"a\nb".to_vec());
    assert!(coordinator().load("coordinator", &snapshot).is_err());
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let check = |config: CoordinatorConfig, expect: &str| {
        let error = config.build().unwrap_err().to_string();
        assert!(error.starts_with(expect), "{error}");
    };
    let base = CoordinatorConfig::default;
    check(CoordinatorConfig { heartbeat: ms(0), ..base() }, "heartbeat must be from 1ms to 1h");
    check(
        CoordinatorConfig { timeout: ms(1999), ..base() },
        "timeout must be from two heartbeats (2s) to a day, got 1.999s",
    );
    check(CoordinatorConfig { most_agents: 0, ..base() }, "most_agents must be");
    check(CoordinatorConfig { most_reward: f64::NAN, ..base() }, "most_reward must be");
}

#[test]
fn events_that_nobody_takes_do_not_pile_up() {
    let mut coordinator = coordinator();
    for incarnation in 0..5000 {
        join(&mut coordinator, "a", incarnation);
    }
    assert_eq!(coordinator.take_events().len(), 4096);
    assert_eq!(coordinator.standing().events_dropped, 904);
}
