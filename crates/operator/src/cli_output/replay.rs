//! The result of a replay as text and JSON.

use homeostat_autoscaler::api::{Plan, cpu_quantity, memory_quantity};
use homeostat_autoscaler::history::{Change, Replay, Substituted, Tally, WorkloadHistory};
use homeostat_autoscaler::workload::Workload;
use homeostat_core::{Bytes, Millicores, SimTime};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::format::{plain, table};

/// The limits of the method, in every output.
pub const OPEN_LOOP: &str = "Open loop: the recorded CPU work is divided among the pods that there \
would have been, memory per pod is as recorded, and latency with other sizes was not observed. The SLO \
counts as met where it was met with no more CPU than there would have been, as violated where it was \
violated with no less, and as unknown elsewhere; samples in which the recorded usage exceeds the \
requests show the risk.";

/// A replay as text, with the last `changes` changes.
pub fn replay_text(
    workload: &Workload,
    history: &WorkloadHistory,
    replay: &Replay,
    changes: usize,
) -> String {
    let WorkloadHistory { plan, recording, .. } = history;
    let time = |sample: Option<&homeostat_autoscaler::history::Sample>| {
        sample.map_or_else(|| "-".to_owned(), |sample| timestamp(sample.at))
    };
    let mut text = format!(
        "{} {}, {} to {}, {} samples {} apart\n\n",
        plain(&workload.namespace),
        plain(&workload.to_string()),
        time(recording.samples.first()),
        time(recording.samples.last()),
        replay.recorded.samples,
        recording.step,
    );
    text.push_str(&totals(plan, replay));
    text.push_str(&format!("\n{}\n", wrapped(OPEN_LOOP)));
    for assumed in &recording.assumed {
        text.push_str(&format!("Assumed: {}.\n", plain(assumed)));
    }
    if replay.gaps > 0 {
        text.push_str(&format!("{} samples without data are left out.\n", replay.gaps));
    }
    if let Some(Substituted { samples, why }) = &replay.substituted {
        text.push_str(&format!(
            "In {samples} of {} samples the policy could not recommend: {}.\n",
            replay.ours.samples,
            plain(why)
        ));
    }
    text.push_str(&changes_text(&replay.changes, changes));
    text
}

fn totals(plan: &Plan, replay: &Replay) -> String {
    let all = [&replay.recorded, &replay.ours, &replay.hpa, &replay.vpa];
    let row = |name: &str, cell: &dyn Fn(&Tally) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(all.iter().map(|tally| cell(tally)));
        cells
    };
    let against = |figure: fn(&Tally) -> f64| {
        move |tally: &Tally| {
            let (value, recorded) = (figure(tally), figure(&replay.recorded));
            let is_recorded = std::ptr::eq(tally, &replay.recorded) || recorded == 0.0;
            let percent = (value / recorded - 1.0) * 100.0;
            if is_recorded { format!("{value:.1}") } else { format!("{value:.1} ({percent:+.0}%)") }
        }
    };
    let part =
        |count: u32, tally: &Tally| f64::from(count) / f64::from(tally.samples.max(1)) * 100.0;
    let short = |count: u32, worst: f64, tally: &Tally| match count {
        0 => "0".to_owned(),
        _ => format!("{count} ({:.1}%), worst +{:.0}%", part(count, tally), worst * 100.0),
    };
    let mut header = vec![String::new()];
    let who = ["HAPPENED", &replay.recommender.to_uppercase(), "HPA ALONE", "VPA ALONE"];
    header.extend(who.map(str::to_owned));
    let mut rows = vec![
        header,
        row("core-hours requested", &against(|tally| tally.core_hours)),
        row("GiB-hours requested", &against(|tally| tally.gib_hours)),
        row("pods, mean", &|tally| format!("{:.1}", tally.mean_pods())),
        row("scalings", &|tally| tally.scalings.to_string()),
        row("resizes", &|tally| tally.resizes.to_string()),
        row("samples short of CPU", &|tally| {
            short(tally.short_of_cpu, tally.worst_cpu_excess, tally)
        }),
        row("samples short of memory", &|tally| {
            short(tally.short_of_memory, tally.worst_memory_excess, tally)
        }),
    ];
    if plan.goal.is_some() {
        let percent = |count: fn(&Tally) -> u32| {
            move |tally: &Tally| format!("{:.1}%", part(count(tally), tally))
        };
        rows.push(row("SLO met", &percent(|tally| tally.slo_met)));
        rows.push(row("SLO violated", &percent(|tally| tally.slo_violated)));
        rows.push(row("SLO unknown", &percent(|tally| tally.slo_unknown)));
    }
    let used = format!("{:.1} core-hours were used.\n", replay.used_core_hours);
    table(&rows) + &used
}

