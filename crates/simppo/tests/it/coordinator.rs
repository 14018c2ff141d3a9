//! A coordinator and the platform it hosts: steps, seats, and agents that stall, lie or come back.

use std::collections::BTreeMap;

use homeostat_core::{Persist, Snapshot};
use homeostat_decide::ScalingAction;
use homeostat_env::{Action, Task};
use homeostat_sim_faas::{FaasConfig, make_multi_agent};
use homeostat_simppo::{
    AgentName, Contribution, Coordinator, CoordinatorConfig, CoordinatorEvent, Member, RefusalKind,
    Registration, StepOutcome, TaskType, VirtualAgent,
};
use proptest::prelude::*;

use crate::team::{
    HOLD, MORE_CPU, config, coordinator, hosting, join, life, ms, name, outcome, refusal, stage,
    submit, tasks,
};

fn join_all(coordinator: &mut Coordinator) -> [Member; 3] {
    ["a", "b", "c"].map(|agent| join(coordinator, agent, 1))
}

#[test]
fn a_step_is_played_when_every_agent_has_acted() {
    let stage = stage(3);
    let mut coordinator = hosting(config(), &stage);
    let members = join_all(&mut coordinator);
    submit(&mut coordinator, &members[0]);
    submit(&mut coordinator, &members[1]);
    assert_eq!(coordinator.outcome(&members[0], 0).unwrap(), None);
    submit(&mut coordinator, &members[2]);
    let outcomes = members.each_ref().map(|member| outcome(&mut coordinator, member));
    assert_eq!(outcomes.each_ref().map(|outcome| outcome.reward), [1.0, 2.0, 3.0]);
    assert!(outcomes.iter().all(|outcome| outcome.team_reward == 2.0 && outcome.members == 3));
    let done: Vec<usize> =
        stage.seen.lock().unwrap()[0].iter().map(|(_, action)| *action).collect();
    assert_eq!(done, [1, 1, 1]);
    let status = coordinator.status();
    assert_eq!((status.step, status.accepted, status.missed), (1, 3, 0));
}

#[test]
fn each_agent_sees_all_others_as_one_virtual_agent() {
    let mut coordinator = coordinator();
    let members = join_all(&mut coordinator);
    members.iter().for_each(|member| submit(&mut coordinator, member));
    let outcomes = members.each_ref().map(|member| outcome(&mut coordinator, member));
    let parts = outcomes.each_ref().map(|outcome| {
        let state: &[f32; 7] = outcome.state.as_slice().try_into().unwrap();
        Contribution::new(state, ScalingAction::CpuUp).unwrap()
    });
    let mut team = VirtualAgent::default();
    parts.iter().for_each(|part| team.add(part));
    for (outcome, part) in outcomes.iter().zip(&parts) {
        assert_eq!(outcome.others, team.of_others(part).features(2.0));
    }
}

#[test]
fn the_seat_of_a_stalled_agent_holds_and_the_others_go_on() {
    let stage = stage(3);
    let mut coordinator = hosting(config(), &stage);
    let members = join_all(&mut coordinator);
    for step in 0..4 {
        let now = 500 * step;
        coordinator.advance(ms(now));
        submit(&mut coordinator, &members[0]);
        submit(&mut coordinator, &members[2]);
        coordinator.advance(ms(now + 499));
        assert_eq!(coordinator.status().step, step, "the deadline has not passed");
        coordinator.advance(ms(now + 500));
        assert_eq!(coordinator.status().step, step + 1);
        assert_eq!(outcome(&mut coordinator, &members[0]).reward, 1.0);
    }
    let seen = stage.seen.lock().unwrap();
    assert!(seen.iter().all(|step| step.iter().map(|(_, action)| *action).eq([1, 0, 1])));
    let agents: Vec<_> = coordinator.agents().collect();
    let counts: Vec<_> = agents.iter().map(|agent| (agent.accepted, agent.missed)).collect();
    assert_eq!(counts, [(4, 0), (0, 4), (4, 0)]);
    // It comes late: the step it means is over, and it goes on from what it sees now.
    assert_eq!(refusal(coordinator.submit(&members[1], 1, &HOLD)), RefusalKind::Late);
    assert_eq!(coordinator.observe(&members[1]).unwrap().unwrap().step, 4);
}

