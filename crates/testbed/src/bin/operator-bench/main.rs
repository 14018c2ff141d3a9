//! `homeostat bench operator`: a real operator on a real API server with a thousand objects.
//!
//! Pods are plain objects without a kubelet, and what they use are objects as well, of which a
//! part changes all the time. The result goes to stdout, everything else to stderr.

mod figures;
mod running;
mod shops;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use homeostat_testbed::{Cluster, ClusterConfig};

use figures::Figures;
use running::RunningOperator;
use shops::Shops;

/// Time a real operator on a real API server: many objects, plain pods, no kubelet.
#[derive(Parser)]
#[command(
    name = "homeostat bench operator",
    after_help = "Example:\n  homeostat bench operator --kubernetes \"$(tests/cluster/kubernetes)\" --output json"
)]
struct Arguments {
    /// Directory of Kubernetes' binaries, as tests/cluster/kubernetes prints it.
    #[arg(long, value_name = "DIR", env = "HOMEOSTAT_TEST_KUBERNETES")]
    kubernetes: PathBuf,
    /// The operator; the one beside this program by default.
    #[arg(long, value_name = "FILE")]
    operator: Option<PathBuf>,
    /// Objects.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    objects: u32,
    /// Pods of each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pods: u32,
    /// Seconds for which it is watched.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(30..=3600))]
    seconds: u64,
    /// Form of the result.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Output {
    #[default]
    Table,
    Json,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let operator = arguments.operator.clone().unwrap_or_else(beside);
    for needed in [&operator, &arguments.kubernetes.join("kube-apiserver")] {
        if !needed.is_file() {
            eprintln!(
                "bench: {} is not there: build it with `cargo build --release -p \
                 homeostat-operator` or tests/cluster/kubernetes",
                needed.display()
            );
            return ExitCode::from(2);
        }
    }
    let directory = std::env::temp_dir().join(format!("homeostat-bench-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let config = ClusterConfig {
        binaries: &arguments.kubernetes,
        directory: &directory,
        api_server_arguments: &["--max-requests-inflight=800"],
        has_service_accounts: false,
    };
    let figures = measure(&config.build(), &arguments, &operator);
    // The files are not needed any more.
    let _ = std::fs::remove_dir_all(&directory);
    match arguments.output {
        Output::Table => print!("{}", figures.table()),
        Output::Json => println!("{}", figures.json()),
    }
    ExitCode::SUCCESS
}

fn beside() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name("homeostat-operator")
}

fn measure(cluster: &Cluster, arguments: &Arguments, operator: &std::path::Path) -> Figures {
    // The operator dies with the thread that starts it: this one.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let shops = Shops::open(cluster, operator, arguments.objects, arguments.pods).await;
        let operator = RunningOperator::start(cluster, operator);
        operator.wait_for_first_resync().await;
        eprintln!("bench: watching for {} s", arguments.seconds);
        let watched = Duration::from_secs(arguments.seconds);
        let before = operator.counts().await;
        let (_, reconcile_seconds) = tokio::join!(shops.live(watched), shops.time_changes(watched));
        let after = operator.counts().await;
        Figures {
            objects: arguments.objects,
            pods: arguments.objects * arguments.pods,
            reconcile_seconds,
            resync_seconds: operator.resync_seconds(),
            rss_mb: operator.rss_mb(),
            requests: after.requests - before.requests,
            watched,
        }
    })
}
