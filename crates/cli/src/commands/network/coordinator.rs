//! `homeostat coordinator`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use homeostat_simppo::{Coordinator, CoordinatorConfig, CoordinatorEvent, Standing};
use homeostat_train::team::CoordinatorFolder;
use homeostat_wire::{CoordinatorServer, ServerConfig, TransportCounts};
use serde_json::{Value, json};

use super::events::{EventForm, EventLog};
use super::{counts, real_duration, server_config, since_epoch};
use crate::Ending;
use crate::output::print;
use crate::progress::interruption;

/// Bring agents on several machines together into one team.
///
/// Agents register, say at every heartbeat that they are alive, and hand over each step. The
/// coordinator answers with what the others look like (their limits, actions, objectives and
/// use, as one virtual agent) and with the mean reward of the team. Whoever is silent for too
/// long leaves the team, and rejoins under its name when it is heard again.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  homeostat coordinator                                on this machine alone, no secrets needed\n  homeostat coordinator --state runs/coordinator       a restart knows who was there\n  homeostat coordinator --listen 0.0.0.0:7700 --tls-cert cert.pem --tls-key key.pem --token-file token\n\nThen, in other terminals: homeostat agent --coordinator http://127.0.0.1:7700 --name resize ...\nThe token may also come from the environment: HOMEOSTAT_COORDINATOR_TOKEN.\nOther machines are listened to only with TLS and a token. Ctrl-C saves the state and ends."
)]
pub(crate) struct CoordinatorArguments {
    /// Where to listen; port 0 takes a free one. Other machines need TLS and a token.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7700")]
    listen: SocketAddr,
    /// How often each agent should be heard from, as 500ms or 1s.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = real_duration)]
    heartbeat: Duration,
    /// After how long a silence an agent leaves the team; three heartbeats by default.
    #[arg(long, value_name = "TIME", value_parser = real_duration)]
    timeout: Option<Duration>,
    /// A folder to remember the team in: a coordinator that was killed goes on from it.
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
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    most_agents: usize,
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
    let config = CoordinatorConfig {
        heartbeat,
        timeout: arguments.timeout.unwrap_or(heartbeat.saturating_mul(3)),
        most_agents: arguments.most_agents,
        // Larger than that of any life before, unless the clock went back: then the folder says.
        life: since_epoch().as_millis() as u64,
        ..CoordinatorConfig::default()
    };
    let mut coordinator = config.build()?;
    let folder = arguments.state.as_deref().map(CoordinatorFolder::open).transpose()?;
    let is_restored = match &folder {
        Some(folder) => {
            let is_restored = folder.restore(&mut coordinator)?;
            // The number of this life must be on the disk before it is used.
            folder.save(&coordinator)?;
            is_restored
        }
        None => false,
    };
    let known = coordinator.standing();
    let pair = arguments.tls_cert.as_deref().zip(arguments.tls_key.as_deref());
    let server_config = server_config(arguments.listen, pair, arguments.token_file.as_deref())?;
    let server = CoordinatorServer::start(coordinator, &server_config)?;
    announce(&log, &server, &server_config);
    if is_restored {
        let fields = json!({ "members": known.members, "silent": known.silent });
        let (members, silent) = (known.members, known.silent);
        let text =
            format!("going on: {members} members as of the last checkpoint, {silent} silent");
        log.tell("restored", fields, &text);
    }
    let mut book = Book { log: &log, server: &server, folder: folder.as_ref(), saved: None };
    let mut reported = Instant::now();
    let nap = (heartbeat / 4).min(Duration::from_millis(100));
    while !interrupted.load(Ordering::SeqCst) {
        anyhow::ensure!(server.is_listening(), "the network of this machine has failed");
        book.keep(heartbeat)?;
        if reported.elapsed() >= arguments.report_every {
            reported = Instant::now();
            book.report("status");
        }
        std::thread::sleep(nap);
    }
    book.keep(Duration::ZERO)?;
    book.report("stopped");
    let last = server.stop();
    if let Some(folder) = &folder {
        folder.save(&last)?;
    }
    Ok(Ending::Done)
}

/// Where it listens, on standard output in either form: whoever starts it may have asked for any
/// port.
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

/// Tells what happens in the team, and keeps it on the disk.
struct Book<'a> {
    log: &'a EventLog,
    server: &'a CoordinatorServer,
    folder: Option<&'a CoordinatorFolder>,
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
        let Some(folder) = self.folder else { return Ok(()) };
        let heard = self.server.with(|coordinator| messages(&coordinator.standing()));
        let is_due = match self.saved {
            Some((when, then)) => when.elapsed() >= every && heard != then,
            None => true,
        };
        if is_due || !events.is_empty() {
            // A copy, so that nobody waits for the disk.
            let copy = self.server.with(|coordinator| coordinator.clone());
            folder.save(&copy)?;
            self.saved = Some((Instant::now(), heard));
        }
        Ok(())
    }

    fn tell(&self, event: &CoordinatorEvent) {
        let members = self.server.with(|coordinator| coordinator.standing().members);
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
                let text = format!("{name} fell silent and left the team of {members}");
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
                let who = name.unwrap_or("a stranger");
                let text = format!("refused {who} ({count} times): {}", refusal.reason);
                self.log.tell("refused", fields, &text);
            }
        }
    }

    fn report(&self, event: &str) {
        let (standing, transport) = (
            self.server.with(|coordinator| coordinator.standing()),
            self.server.transport_counts(),
        );
        self.log.tell(event, figures(&standing, &transport), &describe(&standing, &transport));
    }
}

/// A number that grows with every message.
fn messages(standing: &Standing) -> u64 {
    standing.accepted + standing.missed + standing.refusals.total()
}

fn figures(standing: &Standing, transport: &TransportCounts) -> Value {
    json!({
        "members": standing.members,
        "waiting": standing.waiting,
        "silent": standing.silent,
        "heard": standing.heard,
        "team_reward": standing.team_reward,
        "accepted": standing.accepted,
        "missed": standing.missed,
        "refused": counts(&standing.refusals),
        "unauthenticated": transport.unauthenticated,
        "undecodable": transport.undecodable,
        "too_large": transport.too_large,
        "shed": transport.shed,
        "clock_jumps": standing.clock_jumps,
        "events_dropped": standing.events_dropped,
    })
}

fn describe(standing: &Standing, transport: &TransportCounts) -> String {
    let reward = standing.team_reward.map_or("-".to_owned(), |reward| format!("{reward:.3}"));
    let mut text = format!(
        "team of {}, reward {reward}; {} silent; {} transitions in, {} missed",
        standing.members, standing.silent, standing.accepted, standing.missed,
    );
    let turned_away =
        transport.unauthenticated + transport.undecodable + transport.too_large + transport.shed;
    for (count, what) in [(standing.refusals.total(), "refused"), (turned_away, "turned away")] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text
}