#[test]
fn a_platform_on_which_no_agent_acts_stands_still() {
    let mut coordinator = coordinator();
    let members = join_all(&mut coordinator);
    for tick in 0..100 {
        coordinator.advance(ms(100 * tick));
        members.iter().for_each(|member| drop(coordinator.observe(member).unwrap()));
    }
    assert_eq!((coordinator.status().step, coordinator.status().missed), (0, 0));
}

#[test]
fn no_step_is_played_before_its_pace() {
    let mut coordinator = hosting(CoordinatorConfig { pace: ms(200), ..config() }, &stage(1));
    let member = join(&mut coordinator, "a", 1);
    coordinator.advance(ms(1000));
    coordinator.advance(ms(1300));
    submit(&mut coordinator, &member);
    assert_eq!(coordinator.status().step, 1);
    submit(&mut coordinator, &member);
    coordinator.advance(ms(1499));
    assert_eq!(coordinator.outcome(&member, 1).unwrap(), None);
    coordinator.advance(ms(1500));
    assert!(coordinator.outcome(&member, 1).unwrap().is_some());
}

#[test]
fn no_step_waits_for_a_silent_agent_and_it_has_its_seat_when_it_is_back() {
    let mut coordinator = coordinator();
    let [talks, silent, _] = join_all(&mut coordinator);
    for second in 0..=4 {
        coordinator.advance(ms(1000 * second));
        coordinator.observe(&talks).unwrap();
    }
    assert_eq!((coordinator.status().members, coordinator.status().silent), (1, 2));
    submit(&mut coordinator, &talks);
    assert_eq!(outcome(&mut coordinator, &talks).members, 1);
    coordinator.take_events();
    assert!(coordinator.observe(&silent).unwrap().is_some());
    let returned = CoordinatorEvent::Returned { name: name("b") };
    assert_eq!(coordinator.take_events(), [returned]);
    submit(&mut coordinator, &talks);
    assert_eq!(coordinator.status().step, 1, "the step waits for both");
    submit(&mut coordinator, &silent);
    assert_eq!(outcome(&mut coordinator, &silent).reward, 2.0);
}

#[test]
fn an_agent_that_waits_for_its_answer_is_not_silent() {
    let patient = CoordinatorConfig { step_deadline: ms(60_000), ..config() };
    let mut coordinator = hosting(patient, &stage(2));
    let [waits, slow] = ["a", "b"].map(|agent| join(&mut coordinator, agent, 1));
    submit(&mut coordinator, &waits);
    for second in 0..20 {
        coordinator.advance(ms(1000 * second));
        coordinator.observe(&slow).unwrap();
    }
    assert_eq!((coordinator.status().members, coordinator.status().step), (2, 0));
}

#[test]
fn a_restarted_agent_has_its_seat_and_its_earlier_session_is_over() {
    let mut coordinator = coordinator();
    let [_, earlier, _] = join_all(&mut coordinator);
    submit(&mut coordinator, &earlier);
    let again = coordinator.register(&name("b"), &life(2)).unwrap();
    assert_eq!(again.seat.map(|seat| seat.agent.number()), Some(1));
    let later = again.member;
    assert!(later.session > earlier.session);
    assert_eq!(refusal(coordinator.submit(&earlier, 0, &HOLD)), RefusalKind::EarlierSession);
    assert_eq!(refusal(coordinator.observe(&earlier)), RefusalKind::EarlierSession);
    assert_eq!(refusal(coordinator.deregister(&earlier)), RefusalKind::EarlierSession);
    // What the earlier session wanted is gone: the step waits for the later one.
    submit(&mut coordinator, &later);
}

#[test]
fn registering_twice_in_one_process_changes_nothing() {
    let mut coordinator = coordinator();
    let member = join(&mut coordinator, "a", 7);
    let again = coordinator.register(&name("a"), &life(7)).unwrap();
    assert_eq!((again.member, coordinator.status().members), (member, 1));
}

#[test]
fn more_agents_than_seats_wait_until_one_is_free() {
    let mut coordinator = coordinator();
    let [a, b, c] = join_all(&mut coordinator);
    let waits = coordinator.register(&name("d"), &life(1)).unwrap();
    assert_eq!(waits.seat, None);
    let waits = waits.member;
    assert_eq!(coordinator.observe(&waits).unwrap(), None);
    assert_eq!(refusal(coordinator.submit(&waits, 0, &HOLD)), RefusalKind::NoSeat);
    assert_eq!((coordinator.status().members, coordinator.status().waiting), (3, 1));
    coordinator.deregister(&b).unwrap();
    assert!(coordinator.observe(&waits).unwrap().is_some(), "b has left");
    // Of the silent, the one that was heard least lately loses its seat to a newcomer.
    for second in 0..=5 {
        coordinator.advance(ms(1000 * second));
        if second == 1 {
            coordinator.observe(&a).unwrap();
        }
        coordinator.observe(&waits).unwrap();
    }
    let newcomer = coordinator.register(&name("e"), &life(1)).unwrap();
    assert_eq!(newcomer.seat.map(|seat| seat.agent.number()), Some(2), "c was silent for longer");
    assert!(coordinator.observe(&a).unwrap().is_some());
    assert_eq!(coordinator.observe(&c).unwrap(), None, "its seat is taken: it waits");
}

