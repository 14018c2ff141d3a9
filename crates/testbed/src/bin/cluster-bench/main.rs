//! `tests/cluster/bench`: the same requests under the stock HPA and under ours, on a real node.
//!
//! Everything runs in a machine of its own (see [`homeostat_testbed::run_inside`]): etcd, API
//! server, controller manager, scheduler, kubelet, containerd, Prometheus, the operator and the
//! load generator. The result goes to stdout, everything else to stderr.

mod arm;
mod calibrate;
mod figures;
mod pods;
mod report;
mod run;
mod settings;

use std::fs;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use homeostat_testbed::{
    IngressMetrics, RealClusterConfig, iterations_per_millisecond, own_control_group, run_inside,
};

use arm::Arm;
use report::Report;
use run::{Bench, Programs, RunPlan};
use settings::{Arguments, Settings};

fn main() {
    let arguments = Arguments::parse();
    if arguments.arms.contains(&Arm::Policy) && arguments.policy.is_none() {
        let message = "the arm policy needs --policy FILE, such as that of homeostat train simppo+";
        Arguments::command().error(ErrorKind::MissingRequiredArgument, message).exit();
    }
    if own_control_group().is_none() {
        let same: Vec<String> = std::env::args().skip(1).collect();
        match run_inside(&same) {
            Ok(status) => std::process::exit(status.code().unwrap_or(1)),
            Err(why) => {
                eprintln!("bench: SKIPPED: {why}");
                std::process::exit(1);
            }
        }
    }
    let settings = Settings::new(&arguments);
    let directory = arguments.directory.clone().unwrap_or_else(|| "/run/containerd/bench".into());
    fs::create_dir_all(&directory).expect("a directory");
    println!("{}", measure(&arguments, &settings, &directory).print(arguments.output));
}

fn measure(arguments: &Arguments, settings: &Settings, directory: &Path) -> Report {
    let flags = settings.controller_manager_arguments();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    eprintln!("bench: starting the cluster");
    let cluster = RealClusterConfig {
        binaries: &arguments.kubernetes,
        directory,
        controller_manager_arguments: &flags,
        metrics_interval: settings.metrics_interval,
        scrape_interval: settings.scrape_interval,
    }
    .build();
    let metrics = IngressMetrics::serve(cluster.ingress_port);
    let per_millisecond = iterations_per_millisecond(&cluster.service);
    let iterations = per_millisecond * settings::WORK_MILLISECONDS;
    eprintln!("bench: {iterations} iterations are {} ms here", settings::WORK_MILLISECONDS);
    // The servers die with the thread that starts them: this one.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let programs =
            Programs { operator: &arguments.operator, policy: arguments.policy.as_deref() };
        let bench = Bench::new(&cluster, metrics, settings, programs, iterations).await;
        let size = calibrate::requests_at_mean_load(&bench).await;
        eprintln!("bench: VPA's rule at the mean load says {} and {}", size.cpu, size.memory);
        let mut report = Report::new(settings, &size, iterations);
        for plan in RunPlan::all(arguments) {
            report.add(bench.run_until_valid(&plan, &size).await);
        }
        report
    })
}
