//! `homeostat agent`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use homeostat_simppo::{AgentName, Change, Participant, ParticipantConfig, Registration};
use homeostat_train::team::{AgentEvent, AgentPlan, AgentStatus, AgentWatcher, TeamAgent};
use homeostat_wire::{ClientConfig, CoordinationClient};
use serde_json::{Value, json};

use super::events::{EventForm, EventLog};
use super::{counts, read, real_duration, since_epoch, token};
use crate::Ending;
use crate::options::{SettingOptions, positive_count};
use crate::output::{Output, print_record};
use crate::progress::interruption;

/// Run one agent of a team: it acts on the coordinator's platform and learns from the team's reward.
///
/// The agent registers, gets a seat on the shared platform, and controls one serverless function
/// from there. In every step it acts and gets back its next observation, its own reward, the
/// team's reward and the virtual agent that stands for all other functions. It learns from the
/// team's reward. While the coordinator is away it waits. Started again with the same command it
/// goes on from its checkpoint, on its seat.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  homeostat agent --coordinator http://127.0.0.1:7700 --name a\n  homeostat agent --coordinator http://127.0.0.1:7700 --name resize --function image-resize\n  homeostat agent --coordinator https://coordinator:7700 --name a --tls-ca ca.pem --token-file token\n\nThe token may also come from the environment: HOMEOSTAT_COORDINATOR_TOKEN.\n`homeostat env card faas/fleet-v3` explains the platform. The coordinator sets its pace.\nCtrl-C saves a checkpoint and leaves the team; kill -9 loses at most --checkpoint-every."
)]
pub(crate) struct AgentArguments {
    /// Where the coordinator is: http://127.0.0.1:7700, or https://... with --tls-ca.
    #[arg(long, value_name = "URL")]
    coordinator: String,
    /// The agent's name in the team; the last process to register it has it.
    #[arg(long)]
    name: String,
    /// The environment that the coordinator hosts.
    #[arg(long, value_name = "ID", default_value = homeostat_simppo::HOSTED_ENV)]
    env: String,
    /// The function to control, by its name on the platform; any free one by default.
    #[arg(long, value_name = "FUNCTION")]
    function: Option<String>,
    /// Everything random in the agent follows from it and the name.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// Steps after which the agent leaves, those before a restart included; none by default.
    #[arg(long, value_parser = positive_count, allow_negative_numbers = true)]
    steps: Option<u64>,
    /// The run directory; runs/agent-NAME by default. If it holds this agent, it goes on.
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
    /// How long a call may take; longer than a step of the platform.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = real_duration)]
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
    let mut client = CoordinationClient::new(&ClientConfig {
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
    // No two processes of an agent start in the same nanosecond with the same process number.
    let incarnation = (since_epoch().as_nanos() as u64) ^ (u64::from(std::process::id()) << 32);
    let participant = Participant::new(ParticipantConfig {
        name: name.clone(),
        registration: Registration { incarnation, function: arguments.function.clone() },
        first_retry: Duration::from_millis(500),
        deadline: arguments.deadline,
    });
    let plan = AgentPlan {
        steps: arguments.steps,
        checkpoint_every: arguments.checkpoint_every,
        report_every: arguments.report_every,
    };
    let summary = agent.run(&mut client, participant, &plan, &mut watcher)?;
    match arguments.output {
        EventForm::Text => print_record(Output::Table, &summary),
        EventForm::Json => log.tell("stopped", summary, ""),
    }
    Ok(Ending::Done)
}

fn settings(arguments: &AgentArguments) -> SettingOptions {
    SettingOptions {
        env: Some(arguments.env.clone()),
        seed: arguments.seed,
        preset: Some(arguments.preset.clone()),
        config: arguments.config.clone(),
        set: arguments.set.clone(),
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
                let text = format!("{reason}; waiting for it");
                log.tell("away", json!({ "reason": reason }), &text);
            }
            AgentEvent::Coordination(Change::Rejoined { away, lost }) => {
                let away_ms = u64::try_from(away.as_millis()).unwrap_or(u64::MAX);
                let fields = json!({ "away_ms": away_ms, "lost": lost });
                let text = format!(
                    "the coordinator is back after {:.1} s; {lost} actions were lost",
                    away.as_secs_f64()
                );
                log.tell("rejoined", fields, &text);
            }
            AgentEvent::Seated(membership) => {
                let seat = membership.seat.as_ref();
                let fields = json!({
                    "seat": seat.map(|seat| seat.agent.number()),
                    "function": seat.map(|seat| seat.function.as_str()),
                    "seats": membership.seats,
                });
                let text = match seat {
                    Some(seat) => format!("{} controls {}", self.name, seat.function),
                    None => {
                        format!("{} waits: all {} seats are taken", self.name, membership.seats)
                    }
                };
                log.tell("seated", fields, &text);
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
        "updates": status.updates,
        "reward": status.reward,
        "team_reward": status.team_reward,
        "members": status.members,
        "away": status.is_away,
        "answered": status.counts.answered,
        "lost": status.counts.lost,
        "refused": counts(&status.counts.refusals),
    })
}

fn describe(status: &AgentStatus) -> String {
    let number = |number: Option<f64>| number.map_or("-".to_owned(), |n| format!("{n:.3}"));
    let team = match (status.is_away, status.members) {
        (true, _) => "waiting for the coordinator".to_owned(),
        (false, members) => format!("team of {}", members.unwrap_or(0)),
    };
    format!(
        "step {}: reward {}, {team}, its reward {}; {} actions lost",
        status.step,
        number(status.reward),
        number(status.team_reward),
        status.counts.lost,
    )
}
