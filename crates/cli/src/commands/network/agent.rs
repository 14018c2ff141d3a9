//! `homeostat agent`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use homeostat_simppo::{AgentName, Change, Participant};
use homeostat_train::team::{AgentEvent, AgentPlan, AgentStatus, AgentWatcher, Link, TeamAgent};
use homeostat_wire::{ClientConfig, CoordinationClient};
use serde_json::{Value, json};

use super::events::{EventForm, EventLog};
use super::{counts, read, real_duration, since_epoch, token};
use crate::Ending;
use crate::options::SettingOptions;
use crate::output::{Output, print_record};
use crate::progress::interruption;

/// Run one agent of a team: it acts, learns from the team's reward, and comes back by itself.
///
/// The agent controls one serverless function in a world of its own. After every step it tells
/// the coordinator its state, action and reward, and learns from the mean reward of the team.
/// While the coordinator is away it goes on deciding by the policy it has, and counts what it
/// could not deliver. Started again with the same command it goes on from its checkpoint.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  homeostat agent --coordinator http://127.0.0.1:7700 --name resize --function image-resize\n  homeostat agent --coordinator http://127.0.0.1:7700 --name shared-3 --env faas/shared-v2 --pace 200ms\n  homeostat agent --coordinator https://coordinator:7700 --name a --tls-ca ca.pem --token-file token\n\nThe token may also come from the environment: HOMEOSTAT_COORDINATOR_TOKEN.\nThe functions are those of the catalogue; `homeostat env card faas/function-v2` explains the world.\nCtrl-C saves a checkpoint and leaves the team; kill -9 loses at most --checkpoint-every."
)]
pub(crate) struct AgentArguments {
    /// Where the coordinator is: http://127.0.0.1:7700, or https://... with --tls-ca.
    #[arg(long, value_name = "URL")]
    coordinator: String,
    /// The agent's name in the team; whoever registers it last has it.
    #[arg(long)]
    name: String,
    /// The world to act in: faas/function-v2 (alone) or faas/shared-v2 (among others).
    #[arg(long, value_name = "ID", default_value = homeostat_simppo::AGENT_ENV)]
    env: String,
    /// The function to control; short for --set faas.function=... (of the environment's simulator)
    #[arg(long, value_name = "FUNCTION")]
    function: Option<String>,
    /// Everything random in the agent and its world follows from it and the name.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// Time from one step to the next, as 200ms or 10s.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = real_duration)]
    pace: Duration,
    /// Steps after which the agent leaves, those before a restart included; none by default.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// The run folder; runs/agent-NAME by default. If it holds this agent, it goes on.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Settings of the learner by name; `homeostat config presets` lists them.
    #[arg(long, value_name = "NAME", default_value = "simppo")]
    preset: String,
    /// A file of settings in TOML; `homeostat config default` prints a commented one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Any setting, as faas.load=bursty; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Certificates to trust in PEM: the coordinator's own, or its authority's.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The name in the coordinator's certificate, if it is not the host of the URL.
    #[arg(long, value_name = "NAME")]
    tls_name: Option<String>,
    /// A file with the coordinator's token; else HOMEOSTAT_COORDINATOR_TOKEN.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How long a call to the coordinator may take.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = real_duration)]
    deadline: Duration,
    /// Time between two checkpoints.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = real_duration)]
    checkpoint_every: Duration,
    /// Time between two reports.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = real_duration)]
    report_every: Duration,
    /// Form of events: sentences on standard error, or JSON lines on standard output.
    #[arg(long, value_enum, default_value_t)]
    output: EventForm,
}

