//! `homeostat-gateway`: the program behind `homeostat gateway`. It is a program of its own, since an
//! HTTP server with TLS would add to the first build of those who only simulate.
#![forbid(unsafe_code)]

mod bench;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use homeostat_gateway::admission;
use homeostat_gateway::server::Server;
use homeostat_gateway::settings::{DEFAULT, Settings};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Answer short requests first, in front of OpenAI-compatible servers of language models.
///
/// The gateway predicts how long each answer will be, from the requests that it has seen finish, and
/// lets short ones overtake long ones while they wait for a free slot of a server. Clients use it
/// like OpenAI's API: chat, completions, embeddings and models, with streams.
///
/// When requests do not queue, ordering cannot help. The queue that is ordered is the gateway's: set
/// max_parallel of each server to what it decodes in one batch, so that requests wait here and not
/// there, or let the server order them by the priority that the gateway sends along. At low load
/// nothing waits, and any order gives the same latency: `homeostat bench gateway` measures from which
/// load on it helps, and the book ("A gateway for model servers") has its table.
#[derive(Parser)]
#[command(
    name = "homeostat gateway",
    bin_name = "homeostat gateway",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  homeostat gateway settings > gateway.toml     every setting with its default, commented\n  homeostat gateway run --upstream http://127.0.0.1:8000/v1\n  homeostat gateway run --settings gateway.toml\n  homeostat gateway check gateway.toml          check a file without using it\n  homeostat gateway key team-a                  make a key, and what to write into the file for it\n\nMetrics and probes: http://127.0.0.1:9091/metrics, /healthz, /readyz.\nSIGHUP or a change of the file: new settings without a restart. SIGTERM or Ctrl-C: shut down when\nall requests are answered; a second one at once.\nLOG=debug prints every refused request."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve.
    Run(RunArguments),
    /// Print all settings with their defaults, commented.
    Settings,
    /// Check a settings file.
    Check {
        /// TOML file.
        file: PathBuf,
    },
    /// Make a key for a client, and print it with what to write into the settings for it.
    Key {
        /// Its name in logs and metrics.
        name: String,
    },
    /// Measure what the gateway costs in time and memory, and from which load on its order helps.
    Bench(bench::BenchArguments),
}

#[derive(Args)]
struct RunArguments {
    /// TOML file; `homeostat gateway settings` prints one.
    #[arg(long, value_name = "FILE", required_unless_present = "upstream")]
    settings: Option<PathBuf>,
    /// Server to use with default settings, instead of a file; may be repeated.
    #[arg(long, value_name = "URL", conflicts_with = "settings")]
    upstream: Vec<String>,
    /// Requests sent to each --upstream at once; others wait and are ordered.
    #[arg(long, value_name = "N", default_value_t = 32, conflicts_with = "settings", value_parser = clap::value_parser!(u32).range(1..))]
    max_parallel: u32,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run(&arguments),
        Command::Settings => {
            print(DEFAULT);
            Ok(())
        }
        Command::Check { file } => check(&file),
        Command::Key { name } => key(&name),
        Command::Bench(arguments) => bench::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; the error cannot be reported then.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a text. A reader that has gone away is no failure.
fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

fn read(file: &Path) -> anyhow::Result<Settings> {
    Settings::read(file).with_context(|| format!("cannot use {}", file.display()))
}

fn check(file: &Path) -> anyhow::Result<()> {
    let settings = read(file)?;
    let Settings { upstreams, keys, .. } = &settings;
    print(&format!(
        "{}: {} upstreams, {} keys, no errors\n",
        file.display(),
        upstreams.len(),
        keys.len()
    ));
    Ok(())
}

fn key(name: &str) -> anyhow::Result<()> {
    let mut bytes = [0; 32];
    let mut source = std::fs::File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    std::io::Read::read_exact(&mut source, &mut bytes).context("cannot read /dev/urandom")?;
    let key = format!("hs-{}", admission::hexadecimal(&bytes));
    let name = toml::Value::from(name);
    print(&format!(
        "Key, shown only now; give it to the client:\n{key}\n\nSettings:\n[[keys]]\nname = {name}\nsha256 = \"{}\"\n",
        admission::hexadecimal(&admission::hash(&key))
    ));
    Ok(())
}

fn run(arguments: &RunArguments) -> anyhow::Result<()> {
    let settings = match &arguments.settings {
        Some(file) => read(file)?,
        None => Settings::parse(&as_settings(arguments)).context("cannot use --upstream")?,
    };
    let filter = EnvFilter::try_from_env("LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    allow_many_connections(settings.listen.max_connections);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let cut_off = runtime.block_on(async {
        let server = Server::bind(settings, arguments.settings.clone()).await?;
        let (address, admin) = (server.address()?, server.admin_address()?);
        // Programs that start a gateway wait for this line.
        print(&format!("listening on {address}, metrics on {admin}\n"));
        anyhow::Ok(server.run(stop_signal()).await)
    });
    // A thread that trains must not hold up the end.
    runtime.shutdown_background();
    match cut_off? {
        0 => Ok(()),
        count => anyhow::bail!(
            "cut {count} connections off that were still being answered after timeouts.drain_s"
        ),
    }
}

fn as_settings(arguments: &RunArguments) -> String {
    let one = |(number, url): (usize, &String)| {
        let url = toml::Value::from(url.as_str());
        let slots = arguments.max_parallel;
        format!(
            "[[upstreams]]\nname = \"upstream-{number}\"\nurl = {url}\nmax_parallel = {slots}\n"
        )
    };
    arguments.upstream.iter().enumerate().map(one).collect()
}

/// A client and an upstream take one file each. Takes as many as the system allows, and says so when that
/// is too few.
fn allow_many_connections(connections: usize) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // What the limit is then shows below.
    let _ = setrlimit(Resource::Nofile, limit);
    let Some(files) = getrlimit(Resource::Nofile).current else { return };
    let room = files.saturating_sub(RESERVED_FILES) / 2;
    if room < connections as u64 {
        tracing::warn!(
            "{files} files may be open, enough for {room} streams at once, not for \
             listen.max_connections = {connections}: raise the hard limit (ulimit -Hn, LimitNOFILE=) to {}",
            2 * connections as u64 + RESERVED_FILES
        );
    }
}

/// Files for everything but requests.
const RESERVED_FILES: u64 = 64;

/// Ends at the first signal; the second one ends the process.
async fn stop_signal() {
    let mut terminate = signal(SignalKind::terminate()).expect("no handler was refused so far");
    let mut interrupt = signal(SignalKind::interrupt()).expect("no handler was refused so far");
    let next = async move || {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    };
    let mut next = next;
    next().await;
    tokio::spawn(async move {
        next().await;
        std::process::exit(130);
    });
}
