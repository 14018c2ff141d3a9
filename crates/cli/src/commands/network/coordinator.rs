//! `homeostat coordinator`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use homeostat_simppo::{Coordinator, CoordinatorConfig, CoordinatorEvent, CoordinatorStatus};
use homeostat_train::team::CoordinatorDirectory;
use homeostat_wire::{CoordinatorServer, ServerConfig, TransportCounts};
use serde_json::{Value, json};

use super::events::{EventForm, EventLog};
use super::{counts, real_duration, server_config, since_epoch};
use crate::Ending;
use crate::options::SettingOptions;
use crate::output::print;
use crate::progress::interruption;

/// Host one shared platform for agents on this machine or others.
///
/// Agents register and get a seat each: a function of the platform. A step is played when every
/// agent has acted, or --step-deadline after the first of them did; a seat without an action
/// holds, and the missing action is counted. Every agent gets back its observation, its own
/// reward, the team's reward and the virtual agent that stands for all other functions. An agent
/// that comes back gets its seat again.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  homeostat coordinator                                on this machine alone, no secrets needed\n  homeostat coordinator --set faas.functions=50 --pace 200ms\n  homeostat coordinator --state runs/coordinator       a restart goes on with platform and team\n  homeostat coordinator --listen 0.0.0.0:7700 --tls-cert cert.pem --tls-key key.pem --token-file token\n\nThen, in other terminals: homeostat agent --coordinator http://127.0.0.1:7700 --name resize ...\nThe token may also come from the environment: HOMEOSTAT_COORDINATOR_TOKEN.\nOther machines are listened to only with TLS and a token. Ctrl-C saves the state and ends."
)]
pub(crate) struct CoordinatorArguments {
    /// Where to listen; port 0 takes a free one. Other machines need TLS and a token.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7700")]
    listen: SocketAddr,
    /// The environment to host: one that many agents share (`homeostat env list`).
    #[arg(long, value_name = "ID", default_value = homeostat_simppo::HOSTED_ENV)]
    env: String,
    /// Everything random on the platform follows from it.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// A file of settings in TOML; `homeostat config default` prints a commented one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Any setting, as faas.functions=50; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The least time from one step of the platform to the next; as fast as agents act by default.
    #[arg(long, value_name = "TIME", value_parser = real_duration)]
    pace: Option<Duration>,
    /// How long a step waits for the other agents once the first has acted.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = real_duration)]
    step_deadline: Duration,
    /// How often each agent should be heard from, as 500ms or 1s.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = real_duration)]
    heartbeat: Duration,
    /// After how long a silence no step waits for an agent and another may have its seat; three
    /// heartbeats by default.
    #[arg(long, value_name = "TIME", value_parser = real_duration)]
    timeout: Option<Duration>,
    /// A directory for platform and team: a coordinator that was killed goes on from it.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Certificate chain in PEM, for TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A file with the token that agents must show; else HOMEOSTAT_COORDINATOR_TOKEN.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Agents to remember at most, silent ones included.
    #[arg(long, value_name = "N", default_value_t = 10_000, alias = "most-agents")]
    max_agents: usize,
    /// Time between two reports of the team.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = real_duration)]
    report_every: Duration,
    /// Form of events: sentences on standard error, or JSON lines on standard output.
    #[arg(long, value_enum, default_value_t)]
    output: EventForm,
}

