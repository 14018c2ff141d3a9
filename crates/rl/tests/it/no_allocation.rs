//! After a warm-up, neither playing nor learning allocates: thousands of agents share
//! one allocator, and would wait for it.
#![expect(
    unsafe_code,
    reason = "a global allocator is unsafe by its signature; this one only counts"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use homeostat_core::Stream;
use homeostat_env::{Action, EnvSpec, Space, make};
use homeostat_rl::{AlgorithmConfig, Learner, Outcome, Sampling, Workspace};

use crate::agents;
use crate::play::{context, workspace};

struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

thread_local! {
    // Per thread, because the other tests of this binary allocate at the same time.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count_one() {
    ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call is handed on to the system's allocator unchanged, and counting
// touches a constant-initialised cell, which itself never allocates.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count_one();
        // SAFETY: the caller keeps the contract, and `pointer` came from the system.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn allocations_during<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATIONS.get();
    let result = work();
    (result, ALLOCATIONS.get() - before)
}

/// An agent whose environment always looks the same: environments may allocate, agents not.
struct Driven {
    learner: Box<dyn Learner>,
    obs: Vec<f32>,
    actions: Vec<Action>,
    rounds: u32,
    workspace: Workspace,
}

impl Driven {
    fn new(config: &AlgorithmConfig, spec: &EnvSpec) -> Self {
        let learner = config.build(&context(spec, 0, 1)).expect("the environment suits it");
        let envs = learner.num_envs();
        let number = if matches!(spec.observation, Space::Box { .. }) { 0.5 } else { 1.0 };
        let obs = vec![number; envs * spec.observation.len()];
        let actions = vec![Action::Discrete(0); envs];
        Self { learner, obs, actions, rounds: 0, workspace: workspace() }
    }

    /// Whether this round ended with an update, and what was allocated besides the
    /// update's report.
    fn round(&mut self) -> (bool, usize) {
        let Self { learner, obs, actions, rounds, workspace } = self;
        *rounds += 1;
        let truncated = rounds.is_multiple_of(20);
        let width = obs.len() / actions.len();
        let ((), played) = allocations_during(|| {
            learner.act(obs, actions, workspace).expect("finite numbers stay finite");
            for env in 0..learner.num_envs() {
                let next_obs = &obs[..width];
                let outcome = Outcome { reward: 1.0, terminated: false, truncated, next_obs };
                learner.record(env, outcome, workspace).expect("finite numbers stay finite");
            }
        });
        let (learned, learning) = allocations_during(|| {
            learner.learn(0.0, workspace).expect("finite numbers stay finite")
        });
        (learned.is_some(), played + learning - usize::from(learned.is_some()))
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations_during(|| drop(black_box(vec![1u8]))).1, 1);
    assert_eq!(allocations_during(|| drop(black_box(vec![0u8; 100]))).1, 1);
    assert_eq!(allocations_during(|| ()).1, 0);
}

#[test]
fn agents_allocate_nothing_but_the_report_of_an_update() {
    for (env_id, config) in agents::of_every_kind() {
        let what = format!("{:?} on {env_id}", config.algorithm());
        let mut driven = Driven::new(&config, make(env_id).unwrap().spec());
        for _ in 0..600 {
            driven.round();
        }
        let mut updates = 0;
        for _ in 0..600 {
            let (has_learnt, allocations) = driven.round();
            updates += u32::from(has_learnt);
            assert_eq!(allocations, 0, "{what} in round {}", driven.rounds);
        }
        assert!(updates > 0, "{what} made no update");
    }
}

#[test]
fn policies_allocate_nothing() {
    for (env_id, config) in agents::of_every_kind() {
        let what = format!("{:?} on {env_id}", config.algorithm());
        let Driven { learner, obs, actions, mut workspace, .. } =
            Driven::new(&config, make(env_id).unwrap().spec());
        let (policy, mut rng) = (learner.policy(), Stream::from_seed(1));
        let obs = &obs[..obs.len() / actions.len()];
        let mut action = Action::Discrete(0);
        for sampling in [Sampling::Greedy, Sampling::Stochastic] {
            let mut act = || policy.act(obs, sampling, &mut rng, &mut action, &mut workspace);
            act();
            assert_eq!(allocations_during(act).1, 0, "{what} {sampling:?}");
        }
    }
}