pub(crate) fn run(arguments: &AgentArguments) -> anyhow::Result<Ending> {
    let name = AgentName::new(&arguments.name)?;
    let client = CoordinationClient::new(&ClientConfig {
        url: arguments.coordinator.clone(),
        authorities: arguments.tls_ca.as_deref().map(read).transpose()?,
        server_name: arguments.tls_name.clone(),
        token: token(arguments.token_file.as_deref())?,
        deadline: arguments.deadline,
    })?;
    let config = settings(arguments).resolve()?.validate()?;
    let log = EventLog::new(arguments.output);
    let mut watcher = Watcher { interrupted: interruption()?, log: &log, name: &name };
    let path = match &arguments.run_dir {
        Some(path) => path.clone(),
        None => Path::new("runs").join(format!("agent-{name}")),
    };
    let agent = TeamAgent::open(config, &name, &path, &mut watcher)?;
    let fields = json!({
        "agent": name.as_str(),
        "env": arguments.env,
        "coordinator": arguments.coordinator,
        "run": agent.path().display().to_string(),
    });
    let text = format!("{name} on {}, into {}", arguments.env, agent.path().display());
    log.tell("started", fields, &text);
    // No two lives of an agent begin in the same nanosecond on the same process number.
    let incarnation = (since_epoch().as_nanos() as u64) ^ (u64::from(std::process::id()) << 32);
    let participant = Participant::new(name.clone(), incarnation, Duration::from_millis(500));
    // Deciding comes first: an answer is waited for as long as a step takes, or a moment.
    let patience = arguments.pace.max(Duration::from_millis(250)).min(arguments.deadline);
    let link =
        Link::start(Box::new(client), participant, patience).context("failed to start a thread")?;
    let plan = AgentPlan {
        pace: arguments.pace,
        steps: arguments.steps,
        checkpoint_every: arguments.checkpoint_every,
        report_every: arguments.report_every,
    };
    let summary = agent.run(link, &plan, &mut watcher)?;
    match arguments.output {
        EventForm::Text => print_record(Output::Table, &summary),
        EventForm::Json => log.tell("stopped", summary, ""),
    }
    Ok(Ending::Done)
}

fn settings(arguments: &AgentArguments) -> SettingOptions {
    let mut set = arguments.set.clone();
    let prefix = arguments.env.split_once('/').map_or("", |(prefix, _)| prefix);
    set.extend(arguments.function.iter().map(|function| format!("{prefix}.function={function}")));
    SettingOptions {
        env: Some(arguments.env.clone()),
        seed: arguments.seed,
        preset: Some(arguments.preset.clone()),
        config: arguments.config.clone(),
        set,
        ..SettingOptions::default()
    }
}

struct Watcher<'a> {
    interrupted: Arc<AtomicBool>,
    log: &'a EventLog,
    name: &'a AgentName,
}

impl AgentWatcher for Watcher<'_> {
    fn event(&mut self, event: &AgentEvent<'_>) {
        let log = self.log;
        match event {
            AgentEvent::PassedOver(reason) => {
                let text = format!("passed over a damaged checkpoint: {reason}");
                log.tell("passed_over", json!({ "reason": reason }), &text);
            }
            AgentEvent::Resumed { step } => {
                log.tell("resumed", json!({ "step": step }), &format!("going on from step {step}"));
            }
            AgentEvent::Coordination(Change::Joined) => {
                log.tell("joined", json!({}), &format!("{} joined the team", self.name));
            }
            AgentEvent::Coordination(Change::WentAway { reason }) => {
                let text = format!("the coordinator is away ({reason}); going on alone");
                log.tell("away", json!({ "reason": reason }), &text);
            }
            AgentEvent::Coordination(Change::Rejoined { away, undelivered }) => {
                let away_ms = u64::try_from(away.as_millis()).unwrap_or(u64::MAX);
                let fields = json!({ "away_ms": away_ms, "undelivered": undelivered });
                let text = format!(
                    "the coordinator is back after {:.1} s; {undelivered} transitions were not delivered",
                    away.as_secs_f64()
                );
                log.tell("rejoined", fields, &text);
            }
            AgentEvent::Status(status) => log.tell("status", fields(status), &describe(status)),
        }
    }

    fn wants_to_stop(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }
}

fn fields(status: &AgentStatus) -> Value {
    json!({
        "step": status.step,
        "learned": status.learned,
        "updates": status.updates,
        "reward": status.reward,
        "team_reward": status.team_reward,
        "members": status.members,
        "away": status.is_away,
        "delivered": status.counts.delivered,
        "undelivered": status.counts.undelivered,
        "refused": counts(&status.counts.refusals),
    })
}

fn describe(status: &AgentStatus) -> String {
    let number = |number: Option<f64>| number.map_or("-".to_owned(), |n| format!("{n:.3}"));
    let team = match (status.is_away, status.members) {
        (true, _) => "alone".to_owned(),
        (false, members) => format!("team of {}", members.unwrap_or(0)),
    };
    format!(
        "step {}: reward {}, {team}, its reward {}; {} delivered, {} not",
        status.step,
        number(status.reward),
        number(status.team_reward),
        status.counts.delivered,
        status.counts.undelivered,
    )
}