#[test]
fn an_agent_gets_the_function_that_it_asks_for() {
    let mut coordinator = hosting(config(), &stage(4));
    let mut ask = |agent: &str, function: &str| {
        let registration = Registration { incarnation: 1, function: Some(function.to_owned()) };
        coordinator.register(&name(agent), &registration)
    };
    let seat = |membership: homeostat_simppo::Membership| {
        membership.seat.map(|seat| (seat.agent.number(), seat.function))
    };
    assert_eq!(seat(ask("a", "io").unwrap()), Some((2, "io".to_owned())));
    assert_eq!(seat(ask("b", "cpu").unwrap()), Some((0, "cpu".to_owned())));
    assert_eq!(seat(ask("c", "cpu").unwrap()), Some((3, "cpu".to_owned())));
    assert_eq!(seat(ask("d", "cpu").unwrap()), None, "both are taken");
    let unknown = ask("e", "gpu").unwrap_err().to_string();
    assert_eq!(unknown, "\"gpu\" is no function of this platform: cpu, io, memory");
}

#[test]
fn what_cannot_be_true_is_refused_by_kind_and_reaches_no_other_agent() {
    let play = |lies: bool| {
        let mut coordinator = coordinator();
        let [sound, other, liar] = join_all(&mut coordinator);
        let mut outcomes = Vec::new();
        let mut expected: BTreeMap<RefusalKind, u64> = BTreeMap::new();
        for step in 0..5 {
            submit(&mut coordinator, &sound);
            let mut check = |coordinator: &mut Coordinator, step, action: Action, kind| {
                if lies {
                    assert_eq!(refusal(coordinator.submit(&liar, step, &action)), kind);
                    *expected.entry(kind).or_default() += 1;
                }
            };
            check(&mut coordinator, step + 1, HOLD, RefusalKind::StepAhead);
            check(&mut coordinator, u64::MAX, HOLD, RefusalKind::StepAhead);
            check(&mut coordinator, step, Action::Discrete(7), RefusalKind::UnknownAction);
            let poison = Action::Continuous(vec![f32::NAN]);
            check(&mut coordinator, step, poison, RefusalKind::NotFinite);
            check(
                &mut coordinator,
                step,
                Action::Continuous(vec![0.5]),
                RefusalKind::UnknownAction,
            );
            coordinator.submit(&liar, step, &HOLD).unwrap();
            check(&mut coordinator, step, MORE_CPU, RefusalKind::Duplicate);
            submit(&mut coordinator, &other);
            check(&mut coordinator, step, HOLD, RefusalKind::Late);
            outcomes.push(outcome(&mut coordinator, &sound));
        }
        let agents: Vec<_> = coordinator.agents().collect();
        assert_eq!(agents[2].refusals.iter().collect::<BTreeMap<_, _>>(), expected);
        assert_eq!(agents[0].refusals.total() + agents[1].refusals.total(), 0);
        outcomes
    };
    assert_eq!(play(true), play(false));
}

/// A small serverless platform on which the first of two agents takes the given action in every
/// step; what the second gets back.
fn beside(action: &Action) -> Vec<StepOutcome> {
    let plan = FaasConfig { functions: 2, steps: 40, cores_per_node: 2.0, ..FaasConfig::default() };
    let env = make_multi_agent("faas/fleet-v3", &plan.build().unwrap()).unwrap();
    let task = |name: &str| Task { name: name.to_owned(), task_type: TaskType::Cpu };
    let tasks = [task("first"), task("second")];
    let mut coordinator = CoordinatorConfig { seed: 5, ..config() }.build(env, &tasks).unwrap();
    let [first, second] = ["a", "b"].map(|agent| join(&mut coordinator, agent, 1));
    let step = |step: u64| {
        coordinator.submit(&first, step, action).unwrap();
        coordinator.submit(&second, step, &HOLD).unwrap();
        coordinator.outcome(&second, step).unwrap().unwrap()
    };
    (0..30).map(step).collect()
}

