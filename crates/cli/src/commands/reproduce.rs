//! `homeostat reproduce`.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValue;
use homeostat_experiments::reproduce::{
    AwareOptions, FirmOptions, FlashOptions, MuserveOptions, PolicyFigures, SimppoOptions,
    SrlResult, SrlStudy, aware_experiments, firm_experiments, firm_reads_data, flash_experiments,
    flash_reads_data, muserve_experiments, muserve_reads_data, run_aware, run_firm, run_flash,
    run_muserve, run_simppo, simppo_experiments,
};
use homeostat_lab::{Error, FormerPercentage, with_former_percentages, write_atomically};
use homeostat_report::{Cell, Finding, Table, write_finding};
use serde_json::{Map, Value, json};

use crate::Ending;
use crate::options::{SeedList, use_threads};
use crate::output::{Output, print, print_records};

/// Reproduce an experiment of the papers, with intervals, beside the published figures.
#[derive(Args)]
#[command(
    after_help = "For simppo/..., aware/..., muserve/..., firm/... and flash/..., --output csv prints the rows of all tables as one: the first column is the title of\nthe table, missing columns are empty, and a figure over seeds has half of its 95 % confidence\ninterval in a second column, NAME interval.\n\nExamples:\n  homeostat reproduce s-rl --quick                 a short version, in a minute or two\n  homeostat reproduce simppo/coordination --output json > coordination.json\n  homeostat reproduce simppo/table-4.4 --seeds 11..20    fresh seeds\n  homeostat reproduce aware/bootstrapping --output json\n  homeostat reproduce firm/real-faults --data DIR --output json\n  homeostat reproduce firm/interference --data DIR\n  homeostat reproduce firm/mitigation --quick"
)]
pub(crate) struct ReproduceArguments {
    /// Experiment.
    #[arg(value_parser = experiments())]
    experiment: String,
    /// Use fewer seeds, episodes and sizes, for a quick test; do not quote the figures.
    #[arg(long)]
    quick: bool,
    /// Training seeds, for example 1..5 [default: those of the experiment]
    #[arg(long)]
    seeds: Option<SeedList>,
    /// Training episodes (s-rl only) [default: those of the experiment]
    #[arg(long, value_parser = clap::value_parser!(u64).range(50..=1_000_000))]
    episodes: Option<u64>,
    /// Directory of published data, a folder per data set (firm/interference, firm/real-faults, flash/size,
    /// flash/sizeless, and muserve/... other than power and sensitivity).
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Directory of a sentence encoder of the BERT class, with config.json, vocab.txt and model.safetensors
    /// (muserve/predictor only).
    #[arg(long, value_name = "DIR")]
    encoder: Option<PathBuf>,
    /// JSON file for the figures [default: a new file under runs/]. For all but s-rl an HTML page
    /// with the same name is written beside it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Worker threads; results do not depend on the number [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
}

/// The name of the study of single agents.
const S_RL: &str = "s-rl";

/// The percentages that figures of 0.1.0 had.
const FORMER: [FormerPercentage; 1] =
    [FormerPercentage { new: "slo_violation_ratio", old: "miss_pct" }];

fn experiments() -> Vec<PossibleValue> {
    let s_rl = PossibleValue::new(S_RL)
        .help("single agents (section 4.5): trained alone, on one platform at four loads, trained together");
    let team = simppo_experiments()
        .chain(aware_experiments())
        .chain(muserve_experiments())
        .chain(firm_experiments())
        .chain(flash_experiments());
    let team = team.map(|(name, asks)| PossibleValue::new(name).help(asks));
    std::iter::once(s_rl).chain(team).collect()
}

pub(crate) fn run(arguments: &ReproduceArguments) -> anyhow::Result<Ending> {
    use_threads(arguments.threads)?;
    let muserve = muserve_experiments().filter(|(name, _)| muserve_reads_data(name));
    let firm = firm_experiments().filter(|(name, _)| firm_reads_data(name));
    let flash = flash_experiments().filter(|(name, _)| flash_reads_data(name));
    let mut readers = muserve.chain(firm).chain(flash);
    let reads_data = readers.any(|(known, _)| known == arguments.experiment);
    if let Some(data) = arguments.data.as_ref().filter(|_| !reads_data) {
        let expected = format!(
            "--data applies to experiments on published data only; {} reads no data",
            arguments.experiment
        );
        return Err(refused("data", &data.display().to_string(), expected));
    }
    let is_predictor = arguments.experiment == "muserve/predictor";
    if let Some(encoder) = arguments.encoder.as_ref().filter(|_| !is_predictor) {
        let expected = "--encoder applies to muserve/predictor only".to_owned();
        return Err(refused("encoder", &encoder.display().to_string(), expected));
    }
    match arguments.experiment.as_str() {
        S_RL => run_s_rl(arguments)?,
        name => run_finding(name, arguments)?,
    }
    Ok(Ending::Done)
}

