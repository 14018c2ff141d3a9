//! Who plays for whom: turns, base models, shared networks, and agents that fail or leave.

use homeostat_core::{AgentId, Snapshot};
use homeostat_env::MultiAgentEnv;
use homeostat_nn::Kernel;
use homeostat_rl::PpoConfig;
use homeostat_simppo::{
    CriticInput, Learners, Method, Order, ParameterSharing, Result, RewardSharing, TaskType,
    TeamConfig, Training, TurnQueue,
};

use crate::stage::{Actor, Stage, TIME_LIMIT};

/// Agents with these wages, all of one kind, numbered from 0.
fn wages(wages: &[f64]) -> Vec<Actor> {
    let actor = |(number, reward): (usize, &f64)| Actor {
        number: number as u32,
        kind: TaskType::Cpu,
        reward: *reward,
    };
    wages.iter().enumerate().map(actor).collect()
}

fn maker(stage: &Stage) -> impl Fn() -> Result<Box<dyn MultiAgentEnv>> {
    let stage = stage.clone();
    move || Ok(Box::new(stage.clone()))
}

fn team(method: Method, stage: &Stage) -> Training {
    team_with_updates(method, stage, 4)
}

fn team_with_updates(method: Method, stage: &Stage, steps_per_update: usize) -> Training {
    let config = TeamConfig {
        learners: Learners::Coordinated {
            method,
            ppo: PpoConfig {
                steps_per_update,
                minibatch: 4,
                hidden: vec![8],
                ..PpoConfig::default()
            },
        },
        task_types: TaskType::ALL.to_vec(),
        kernel: Kernel::best(),
        seed: 3,
        total_steps: 1000,
    };
    Training::new(&config, &maker(stage)).unwrap()
}

fn policy_of(training: &Training, number: u32) -> Vec<u8> {
    let policies = training.policies();
    let (_, policy) = policies.iter().find(|(agent, _)| agent.number() == number).unwrap();
    policy.to_bytes()
}

/// Whose turn each step was, by number: of `agents`, the last so many are there.
fn turns(seen: &[Vec<(f32, usize)>], agents: usize) -> Vec<usize> {
    let mut queue = TurnQueue::default();
    let turn = |step: &Vec<(f32, usize)>| {
        let numbers: Vec<usize> = (agents - step.len()..agents).collect();
        let kept: Vec<f32> = step.iter().map(|(kept, _)| *kept).collect();
        numbers[queue.next(&numbers, &kept).expect("somebody is there")]
    };
    seen.iter().map(turn).collect()
}

#[test]
fn one_agent_acts_at_a_time_and_the_worst_off_first() {
    let stage = Stage::of(&wages(&[1.0; 5]));
    let mut training = team(
        Method {
            order: Order::Queue,
            parameter_sharing: ParameterSharing::None,
            ..Method::default()
        },
        &stage,
    );
    for _ in 0..60 {
        training.step().unwrap();
    }
    let seen = stage.seen.lock().unwrap();
    let mut acted = [false; 5];
    for (step, turn) in seen.iter().zip(turns(&seen, 5)) {
        for (place, (_, action)) in step.iter().enumerate() {
            assert!(place == turn || *action == 0, "{place} acted in the turn of {turn}");
        }
        acted[turn] |= step[turn].1 != 0;
    }
    assert_eq!((seen.len(), acted), (60, [true; 5]));
}