pub(crate) fn run(arguments: &CoordinatorArguments) -> anyhow::Result<Ending> {
    let interrupted = interruption()?;
    let log = EventLog::new(arguments.output);
    let heartbeat = arguments.heartbeat;
    let settings = SettingOptions {
        env: Some(arguments.env.clone()),
        seed: arguments.seed,
        config: arguments.config.clone(),
        // A coordinator hosts one copy of its platform: settings are checked for that.
        set: std::iter::once("ppo.num_envs=1".to_owned()).chain(arguments.set.clone()).collect(),
        ..SettingOptions::default()
    };
    let settings = settings.resolve()?.validate()?;
    let config = CoordinatorConfig {
        heartbeat,
        timeout: arguments.timeout.unwrap_or(heartbeat.saturating_mul(3)),
        step_deadline: arguments.step_deadline,
        pace: arguments.pace.unwrap_or_default(),
        max_agents: arguments.max_agents,
        seed: settings.seed,
        // Larger than that of any start before, unless the clock went back: then the state says.
        life: since_epoch().as_millis() as u64,
    };
    let factory = &settings.env_factory;
    let env = factory.make_multi_agent(&settings.env).map_err(homeostat_lab::Error::from)?;
    let mut coordinator = config.build(env, &factory.tasks(&settings.env)?)?;
    let directory = arguments.state.as_deref().map(CoordinatorDirectory::open).transpose()?;
    let is_restored = match &directory {
        Some(directory) => {
            let is_restored = directory.restore(&mut coordinator)?;
            // The number of this start must be on the disk before it is used.
            directory.write(CoordinatorDirectory::state_of(&coordinator))?;
            is_restored
        }
        None => false,
    };
    let known = coordinator.status();
    let pair = arguments.tls_cert.as_deref().zip(arguments.tls_key.as_deref());
    let server_config = server_config(arguments.listen, pair, arguments.token_file.as_deref())?;
    let server = CoordinatorServer::start(coordinator, &server_config)?;
    announce(&log, &server, &server_config);
    if is_restored {
        let CoordinatorStatus { step, members, silent, .. } = known;
        let fields = json!({ "step": step, "members": members, "silent": silent });
        let text = format!(
            "going on from step {step}: {members} members as of the last checkpoint, {silent} silent"
        );
        log.tell("restored", fields, &text);
    }
    let mut book = Book { log: &log, server: &server, directory: directory.as_ref(), saved: None };
    let mut reported = Instant::now();
    let nap = (heartbeat / 4).min(Duration::from_millis(100));
    while !interrupted.load(Ordering::SeqCst) {
        anyhow::ensure!(server.is_listening(), "the network of this machine has failed");
        let failure = server.with(|coordinator| coordinator.failure().map(ToString::to_string));
        anyhow::ensure!(failure.is_none(), "the platform failed: {}", failure.unwrap_or_default());
        book.keep(heartbeat)?;
        if reported.elapsed() >= arguments.report_every {
            reported = Instant::now();
            book.report("status");
        }
        std::thread::sleep(nap);
    }
    book.keep(Duration::ZERO)?;
    book.report("stopped");
    let last = server.stop(|coordinator| CoordinatorDirectory::state_of(coordinator));
    if let Some(directory) = &directory {
        directory.write(last)?;
    }
    Ok(Ending::Done)
}

/// Where it listens, on standard output in either form: any port may have been asked for.
fn announce(log: &EventLog, server: &CoordinatorServer, config: &ServerConfig) {
    let (tls, token) = (config.identity.is_some(), config.token.is_some());
    let url = format!("{}://{}", if tls { "https" } else { "http" }, server.address());
    match log.form() {
        EventForm::Text => print(&format!("listening on {url}\n")),
        EventForm::Json => {
            let address = server.address().to_string();
            let fields = json!({ "address": address, "url": url, "tls": tls, "token": token });
            log.tell("listening", fields, "");
        }
    }
}

/// Reports what happens in the team, and writes its state to the disk.
struct Book<'a> {
    log: &'a EventLog,
    server: &'a CoordinatorServer,
    directory: Option<&'a CoordinatorDirectory>,
    /// When the state was saved, and how many messages had come by then.
    saved: Option<(Instant, u64)>,
}