fn run_finding(name: &str, arguments: &ReproduceArguments) -> anyhow::Result<()> {
    if let Some(episodes) = arguments.episodes {
        return Err(refused(
            "episodes",
            &episodes.to_string(),
            format!("--episodes applies to s-rl only; for {name} use --quick for fewer"),
        ));
    }
    if let Some(out) = arguments.out.as_ref().filter(|out| has_ending(out, "html")) {
        return Err(refused(
            "out",
            &out.display().to_string(),
            "it names the JSON file, for example figures.json; the page is written beside it"
                .to_owned(),
        ));
    }
    let finding = find_out(name, arguments)?;
    // Hours of work are shown even if the disk is full.
    let kept = keep(arguments, &format!("reproduce-{}", name.replace('/', "-")), &json!(finding))
        .and_then(|path| {
            let page = page_beside(&path);
            write_finding(&finding, &page)?;
            Ok((path, page))
        });
    match arguments.output {
        Output::Json => print(&format!("{:#}\n", json!(finding))),
        Output::Table => show_finding(&finding),
        Output::Csv => print_records(Output::Csv, &flat_records(&finding.tables)),
    }
    let (path, page) = kept?;
    say!("figures in {}", path.display());
    say!("page in {}", page.display());
    Ok(())
}

fn find_out(name: &str, arguments: &ReproduceArguments) -> anyhow::Result<Finding> {
    let progress = |what: &str| say!("{what}");
    let data = || {
        let expected = format!("{name} reads published data: name its directory with --data DIR");
        arguments.data.as_ref().ok_or_else(|| refused("data", "nothing", expected))
    };
    if aware_experiments().any(|(known, _)| known == name) {
        let mut options = AwareOptions::new(arguments.quick);
        if let Some(seeds) = &arguments.seeds {
            options.seeds.clone_from(&seeds.0);
        }
        return Ok(run_aware(name, &options, &progress)?);
    }
    if firm_experiments().any(|(known, _)| known == name) {
        let reads_data = firm_reads_data(name);
        let data = if reads_data { data()?.clone() } else { PathBuf::new() };
        let mut options = FirmOptions::new(arguments.quick, data);
        if let Some(seeds) = &arguments.seeds {
            let expected = format!("{name} draws nothing at random: leave out --seeds");
            if reads_data {
                return Err(refused("seeds", &format!("{:?}", seeds.0), expected));
            }
            options.seeds.clone_from(&seeds.0);
        }
        return Ok(run_firm(name, &options, &progress)?);
    }
    if flash_experiments().any(|(known, _)| known == name) {
        let data = if flash_reads_data(name) { data()?.clone() } else { PathBuf::new() };
        let mut options = FlashOptions::new(name, arguments.quick, data);
        if let Some(seeds) = &arguments.seeds {
            options.seeds.clone_from(&seeds.0);
        }
        return Ok(run_flash(name, &options, &progress)?);
    }
    if muserve_experiments().any(|(known, _)| known == name) {
        let data = if muserve_reads_data(name) { data()?.clone() } else { PathBuf::new() };
        let mut options = MuserveOptions::new(arguments.quick, data);
        options.encoder.clone_from(&arguments.encoder);
        if let Some(seeds) = &arguments.seeds {
            options.seeds.clone_from(&seeds.0);
        }
        return Ok(run_muserve(name, &options, &progress)?);
    }
    let mut options = SimppoOptions::new(arguments.quick);
    if let Some(seeds) = &arguments.seeds {
        options.seeds.clone_from(&seeds.0);
    }
    Ok(run_simppo(name, &options, &progress)?)
}