#[test]
fn a_turn_ends_with_a_promise_also_where_somebody_leaves() {
    const STEPS: usize = 120;
    const AGENTS: u32 = 4;
    let mut stage = Stage::of(&wages(&[1.0; AGENTS as usize]));
    stage.deserter = Some(0);
    let method = Method {
        order: Order::Queue,
        parameter_sharing: ParameterSharing::None,
        ..Method::default()
    };
    let mut training = team_with_updates(method, &stage, STEPS + 1);
    for _ in 0..=STEPS {
        training.step().unwrap();
    }
    // Whose turn it was, and what each has to show for its own turns.
    let seen = stage.seen.lock().unwrap();
    let turns = turns(&seen, AGENTS as usize);
    let mut snapshot = Snapshot::default();
    training.save(&mut snapshot);
    for agent in 0..AGENTS {
        let beyond = snapshot.any_f32s(&format!("team/net/{agent}/rollout/value_beyond")).unwrap();
        let own = (0..STEPS).filter(|step| turns[*step] == agent as usize);
        for (row, step) in own.enumerate() {
            let ends =
                turns[step + 1] != agent as usize || (step + 1).is_multiple_of(TIME_LIMIT as usize);
            let leaves = agent == 0 && step as u64 % TIME_LIMIT == TIME_LIMIT / 2 - 1;
            assert_eq!(!beyond[row].is_nan(), ends || leaves, "agent {agent}, step {step}");
        }
    }
}

#[test]
fn a_newcomer_starts_as_the_best_of_its_kind() {
    // Wages below nothing too: an agent that has finished no episode yet is not the best.
    for best in [2.0, -1.0] {
        let mut actors = wages(&[best - 1.0, best, best - 3.0]);
        actors.push(Actor { number: 3, kind: TaskType::Io, reward: best + 5.0 });
        let method = Method { parameter_sharing: ParameterSharing::Base, ..Method::default() };
        let mut training = team(method, &Stage::of(&actors));
        training.episode().unwrap();
        let base = policy_of(&training, 1);
        for number in [4, 5] {
            actors.push(Actor { number, kind: TaskType::Cpu, reward: best - 2.0 });
            training.replace_envs(&maker(&Stage::of(&actors))).unwrap();
            assert!(policy_of(&training, number) == base, "agent {number}, best {best}");
        }
        assert_ne!(policy_of(&training, 0), base);
        // There was no agent of this kind.
        actors.push(Actor { number: 6, kind: TaskType::Memory, reward: 0.0 });
        training.replace_envs(&maker(&Stage::of(&actors))).unwrap();
        assert_ne!(policy_of(&training, 6), base);
        training.episode().unwrap();
        assert_ne!(policy_of(&training, 4), policy_of(&training, 1), "each learns for itself");
    }
}

#[test]
fn networks_are_shared_as_asked() {
    let mut actors = wages(&[1.0; 3]);
    actors[2].kind = TaskType::Io;
    let check = |sharing: ParameterSharing, expect: [bool; 2]| {
        let mut training =
            team(Method { parameter_sharing: sharing, ..Method::default() }, &Stage::of(&actors));
        training.episode().unwrap();
        let [first, second, third] = [0, 1, 2].map(|number| policy_of(&training, number));
        assert_eq!([first == second, first == third], expect, "{sharing:?}");
    };
    check(ParameterSharing::None, [false, false]);
    check(ParameterSharing::Base, [false, false]);
    check(ParameterSharing::Kind, [true, false]);
    check(ParameterSharing::All, [true, true]);
}

#[test]
fn the_network_of_a_kind_waits_for_the_next_of_the_kind() {
    let all_agents = |last: u32| {
        let mut actors = wages(&[1.0; 2]);
        actors.push(Actor { number: last, kind: TaskType::Io, reward: 1.0 });
        Stage::of(&actors)
    };
    let method = Method { parameter_sharing: ParameterSharing::Kind, ..Method::default() };
    let mut training = team(method, &all_agents(2));
    training.episode().unwrap();
    let learnt = policy_of(&training, 2);
    training.replace_envs(&maker(&Stage::of(&wages(&[1.0; 2])))).unwrap();
    assert_eq!(training.policies().len(), 2);
    training.replace_envs(&maker(&all_agents(3))).unwrap();
    assert!(policy_of(&training, 3) == learnt);
}

