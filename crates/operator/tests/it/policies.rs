//! Policy files for tests.

use std::sync::Arc;

use homeostat_core::{AgentId, SeedTree};
use homeostat_decide::Features;
use homeostat_env::{EnvSpec, Space};
use homeostat_nn::Kernel;
use homeostat_rl::{AgentContext, AlgorithmConfig, PpoConfig};
use homeostat_sim_faas::{FaasConfig, make_multi_agent};
use homeostat_simppo::{Learners, Preset, TaskType, TeamConfig, Training};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;

/// Key of a policy file in its ConfigMap.
pub(crate) const KEY: &str = "policy";

/// A ConfigMap with a policy file.
pub(crate) fn config_map(name: &str, file: Vec<u8>) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        binary_data: Some([(KEY.to_owned(), ByteString(file))].into()),
        ..ConfigMap::default()
    }
}

/// An untrained policy of `faas/function-v2`.
pub(crate) fn of_steps() -> Vec<u8> {
    untrained(spec_of("function"))
}

/// An untrained policy of `faas/function-v2` that reads its team as well.
pub(crate) fn of_steps_in_a_team() -> Vec<u8> {
    let mut spec = spec_of("function");
    let features = Features::team_schema();
    let range = |field: &homeostat_core::FeatureField| field.low.zip(field.high).expect("a range");
    let (low, high) = features.features.iter().map(range).unzip();
    spec.observation = Space::Box { low, high };
    Arc::make_mut(spec.control.as_mut().expect("it has schemas")).features = features;
    untrained(spec)
}

/// `simppo+`, trained for a few episodes on a simulated platform with three functions.
pub(crate) fn of_simppo_plus() -> Vec<u8> {
    let config = FaasConfig { functions: 3, ..FaasConfig::default() };
    let platform = config.build().expect("valid");
    let Preset { method, ppo, env, .. } = Preset::by_name("simppo+").expect("it is there");
    let config = TeamConfig {
        learners: Learners::Coordinated { method, ppo },
        task_types: vec![TaskType::Cpu; platform.functions().count()],
        kernel: Kernel::best(),
        seed: 1,
        total_steps: 400,
    };
    let make = || Ok(make_multi_agent(env, &platform).expect("it is there"));
    let mut training = Training::new(&config, &make).expect("valid");
    while training.steps() < config.total_steps {
        training.step().expect("it goes on");
    }
    let policies = training.policies();
    let (_, policy) = policies.first().expect("an agent");
    policy.to_bytes()
}

fn spec_of(name: &str) -> EnvSpec {
    let specs = homeostat_sim_faas::specs(&FaasConfig::default());
    specs.into_iter().find(|spec| spec.id.name() == name).expect("it is there")
}

fn untrained(spec: EnvSpec) -> Vec<u8> {
    let context = AgentContext { agent: AgentId::new(0), spec, seeds: SeedTree::new(1) };
    let learner = AlgorithmConfig::Ppo(PpoConfig::default()).build(&context).expect("valid");
    learner.policy().to_bytes()
}
