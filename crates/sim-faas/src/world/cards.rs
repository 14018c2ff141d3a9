//! What each world is, in words and spaces.

use homeostat_decide::{SetPoint, SetPoints, StageFeatures};
use homeostat_env::{Card, EnvSpec, Field, Space};

use super::config::FaasConfig;
use super::single::observation_space;

const SOURCE: &str = "SIMPPO (SoCC 2022) and chapter 4 of the dissertation, sections 4.3 and 4.4; \
                      the platform is a model of this project";

const CHAIN_SOURCE: &str = "this project's: the state of SIMPPO (SoCC 2022) with the objective of \
                            a whole chain in place of the function's";

const REWARD: &str = "alpha * SP + (1 - alpha)/2 * (RU_cpu + RU_mem), alpha 0.7 (reward `slo`) or \
                      0.3 (`paper`); `cost`: SP - 1 while the objective is missed, else 1 less half \
                      the parts of containers and of memory in use; -1 for an illegal action and \
                      for one that undoes the one before";

fn observation() -> Vec<Field> {
    vec![
        Field::new("SP", "0 to 1: objective over measured p99, 1 while it is kept"),
        Field::new("RU_cpu", "0 to 1: CPU used over CPU given, mean of the containers"),
        Field::new("RU_mem", "0 to 1: memory used over the limit, mean of the containers"),
        Field::new("AC", "-1 to 1: change of the arrival rate over the larger of both"),
        Field::new("RLT_cpu", "0 to 1: cpu.shares between 128 and 2048"),
        Field::new("RLT_mem", "0 to 1: memory limit between 128 MiB and the most"),
        Field::new("NC", "0 to 1: containers between 1 and the most"),
    ]
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
        card: Card {
            summary,
            observation: observation(),
            action: actions(),
            reward: REWARD,
            termination,
            source: SOURCE,
        },
    }
}

pub(crate) fn function(config: &FaasConfig) -> EnvSpec {
    let summary = "One serverless function, alone on its platform, scaled in three dimensions.";
    spec(config, "faas/function-v1", summary, "never")
}

pub(crate) fn shared(config: &FaasConfig) -> EnvSpec {
    let summary = "One serverless function among others that heuristics control.";
    spec(config, "faas/shared-v1", summary, "never")
}

pub(crate) fn fleet(config: &FaasConfig) -> EnvSpec {
    let summary = "One agent for each function on a common platform; functions may come and go.";
    spec(config, "faas/fleet-v1", summary, "an agent's, when its function leaves")
}

pub(crate) fn set_point_fleet(config: &FaasConfig) -> EnvSpec {
    let (low, high) = SetPoints::RANGES.into_iter().unzip();
    EnvSpec {
        observation: Space::Box { low, high },
        action: Space::MultiDiscrete(vec![SetPoint::WEIGHTS.len(), SetPoint::SPARES.len()]),
        card: Card {
            summary: "One agent for each function on a common platform, which names what it \
                      wants; functions may come and go.",
            observation: vec![
                Field::new("SP", "0 to 1: objective over measured p99, 1 while it is kept"),
                Field::new("AC", "-1 to 1: change of the arrival rate over the larger of both"),
                Field::new("load", "requests in service if nobody waited, in fours"),
                Field::new("CPU time", "of a request alone: half its doublings of 250 ms"),
                Field::new("I/O part", "0 to 1: part of a request's time alone without CPU"),
                Field::new("waiting", "a third of the logarithm of 1 + requests that wait"),
                Field::new("crowding", "requests inside over those alone, halved"),
                Field::new("NC", "0 to 1: containers over the most"),
                Field::new("weight", "half the doublings of 500 millicores"),
                Field::new("CPU", "cores that the load needs, in pairs"),
            ],
            action: vec![
                Field::new("weight", "0 to 4: 125, 250, 500, 1000, 2000 millicores"),
                Field::new(
                    "spare",
                    "0 to 4: 0.5, 1, 1.5, 2, 3 roots of the load in containers \
                                     beyond it; fewer only when the last three steps agree",
                ),
            ],
            reward: "less its late requests over the mean number of requests of a function, less \
                     faas.container_price for each container: over all agents, the mean is the \
                     part of all requests that is late and the price of the mean containers",
            termination: "an agent's, when its function leaves",
            source: "this project",
        },
        ..spec(config, "faas/fleet-v2", "", "")
    }
}

pub(crate) fn chain(config: &FaasConfig) -> EnvSpec {
    let summary = "One agent for each function of chains with end-to-end objectives.";
    let spec = spec(config, "faas/chain-v1", summary, "never");
    let (low, high) = StageFeatures::ranges().unzip();
    let mut fields = observation();
    fields[0] = Field::new("SP", "0 to 1: the chain's objective over its p99, 1 while it is kept");
    fields.extend([
        Field::new("SP_own", "0 to 1: the function's own objective over its own p99"),
        Field::new("share", "0 to 1: the function's p99 over the chain's, at most 1"),
    ]);
    EnvSpec {
        observation: Space::Box { low, high },
        card: Card { observation: fields, source: CHAIN_SOURCE, ..spec.card },
        ..spec
    }
}

pub(crate) fn course(config: &FaasConfig) -> EnvSpec {
    EnvSpec {
        id: "faas/course-v1".parse().expect("the id is well-formed"),
        observation: Space::uniform_box(6, 0.0, 1.0),
        action: Space::MultiDiscrete(vec![3, 3]),
        time_limit: Some(config.steps),
        card: Card {
            summary: "The course's serverless function on one node of eight cores.",
            observation: vec![
                Field::new("cpu_util", "0 to 1: CPU used over CPU given"),
                Field::new("slo_preservation", "0 to 1: objective over measured p99"),
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