#[test]
fn a_founder_that_leaves_comes_back_with_what_it_learnt() {
    for sharing in [
        ParameterSharing::None,
        ParameterSharing::Base,
        ParameterSharing::Kind,
        ParameterSharing::All,
    ] {
        let mut stage = Stage::of(&wages(&[1.0, 2.0, 3.0]));
        stage.deserter = Some(1);
        let mut training = team(Method { parameter_sharing: sharing, ..Method::default() }, &stage);
        let fresh = policy_of(&training, 1);
        let mut departed = 0;
        for step in 1..=3 * TIME_LIMIT {
            departed += training.step().unwrap().len();
            let is_away = step % TIME_LIMIT >= TIME_LIMIT / 2;
            let expect: &[u32] = if is_away { &[0, 2] } else { &[0, 1, 2] };
            let present: Vec<u32> = training.agents().map(|agent| agent.number()).collect();
            assert_eq!(present, expect, "{sharing:?}, step {step}");
            assert_eq!(training.policies().len(), 3);
        }
        assert_eq!(departed, 0, "no agent left for good");
        assert_ne!(policy_of(&training, 1), fresh, "{sharing:?}");
        let finished = training.take_finished();
        let of_deserter = finished.iter().filter(|episode| episode.agent.number() == 1);
        assert!(of_deserter.map(|episode| episode.length).eq([3, 3, 3]));
    }
}

#[test]
fn a_network_that_is_no_longer_finite_stops_and_the_others_go_on() {
    let method = Method { parameter_sharing: ParameterSharing::Base, ..Method::default() };
    let stage = Stage::of(&wages(&[1.0, 9.0, 2.0]));
    let mut training = team(method, &stage);
    training.episode().unwrap();
    let mut snapshot = Snapshot::default();
    training.save(&mut snapshot);
    let weights = ["team/net/1/actor/0/weight", "team/net/1/actor/1/weight"];
    for name in weights {
        let count = snapshot.any_f32s(name).unwrap().len();
        snapshot.put_f32(name, vec![f32::NAN; count]);
    }
    training.load(&snapshot).unwrap();
    training.episode().unwrap();
    let broken = AgentId::new(1);
    let reason = training.stopped(broken).unwrap().to_owned();
    assert!(reason.starts_with("agent-1 stopped at step"), "{reason}");
    let sound: Vec<u32> = training.policies().iter().map(|(agent, _)| agent.number()).collect();
    assert_eq!(sound, [0, 2]);
    assert!([0, 2].into_iter().all(|number| training.stopped(AgentId::new(number)).is_none()));
    // It holds still, does not become the base of others, and stays stopped when saved.
    stage.seen.lock().unwrap().clear();
    let before = policy_of(&training, 0);
    training.episode().unwrap();
    assert!(stage.seen.lock().unwrap().iter().all(|step| step[1].1 == 0));
    assert_ne!(policy_of(&training, 0), before, "the others learn on");
    let mut again = Snapshot::default();
    training.save(&mut again);
    let mut restored =
        team(Method { parameter_sharing: ParameterSharing::Base, ..Method::default() }, &stage);
    restored.load(&again).unwrap();
    assert_eq!(restored.stopped(broken), Some(reason.as_str()));
    let mut actors = wages(&[1.0, 9.0, 2.0, 0.0]);
    actors[3].number = 7;
    training.replace_envs(&maker(&Stage::of(&actors))).unwrap();
    training.episode().unwrap();
    assert!(training.stopped(AgentId::new(7)).is_none());
}

#[test]
fn a_reward_that_is_no_number_stops_its_agent_alone() {
    for pay in [RewardSharing::Own, RewardSharing::Team, RewardSharing::Total] {
        let method = Method {
            reward_sharing: pay,
            critic_input: CriticInput::AllStates,
            ..Method::default()
        };
        let mut training = team(method, &Stage::of(&wages(&[1.0, f64::NAN, 2.0])));
        training.episode().unwrap();
        let stopped = [0, 1, 2].map(|number| training.stopped(AgentId::new(number)).is_some());
        assert_eq!(stopped, [false, true, false], "{pay:?}");
    }
}

#[test]
fn figures_come_with_the_step_of_their_update() {
    let mut training = team(Method::default(), &Stage::of(&wages(&[1.0, 2.0])));
    for step in 1..=8 {
        training.step().unwrap();
        let learned = training.learned(AgentId::new(1));
        assert_eq!(learned.is_some(), step % 4 == 0, "step {step}");
    }
}
