//! The spec of each environment: spaces, schemas and card.

use homeostat_core::{ActionSchema, ControlSchema, FeatureField, FeatureSchema};
use homeostat_decide::{Features, ScalingAction, SetPoint, SetPoints, StageFeatures};
use homeostat_env::{Card, EnvSpec, Field, Space};

use super::config::FaasConfig;
use super::single::observation_space;

const SOURCE: &str = "SIMPPO (SoCC 2022) and chapter 4 of the dissertation, sections 4.3 and 4.4; \
                      the platform model is this project's";

const CHAIN_SOURCE: &str = "this project's: the state of SIMPPO (SoCC 2022) with the SLO of a \
                            whole chain in place of the function's";

const REWARD: &str = "alpha * SP + (1 - alpha)/2 * (RU_cpu + RU_mem), alpha 0.7 (reward `slo`) or \
                      0.3 (`paper`); `cost`: SP - 1 while the SLO is violated, else 1 minus half \
                      the fractions of containers and of memory in use; -1 for an illegal action \
                      and for one that reverses the action before";

fn fields(schema: &FeatureSchema) -> Vec<Field> {
    schema.features.iter().map(Field::from).collect()
}

fn control(config: &FaasConfig, features: FeatureSchema, action: ActionSchema) -> ControlSchema {
    let bounds = config.allocation_bounds().map_or(Vec::new(), |bounds| bounds.fields());
    ControlSchema { features, action, bounds }
}

fn actions() -> Vec<Field> {
    vec![
        Field::new("0 hold", "change nothing"),
        Field::new("1, 2 CPU", "128 cpu.shares more, fewer, for each container"),
        Field::new("3, 4 memory", "64 MiB more, less, for each container"),
        Field::new("5, 6 containers", "one more, one fewer"),
    ]
}

fn spec(
    config: &FaasConfig,
    id: &str,
    summary: &'static str,
    termination: &'static str,
) -> EnvSpec {
    EnvSpec {
        id: id.parse().expect("the id is well-formed"),
        observation: observation_space(),
        action: Space::Discrete(7),
        time_limit: Some(config.steps),
        control: Some(control(config, Features::schema(), ScalingAction::schema()).into()),
        card: Card {
            summary,
            observation: fields(&Features::schema()),
            action: actions(),
            reward: REWARD,
            termination,
            source: SOURCE,
        },
    }
}

pub(crate) fn function(config: &FaasConfig) -> EnvSpec {
    let summary = "One serverless function, alone on its platform, scaled in three dimensions.";
    spec(config, "faas/function-v2", summary, "never")
}

pub(crate) fn shared(config: &FaasConfig) -> EnvSpec {
    let summary = "One serverless function beside others that heuristics control.";
    spec(config, "faas/shared-v2", summary, "never")
}

pub(crate) fn fleet(config: &FaasConfig) -> EnvSpec {
    let summary =
        "One agent per function on a shared platform; functions may be added and removed.";
    spec(config, "faas/fleet-v3", summary, "of an agent, when its function is removed")
}

pub(crate) fn set_point_fleet(config: &FaasConfig) -> EnvSpec {
    let (low, high) = SetPoints::RANGES.into_iter().unzip();
    let (features, action) = (SetPoints::feature_schema(), SetPoints::action_schema());
    EnvSpec {
        control: Some(control(config, features, action).into()),
        observation: Space::Box { low, high },
        action: Space::MultiDiscrete(vec![SetPoint::WEIGHTS.len(), SetPoint::SPARES.len()]),
        card: Card {
            summary: "One agent per function on a shared platform, with set-points as actions; \
                      functions may be added and removed.",
            observation: fields(&SetPoints::feature_schema()),
            action: vec![
                Field::new("weight", "0 to 4: 125, 250, 500, 1000, 2000 millicores"),
                Field::new(
                    "spare",
                    "0 to 4: containers beyond the load, 0.5, 1, 1.5, 2 or 3 times its \
                                     square root; fewer only if the last three steps agree",
                ),
            ],
            reward: "minus its SLO violations over the mean number of requests of a function, minus \
                     faas.container_price per container; its mean over all agents is the negative \
                     ratio of SLO violations of all requests, minus the price of the mean containers",
            termination: "of an agent, when its function is removed",
            source: "this project",
        },
        ..spec(config, "faas/fleet-set-points-v1", "", "")
    }
}

pub(crate) fn set_point_team_fleet(config: &FaasConfig) -> EnvSpec {
    let features = SetPoints::team_feature_schema();
    let range =
        |field: &FeatureField| (field.low.unwrap_or(f32::MIN), field.high.unwrap_or(f32::MAX));
    let (low, high) = features.features.iter().map(range).unzip();
    let alone = set_point_fleet(config);
    EnvSpec {
        id: "faas/fleet-set-points-team-v1".parse().expect("the id is well-formed"),
        observation: Space::Box { low, high },
        card: Card {
            summary: "The same as faas/fleet-set-points-v1, but agents also observe the others of \
                      their team; functions may be added and removed.",
            observation: fields(&features),
            ..alone.card
        },
        control: Some(control(config, features, SetPoints::action_schema()).into()),
        ..alone
    }
}

pub(crate) fn chain(config: &FaasConfig) -> EnvSpec {
    let summary = "One agent per function of chains with end-to-end SLOs.";
    let spec = spec(config, "faas/chain-v2", summary, "never");
    let (low, high) = StageFeatures::ranges().unzip();
    let features = StageFeatures::schema();
    EnvSpec {
        observation: Space::Box { low, high },
        card: Card { observation: fields(&features), source: CHAIN_SOURCE, ..spec.card },
        control: Some(control(config, features, ScalingAction::schema()).into()),
        ..spec
    }
}

pub(crate) fn course(config: &FaasConfig) -> EnvSpec {
    EnvSpec {
        control: None,
        id: "faas/course-v2".parse().expect("the id is well-formed"),
        observation: Space::uniform_box(6, 0.0, 1.0),
        action: Space::MultiDiscrete(vec![3, 3]),
        time_limit: Some(config.steps),
        card: Card {
            summary: "The course's serverless function on one node of eight cores.",
            observation: vec![
                Field::new("cpu_util", "0 to 1: CPU utilisation"),
                Field::new("slo_preservation", "0 to 1: SLO threshold over measured p99"),
                Field::new("cpu_shares", "0 to 1: shares of all containers, over 20480"),
                Field::new("cpu_shares_others", "0 to 1: shares of other functions, over 92160"),
                Field::new("num_containers", "0 to 1: containers, over 20"),
                Field::new("arrival_rate", "0 to 1: requests per second, over 10"),
            ],
            action: vec![
                Field::new("vertical", "0, 1, 2: 128 cpu.shares fewer, none, 128 more"),
                Field::new("horizontal", "0, 1, 2: one container fewer, none, one more"),
            ],
            reward: "0.3 * cpu_util + 0.7 * slo_preservation; -1 for an illegal action, for no \
                     container under load, and for reversing the horizontal direction",
            termination: "never",
            source: "a course project on RL for serverless resource management; the function is \
                     this project's: 2/3 s of CPU, about 4 requests per second",
        },
    }
}