#[test]
fn an_agent_that_takes_all_the_cpu_changes_what_the_others_see_and_earn() {
    let modest = beside(&HOLD);
    let greedy = beside(&Action::Discrete(ScalingAction::ReplicasUp as usize));
    assert_eq!(beside(&HOLD), modest, "the same actions lead to the same outcomes");
    let differs = |what: &dyn Fn(&StepOutcome) -> Vec<f64>| {
        modest.iter().zip(&greedy).any(|(a, b)| what(a) != what(b))
    };
    assert!(differs(&|outcome| vec![outcome.reward]), "its own reward");
    assert!(differs(&|outcome| vec![outcome.team_reward]), "the team's reward");
    assert!(differs(&|outcome| outcome.state.iter().map(|x| f64::from(*x)).collect()));
    assert!(differs(&|outcome| outcome.others.iter().map(|x| f64::from(*x)).collect()));
}

#[test]
fn strangers_are_refused_and_counted() {
    let mut coordinator = coordinator();
    let member = join(&mut coordinator, "a", 1);
    let stranger = Member { name: name("nobody"), ..member.clone() };
    assert_eq!(refusal(coordinator.observe(&stranger)), RefusalKind::UnknownAgent);
    let mut forged = member.clone();
    forged.session.number += 1;
    assert_eq!(refusal(coordinator.observe(&forged)), RefusalKind::UnknownSession);
    coordinator.deregister(&member).unwrap();
    assert_eq!(refusal(coordinator.observe(&member)), RefusalKind::UnknownAgent);
    assert_eq!(coordinator.status().refusals.of(RefusalKind::UnknownAgent), 2);
    for wrong in ["", "a b", "a/b", "ü", "a\n", &"x".repeat(65)] {
        assert_eq!(AgentName::new(wrong).unwrap_err().kind, RefusalKind::Name, "{wrong:?}");
    }
}

#[test]
fn a_full_coordinator_forgets_the_longest_silent_and_no_living_agent() {
    let mut coordinator = hosting(CoordinatorConfig { max_agents: 2, ..config() }, &stage(3));
    let [a, b] = ["a", "b"].map(|agent| join(&mut coordinator, agent, 1));
    assert_eq!(refusal(coordinator.register(&name("c"), &life(1))), RefusalKind::Full);
    for second in 0..5 {
        coordinator.advance(ms(1000 * second));
        coordinator.observe(&b).unwrap();
    }
    join(&mut coordinator, "c", 1);
    assert_eq!(refusal(coordinator.observe(&a)), RefusalKind::UnknownAgent);
    coordinator.observe(&b).unwrap();
}

#[test]
fn a_clock_that_jumps_forward_silences_no_agent_at_once() {
    let mut coordinator = hosting(config(), &stage(20));
    let members: Vec<Member> =
        (0..20).map(|agent| join(&mut coordinator, &format!("agent-{agent}"), 1)).collect();
    for reading in [1_000, 3_600_000, 3_600_500, 90_000_000, 90_000_900] {
        coordinator.advance(ms(reading));
        assert_eq!(coordinator.status().members, 20, "after {reading} ms");
        for member in &members {
            coordinator.observe(member).unwrap();
        }
    }
    assert_eq!(coordinator.status().clock_jumps, 2);
}

#[test]
fn a_clock_that_jumps_backward_does_not_keep_the_silent() {
    let mut coordinator = coordinator();
    join(&mut coordinator, "silent", 1);
    coordinator.advance(ms(1_000_000));
    for second in 0..=4 {
        coordinator.advance(ms(1000 * second));
    }
    assert_eq!(coordinator.status().silent, 1, "four seconds after the jump");
}

proptest! {
    #[test]
    fn whatever_the_clock_does_the_talking_stay_and_the_silent_go(
        jumps in prop::collection::vec((any::<u32>(), 1u64..8), 1..12),
    ) {
        let mut coordinator = coordinator();
        let [talks, _] = ["talks", "silent"].map(|agent| join(&mut coordinator, agent, 1));
        let mut steady = 0;
        for (start, ticks) in jumps {
            for tick in 0..ticks {
                coordinator.advance(ms(u64::from(start) + 500 * tick));
                coordinator.observe(&talks).unwrap();
                // The tick after a jump may count for nothing, the others are half a second.
                steady += u64::from(tick > 0);
                let status = coordinator.status();
                prop_assert!(status.heard >= 1);
                if steady > 6 {
                    prop_assert_eq!(status.silent, 1);
                }
            }
        }
        let agents: Vec<_> = coordinator.agents().collect();
        let talking = agents.iter().find(|agent| agent.name == name("talks")).unwrap();
        prop_assert_eq!(talking.timeouts, 0);
    }
}