impl Book<'_> {
    /// Tells what is new, and saves: at once if the team has changed, else once in `every` if
    /// anything was heard.
    fn keep(&mut self, every: Duration) -> anyhow::Result<()> {
        let events = self.server.with(Coordinator::take_events);
        for event in &events {
            self.tell(event);
        }
        let Some(directory) = self.directory else { return Ok(()) };
        let heard = self.server.with(|coordinator| messages(&coordinator.status()));
        let is_due = match self.saved {
            Some((when, then)) => when.elapsed() >= every && heard != then,
            None => true,
        };
        if is_due || !events.is_empty() {
            // A copy, so that no agent waits for the disk.
            let state = self.server.with(|coordinator| CoordinatorDirectory::state_of(coordinator));
            directory.write(state)?;
            self.saved = Some((Instant::now(), heard));
        }
        Ok(())
    }

    fn tell(&self, event: &CoordinatorEvent) {
        let members = self.server.with(|coordinator| coordinator.status().members);
        let agent = |name: &homeostat_simppo::AgentName| json!({ "agent": name.as_str() });
        match event {
            CoordinatorEvent::Joined { name, session, is_rejoin } => {
                let session_text = session.to_string();
                let fields = json!({
                    "agent": name.as_str(),
                    "session": session_text,
                    "is_rejoin": is_rejoin,
                });
                let verb = if *is_rejoin { "rejoined" } else { "joined" };
                self.log.tell("joined", fields, &format!("{name} {verb}"));
            }
            CoordinatorEvent::TimedOut { name } => {
                let text = format!("{name} fell silent; its seat holds, {members} members act");
                self.log.tell("timed_out", agent(name), &text);
            }
            CoordinatorEvent::Returned { name } => {
                self.log.tell("returned", agent(name), &format!("{name} is heard again"));
            }
            CoordinatorEvent::HeardAgain { name } => {
                let text = format!("{name} has found the coordinator again");
                self.log.tell("heard_again", agent(name), &text);
            }
            CoordinatorEvent::Left { name } => {
                self.log.tell("left", agent(name), &format!("{name} left"));
            }
            CoordinatorEvent::Refused { name, refusal, count } => {
                let name = name.as_ref().map(homeostat_simppo::AgentName::as_str);
                let fields = json!({
                    "agent": name,
                    "kind": refusal.kind.name(),
                    "reason": refusal.reason,
                    "count": count,
                });
                let who = name.unwrap_or("an unknown sender");
                let text = format!("refused {who} ({count} times): {}", refusal.reason);
                self.log.tell("refused", fields, &text);
            }
        }
    }

    fn report(&self, event: &str) {
        let (status, transport) =
            (self.server.with(|coordinator| coordinator.status()), self.server.transport_counts());
        self.log.tell(event, figures(&status, &transport), &describe(&status, &transport));
    }
}

/// A number that grows with every message.
fn messages(status: &CoordinatorStatus) -> u64 {
    status.accepted + status.missed + status.refusals.total()
}

fn figures(status: &CoordinatorStatus, transport: &TransportCounts) -> Value {
    json!({
        "step": status.step,
        "seats": status.seats,
        "members": status.members,
        "waiting": status.waiting,
        "silent": status.silent,
        "heard": status.heard,
        "team_reward": status.team_reward,
        "accepted": status.accepted,
        "missed": status.missed,
        "refused": counts(&status.refusals),
        "unauthenticated": transport.unauthenticated,
        "undecodable": transport.undecodable,
        "too_large": transport.too_large,
        "shed": transport.shed,
        "clock_jumps": status.clock_jumps,
        "events_dropped": status.events_dropped,
    })
}

fn describe(status: &CoordinatorStatus, transport: &TransportCounts) -> String {
    let reward = status.team_reward.map_or("-".to_owned(), |reward| format!("{reward:.3}"));
    let mut text = format!(
        "step {}: {} of {} seats act, reward {reward}; {} silent, {} waiting; {} actions, {} missed",
        status.step,
        status.members,
        status.seats,
        status.silent,
        status.waiting,
        status.accepted,
        status.missed,
    );
    let turned_away =
        transport.unauthenticated + transport.undecodable + transport.too_large + transport.shed;
    for (count, what) in [(status.refusals.total(), "refused"), (turned_away, "turned away")] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text
}