/// A call that cannot be meant.
fn refused(flag: &str, value: &str, expected: String) -> anyhow::Error {
    let source_text = format!("flag --{flag}");
    let (key, value) = (flag.to_owned(), value.to_owned());
    Error::OutOfRange { key, value, source_text, expected }.into()
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

/// The page of these figures. Only `.json` makes way: `fig-4.3` is not `fig-4` with an ending.
fn page_beside(figures: &Path) -> PathBuf {
    if has_ending(figures, "json") {
        return figures.with_extension("html");
    }
    let mut name = figures.as_os_str().to_owned();
    name.push(".html");
    name.into()
}

fn show_finding(finding: &Finding) {
    for table in &finding.tables {
        // With their tables: they are worth nothing apart.
        print(&format!("\n{}\n", table.title));
        print_records(Output::Table, &records(table));
    }
    for note in &finding.notes {
        print(&format!("\n{note}\n"));
    }
}

fn records(table: &Table) -> Vec<Value> {
    let record = |row: &Vec<_>| {
        let cells = table.columns.iter().zip(row);
        let cells = cells.map(|(name, cell)| (name.clone(), json!(format!("{cell}"))));
        Value::Object(cells.collect::<Map<_, _>>())
    };
    table.rows.iter().map(record).collect()
}

/// The rows of all tables as rows of one, with every digit.
fn flat_records(tables: &[Table]) -> Vec<Value> {
    let mut empty = Map::new();
    empty.insert("table".to_owned(), Value::Null);
    for table in tables {
        for (place, name) in table.columns.iter().enumerate() {
            empty.insert(name.clone(), Value::Null);
            let mut cells = table.rows.iter().filter_map(|row| row.get(place));
            if cells.any(|cell| matches!(cell, Cell::Spread(_))) {
                empty.insert(interval_of(name), Value::Null);
            }
        }
    }
    let mut records = Vec::new();
    for table in tables {
        for row in &table.rows {
            let mut record = empty.clone();
            record["table"] = json!(table.title);
            for (name, cell) in table.columns.iter().zip(row) {
                record[name] = match cell {
                    Cell::Spread(spread) => {
                        record[&interval_of(name)] = json!(spread.interval);
                        json!(spread.mean)
                    }
                    cell => json!(cell),
                };
            }
            records.push(Value::Object(record));
        }
    }
    records
}

fn interval_of(column: &str) -> String {
    format!("{column} interval")
}

/// Writes the figures where they were asked for, or to a new file.
fn keep(arguments: &ReproduceArguments, name: &str, figures: &Value) -> anyhow::Result<PathBuf> {
    let path = match &arguments.out {
        Some(path) => path.clone(),
        None => next_free(Path::new("runs"), name),
    };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    write_atomically(&path, format!("{figures:#}\n").as_bytes())?;
    Ok(path)
}

/// The first of `name.json`, `name-2.json` and so on that exists neither itself nor as a page.
fn next_free(directory: &Path, name: &str) -> PathBuf {
    let numbered = (2u32..).map(|number| directory.join(format!("{name}-{number}.json")));
    let mut candidates = std::iter::once(directory.join(format!("{name}.json"))).chain(numbered);
    let is_free = |path: &PathBuf| !path.exists() && !page_beside(path).exists();
    candidates.find(is_free).expect("numbers do not run out before the disk does")
}

fn run_s_rl(arguments: &ReproduceArguments) -> anyhow::Result<()> {
    let mut study = if arguments.quick { SrlStudy::quick() } else { SrlStudy::full() };
    if let Some(seeds) = &arguments.seeds {
        study.seeds.clone_from(&seeds.0);
    }
    if let Some(episodes) = arguments.episodes {
        study.episodes = episodes;
    }
    let result = study.run(&mut |what| say!("{what}"))?;
    let record = with_former_percentages(json!(result), &FORMER);
    let path = keep(arguments, "reproduce-s-rl", &record)?;
    match arguments.output {
        Output::Json => print(&format!("{record:#}\n")),
        Output::Table => show(&result),
        output => print_records(output, &rows(&result)),
    }
    say!("figures in {}", path.display());
    Ok(())
}

/// Every policy in every scenario, a flat row each.
fn rows(result: &SrlResult) -> Vec<Value> {
    let row = |scenario: &str, reward: &str, load: Option<f64>, figures: &PolicyFigures| {
        let mut row = json!({ "scenario": scenario, "reward": reward, "load_pct": load });
        let fields = with_former_percentages(json!(figures), &FORMER);
        for (name, value) in fields.as_object().into_iter().flatten() {
            match value["mean"].as_f64() {
                Some(mean) => {
                    row[name] = json!(mean);
                    row[format!("{name}_interval")] = value["interval"].clone();
                }
                None => row[name] = value.clone(),
            }
        }
        row
    };
    let mut rows = Vec::new();
    for isolated in &result.isolated {
        let policies = isolated.policies.iter();
        rows.extend(policies.map(|figures| row("alone", isolated.reward, None, figures)));
    }
    for together in &result.together {
        let (reward, load) = (together.reward, Some(together.load_pct));
        rows.extend(together.policies.iter().map(|figures| row("together", reward, load, figures)));
    }
    for joint in &result.joint {
        rows.push(row("trained together", joint.reward, Some(joint.load_pct), &joint.policy));
    }
    rows
}

fn show(result: &SrlResult) {
    for isolated in &result.isolated {
        print(&format!(
            "\nalone, reward {}: 95 % of the way after {} episodes ({:.0} to {:.0} by function; paper \
             280 to 350; {} agents gained nothing), training reward {}\n",
            isolated.reward,
            isolated.episodes_to_95_pct,
            isolated.quickest_and_slowest.0,
            isolated.quickest_and_slowest.1,
            isolated.without_gain,
            isolated.training_reward
        ));
        print_records(Output::Table, &isolated.policies.iter().map(record).collect::<Vec<_>>());
    }
    for together in &result.together {
        let (low, mean, high) = together.p99_over_alone;
        print(&format!(
            "\ntogether at {:.0} % load, reward {}: p99 {mean:.1} times that alone, {low:.1} to {high:.1} \
             by function (paper 2.2 to 4.8)\n",
            together.load_pct, together.reward
        ));
        let mut records: Vec<Value> = together.policies.iter().map(record).collect();
        let joint = result
            .joint
            .iter()
            .find(|joint| joint.reward == together.reward && joint.load_pct == together.load_pct);
        if let Some(joint) = joint {
            records.push(record(&joint.policy));
        }
        print_records(Output::Table, &records);
        if let Some(joint) = joint {
            print(&format!(
                "trained together: reward {} a step, alone {}: {} % below (paper 55.9 %)\n",
                joint.training_reward, joint.alone_reward, joint.below_alone_pct
            ));
        }
    }
}

fn record(figures: &PolicyFigures) -> Value {
    json!({
        "policy": figures.policy,
        "slo_violation_pct": figures.slo_violation_ratio.scaled(100.0).to_string(),
        "p99_over_slo": figures.p99_over_slo.to_string(),
        "preservation": figures.preservation.to_string(),
        "cpu_util": figures.cpu_utilisation.to_string(),
        "memory_util": figures.memory_utilisation.to_string(),
        "container_s": figures.container_s.to_string(),
        "memory_gib_s": figures.memory_gib_s.to_string(),
        "reward": figures.reward.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_report::Spread;

    #[test]
    fn a_page_has_the_name_of_its_figures() {
        let check = |figures: &str, expect: &str| {
            assert_eq!(page_beside(Path::new(figures)), Path::new(expect));
        };
        check("runs/reproduce-simppo-fig-4.3.json", "runs/reproduce-simppo-fig-4.3.html");
        check("fig-4.3", "fig-4.3.html");
        check("FIGURES.JSON", "FIGURES.html");
    }

    #[test]
    fn neither_figures_nor_pages_are_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let next = || next_free(directory.path(), "fig-4.3");
        assert_eq!(next(), directory.path().join("fig-4.3.json"));
        std::fs::write(directory.path().join("fig-4.3.html"), "").unwrap();
        assert_eq!(next(), directory.path().join("fig-4.3-2.json"));
        std::fs::write(directory.path().join("fig-4.3-2.json"), "").unwrap();
        assert_eq!(next(), directory.path().join("fig-4.3-3.json"));
    }

    #[test]
    fn tables_become_one_with_every_digit() {
        let table = |title: &str, columns: &[&str], row: Vec<Cell>| Table {
            title: title.to_owned(),
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: vec![row],
        };
        let spread = Spread { mean: 1.0 / 3.0, interval: Some(0.125), min: 0.0, max: 1.0 };
        let tables = [
            table("a", &["policy", "SLO violations %"], vec!["none".into(), spread.into()]),
            table("b", &["policy", "paper"], vec!["kpa".into(), Cell::Nothing]),
        ];
        let records = flat_records(&tables);
        let expect = json!([
            { "table": "a", "policy": "none", "SLO violations %": 1.0 / 3.0, "SLO violations % interval": 0.125, "paper": null },
            { "table": "b", "policy": "kpa", "SLO violations %": null, "SLO violations % interval": null, "paper": null },
        ]);
        assert_eq!(json!(records), expect);
        let names: Vec<&String> = records[1].as_object().unwrap().keys().collect();
        assert_eq!(
            names,
            ["table", "policy", "SLO violations %", "SLO violations % interval", "paper"]
        );
    }
}