/// What an agent may do.
#[derive(Debug, Clone)]
enum Deed {
    Act {
        action: usize,
    },
    /// An action for a step before or after the present one.
    Astray {
        by: u64,
        ahead: bool,
    },
    Poison,
    Observe,
    /// Another process of the same agent.
    Restart,
    /// Nothing, for so long.
    Wait {
        ms: u64,
    },
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (0usize..7).prop_map(|action| Deed::Act { action }),
        1 => (1u64..5, any::<bool>()).prop_map(|(by, ahead)| Deed::Astray { by, ahead }),
        1 => Just(Deed::Poison),
        1 => Just(Deed::Observe),
        1 => Just(Deed::Restart),
        2 => (0u64..900).prop_map(|ms| Deed::Wait { ms }),
    ]
}

proptest! {
    #[test]
    fn every_step_of_every_seat_is_an_action_or_a_hold_and_counted_once(
        deeds in prop::collection::vec((0usize..4, deed()), 1..200),
    ) {
        let stage = stage(4);
        let mut coordinator = hosting(config(), &stage);
        let names: Vec<AgentName> = (0..4).map(|who| name(&format!("agent-{who}"))).collect();
        let mut members: Vec<Member> =
            (0..4).map(|who| join(&mut coordinator, &format!("agent-{who}"), 0)).collect();
        let mut now = 0;
        for (number, (who, deed)) in deeds.into_iter().enumerate() {
            let step = coordinator.status().step;
            match deed {
                Deed::Act { action } => {
                    // A second action of one step is refused.
                    let _ = coordinator.submit(&members[who], step, &Action::Discrete(action));
                }
                Deed::Astray { by, ahead } => {
                    let (wrong, kind) = if ahead || step < by {
                        (step + by, RefusalKind::StepAhead)
                    } else {
                        (step - by, RefusalKind::Late)
                    };
                    let refused = refusal(coordinator.submit(&members[who], wrong, &HOLD));
                    prop_assert_eq!(refused, kind);
                }
                Deed::Poison => {
                    let poison = Action::Continuous(vec![f32::NAN]);
                    let refused = refusal(coordinator.submit(&members[who], step, &poison));
                    prop_assert!(matches!(refused, RefusalKind::NotFinite | RefusalKind::Duplicate));
                }
                Deed::Observe => {
                    let seen = coordinator.observe(&members[who]).unwrap();
                    prop_assert_eq!(seen.map(|seen| seen.step), Some(step));
                }
                Deed::Restart => {
                    let registration = life(number as u64 + 1);
                    members[who] =
                        coordinator.register(&names[who], &registration).unwrap().member;
                }
                Deed::Wait { ms: time } => {
                    now += time;
                    coordinator.advance(ms(now));
                }
            }
        }
        let steps = coordinator.status().step;
        prop_assert_eq!(stage.seen.lock().unwrap().len() as u64, steps);
        for agent in coordinator.agents() {
            prop_assert_eq!(agent.accepted + agent.missed, steps, "{}", agent.name);
        }
        let status = coordinator.status();
        prop_assert_eq!(status.accepted + status.missed, 4 * steps);
    }
}

fn state_of(coordinator: &Coordinator) -> Snapshot {
    let mut snapshot = Snapshot::default();
    coordinator.save("coordinator", &mut snapshot);
    snapshot
}

fn restored(from: &Coordinator) -> Coordinator {
    let mut fresh = coordinator();
    // Its clock has run for longer than a timeout before.
    for second in 0..=5 {
        fresh.advance(ms(1000 * second));
    }
    fresh.load("coordinator", &state_of(from)).unwrap();
    fresh
}