fn changes_text(changes: &[Change], max: usize) -> String {
    if changes.is_empty() {
        return "\nThere would have been no changes.\n".to_owned();
    }
    let shown = changes.len().min(max);
    let mut text =
        format!("\nChanges that there would have been, the last {shown} of {}:\n", changes.len());
    if shown == 0 {
        return text;
    }
    let header = ["AT", "RECORDED PODS", "PODS", "CPU", "MEMORY", "WHY"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let change_text =
        |from: String, to: String| if from == to { to } else { format!("{from}->{to}") };
    for change in &changes[changes.len() - shown..] {
        let (from, to) = (change.from, change.to);
        rows.push(vec![
            timestamp(change.at),
            change.recorded_replicas.to_string(),
            change_text(from.0.to_string(), to.0.to_string()),
            change_text(cpu_quantity(from.1).0, cpu_quantity(to.1).0),
            change_text(memory_quantity(from.2).0, memory_quantity(to.2).0),
            plain(&change.reasons.join("; ")),
        ]);
    }
    text.push_str(&table(&rows));
    text
}

/// JSON for programs, with every change.
pub fn replay_json(workload: &Workload, history: &WorkloadHistory, replay: &Replay) -> Value {
    let recording = &history.recording;
    let allocation = |(replicas, cpu, memory): (u32, Millicores, Bytes)| {
        json!({
            "replicas": replicas,
            "cpu": cpu_quantity(cpu).0,
            "memory": memory_quantity(memory).0,
        })
    };
    let change = |change: &Change| {
        json!({
            "at": timestamp(change.at),
            "recorded_replicas": change.recorded_replicas,
            "from": allocation(change.from),
            "to": allocation(change.to),
            "reasons": change.reasons,
        })
    };
    json!({
        "namespace": workload.namespace,
        "kind": workload.target.kind,
        "name": workload.target.name,
        "recommender": replay.recommender,
        "policy": history.policy.as_ref().map(|policy| &policy.version),
        "from": recording.samples.first().map(|sample| timestamp(sample.at)),
        "to": recording.samples.last().map(|sample| timestamp(sample.at)),
        "step_s": recording.step.seconds(),
        "open_loop": OPEN_LOOP,
        "assumed": recording.assumed,
        "gaps": replay.gaps,
        "substituted": replay.substituted.as_ref().map(|substituted| {
            json!({ "samples": substituted.samples, "why": substituted.why })
        }),
        "used_core_hours": replay.used_core_hours,
        "recorded": tally_json(&replay.recorded),
        "ours": tally_json(&replay.ours),
        "hpa": tally_json(&replay.hpa),
        "vpa": tally_json(&replay.vpa),
        "changes": replay.changes.iter().map(change).collect::<Vec<_>>(),
    })
}

fn tally_json(tally: &Tally) -> Value {
    let mut value = json!(tally);
    value["slo_violation_ratio"] =
        json!(f64::from(tally.slo_violated) / f64::from(tally.samples.max(1)));
    // Deprecated names, for one release.
    value["moments"] = json!(tally.samples);
    value["kept"] = json!(tally.slo_met);
    value["broken"] = json!(tally.slo_violated);
    value["unknown"] = json!(tally.slo_unknown);
    value
}

fn timestamp(at: SimTime) -> String {
    let seconds = i64::try_from(at.nanos() / 1_000_000_000).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string()
}

/// Breaks text into lines.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one");
        if line.len() + word.len() + 1 > WIDTH {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}