#[test]
fn a_killed_coordinator_comes_back_with_its_platform_and_its_team() {
    let mut first = coordinator();
    let members = join_all(&mut first);
    for _ in 0..4 {
        members.iter().for_each(|member| submit(&mut first, member));
    }
    refusal(first.submit(&members[1], 0, &HOLD));
    let mut second = restored(&first);
    let (then, now) = (first.status(), second.status());
    assert_eq!((now.step, now.members, now.heard), (4, 3, 0));
    assert_eq!(
        (now.refusals, now.accepted, now.missed),
        (then.refusals, then.accepted, then.missed)
    );
    assert_eq!(refusal(second.outcome(&members[0], 3)), RefusalKind::Late, "it was not saved");
    // The platform goes on as if nothing had happened.
    let play = |coordinator: &mut Coordinator| {
        let seen = coordinator.observe(&members[0]).unwrap();
        members.iter().for_each(|member| submit(coordinator, member));
        (seen, members.each_ref().map(|member| outcome(coordinator, member)))
    };
    assert_eq!(play(&mut second), play(&mut first));
    let events = second.take_events();
    let heard = events.iter().filter(|event| matches!(event, CoordinatorEvent::HeardAgain { .. }));
    assert_eq!(heard.count(), 3);
    // An agent that does not come back falls silent after the timeout, as always.
    for second_of_time in 0..5 {
        second.advance(ms(5500 + 1000 * second_of_time));
        second.observe(&members[0]).unwrap();
    }
    assert_eq!((second.status().members, second.status().silent), (1, 2));
}

#[test]
fn agents_that_are_ahead_of_a_restored_platform_go_on_from_what_it_shows() {
    let mut first = coordinator();
    let members = join_all(&mut first);
    let checkpoint = state_of(&first);
    members.iter().for_each(|member| submit(&mut first, member));
    let ahead = first.observe(&members[0]).unwrap().unwrap();
    let mut second = coordinator();
    second.load("coordinator", &checkpoint).unwrap();
    let kind = refusal(second.submit(&members[0], ahead.step, &HOLD));
    assert_eq!(kind, RefusalKind::StepAhead);
    assert_eq!(second.observe(&members[0]).unwrap().unwrap().step, 0);
}

#[test]
fn sessions_of_a_later_coordinator_are_larger_even_than_those_its_checkpoint_missed() {
    let mut first = coordinator();
    let checkpoint = state_of(&first);
    // Registered after the last checkpoint: the second coordinator does not know of it.
    let lost = join(&mut first, "a", 1);
    let mut second = coordinator();
    second.load("coordinator", &checkpoint).unwrap();
    assert_eq!(refusal(second.observe(&lost)), RefusalKind::UnknownAgent);
    let again = join(&mut second, "a", 1);
    assert!(again.session > lost.session);
    assert_eq!(refusal(second.observe(&lost)), RefusalKind::EarlierSession);
}

#[test]
fn a_checkpoint_of_another_shape_is_refused() {
    let mut snapshot = state_of(&coordinator());
    snapshot.put_u8("coordinator/names", b"a\nb".to_vec());
    assert!(coordinator().load("coordinator", &snapshot).is_err());
    let mut elsewhere = state_of(&coordinator());
    elsewhere.put_u8("coordinator/platform/id", b"faas/fleet-v3".to_vec());
    let error = coordinator().load("coordinator", &elsewhere).unwrap_err().to_string();
    assert!(error.contains("faas/fleet-v3") && error.contains("test/stage-v1"), "{error}");
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let check = |config: CoordinatorConfig, expect: &str| {
        let error = config.build(Box::new(stage(3)), &tasks()).map(drop).unwrap_err().to_string();
        assert!(error.starts_with(expect), "{error}");
    };
    check(CoordinatorConfig { heartbeat: ms(0), ..config() }, "heartbeat must be from 1ms to 1h");
    check(
        CoordinatorConfig { timeout: ms(1999), ..config() },
        "timeout must be from two heartbeats (2s) to a day, got 1.999s",
    );
    check(CoordinatorConfig { step_deadline: ms(0), ..config() }, "step_deadline must be");
    check(CoordinatorConfig { pace: ms(601_000), ..config() }, "pace must be at most");
    check(CoordinatorConfig { max_agents: 0, ..config() }, "max_agents must be");
    let come_and_go = homeostat_env::make_multi_agent("toy/roll-call-v1").unwrap();
    let error = config().build(come_and_go, &[]).map(drop).unwrap_err().to_string();
    assert!(error.contains("a fixed set of agents"), "{error}");
}

#[test]
fn events_that_are_not_taken_do_not_pile_up() {
    let mut coordinator = coordinator();
    for incarnation in 0..5000 {
        join(&mut coordinator, "a", incarnation);
    }
    assert_eq!(coordinator.take_events().len(), 4096);
    assert_eq!(coordinator.status().events_dropped, 904);
}
