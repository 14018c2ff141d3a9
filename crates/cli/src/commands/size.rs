//! `homeostat size`.

use std::path::PathBuf;

use clap::Args;
use homeostat_core::SeedTree;
use homeostat_experiments::sizing::{
    LAMBDA_SIZES_MB, TRAINING_FUNCTIONS, generated_functions, read_function_sizes,
};
use homeostat_flash::{FunctionSizes, Prices, SizeEstimator, SizeGoal, SizedFunction};
use homeostat_lab::Error;
use serde_json::{Value, json};

use crate::Ending;
use crate::output::{Output, print, print_records};

/// Seed of the generated functions, and of the training.
const SEED: u64 = 1;

/// Recommend the memory size of serverless functions from measurements at one or more sizes.
#[derive(Args)]
#[command(
    after_help = "FILE has the columns memory_mb, duration_ms, user_cpu_ms, system_cpu_ms and heap_used_mb, and function if it\nhas several functions. A row is an execution or a mean; rows at one size are averaged.\n\nWithout --history the predictions are those of AWS Lambda's model: a share of one core in proportion to the\nmemory size. With --history they are learnt from your own functions; 12 are needed, measured at two sizes or\nmore. Intervals hold nine of ten times of functions like those of the training; a warning says if a function is\nnot like them.\n\nExamples:\n  homeostat size checkout.csv\n  homeostat size checkout.csv --max-ms 200\n  homeostat size new.csv --history measured.csv --sizes 256,512,1024 --output json"
)]
pub(crate) struct SizeArguments {
    /// CSV file with measurements.
    file: PathBuf,
    /// CSV file with functions that were measured at two sizes or more, to learn from.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Memory sizes in MB to choose from [default: those of --history, or 128,256,512,1024,2048,3008]
    #[arg(long, value_delimiter = ',', value_name = "MB,...", allow_negative_numbers = true)]
    sizes: Vec<f64>,
    /// Recommend the cheapest size that stays below this time.
    #[arg(long, value_name = "MS", conflicts_with = "cost_weight", allow_negative_numbers = true)]
    max_ms: Option<f64>,
    /// Weight of cost against time in the recommendation, from 0 (fastest) to 1 (cheapest).
    #[arg(long, default_value_t = 0.75, allow_negative_numbers = true)]
    cost_weight: f64,
    /// Price of a GB of memory for a second.
    #[arg(long, default_value_t = Prices::default().per_gb_second, allow_negative_numbers = true)]
    price_per_gb_second: f64,
    /// Price of a million executions, whatever they take.
    #[arg(long, default_value_t = Prices::default().per_million, allow_negative_numbers = true)]
    price_per_million: f64,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(arguments: &SizeArguments) -> anyhow::Result<Ending> {
    let (prices, goal) = (prices(arguments)?, goal(arguments)?);
    check_sizes(&arguments.sizes)?;
    let functions = read_function_sizes(&arguments.file)?;
    let (known, sizes) = match &arguments.history {
        Some(history) => {
            let known = read_function_sizes(history)?;
            let sizes = measured_sizes(&known);
            (known, sizes)
        }
        None => (generated_functions(TRAINING_FUNCTIONS, SEED), LAMBDA_SIZES_MB.to_vec()),
    };
    let sizes = if arguments.sizes.is_empty() { &sizes } else { &arguments.sizes };
    let mut progress = |fold: usize, folds: usize| {
        say!("training on {} functions, {} of {folds}", known.len(), fold + 1);
    };
    let seeds = SeedTree::new(SEED).child("size");
    let mut estimator =
        SizeEstimator::train(&known, SizeEstimator::UPDATES, &seeds, &mut progress)?;
    let (mut rows, mut records) = (Vec::new(), Vec::new());
    for function in &functions {
        let sized = estimator.predict(function, sizes)?;
        let chosen = goal.choose(&prices, &sized.predictions);
        let of_function = size_rows(&sized, &prices, chosen);
        records.push(json!({
            "function": sized.name,
            "recommended_memory_mb": chosen.map(|place| sized.predictions[place].memory_mb),
            "warnings": sized.warnings,
            "sizes": of_function,
        }));
        if arguments.output != Output::Json {
            for warning in &sized.warnings {
                say!("warning: {}: {warning}", sized.name);
            }
            if chosen.is_none() {
                say!("warning: {}: no size stays below the limit of --max-ms", sized.name);
            }
        }
        rows.extend(of_function);
    }
    match arguments.output {
        Output::Json => print(&format!("{:#}\n", Value::Array(records))),
        output => print_records(output, &rows),
    }
    Ok(Ending::Done)
}

fn size_rows(sized: &SizedFunction, prices: &Prices, chosen: Option<usize>) -> Vec<Value> {
    let rows = sized.predictions.iter().enumerate().map(|(place, one)| {
        json!({
            "function": sized.name,
            "memory_mb": one.memory_mb,
            "duration_ms": one.duration_ms,
            "low_ms": one.interval_ms.0,
            "high_ms": one.interval_ms.1,
            "cost_per_million": prices.million(one),
            "source": if one.is_measured { "measured" } else { "predicted" },
            "recommended": if chosen == Some(place) { "yes" } else { "" },
        })
    });
    rows.collect()
}

fn measured_sizes(functions: &[FunctionSizes]) -> Vec<f64> {
    let measurements = functions.iter().flat_map(|function| &function.measurements);
    let mut sizes: Vec<f64> = measurements.map(|one| one.memory_mb).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

fn check_sizes(sizes: &[f64]) -> anyhow::Result<()> {
    match sizes.iter().find(|size| !(size.is_finite() && **size > 0.0)) {
        Some(size) => Err(refused("sizes", *size, "memory sizes in MB are above zero")),
        None => Ok(()),
    }
}

fn prices(arguments: &SizeArguments) -> anyhow::Result<Prices> {
    let given = [
        ("price-per-gb-second", arguments.price_per_gb_second),
        ("price-per-million", arguments.price_per_million),
    ];
    for (flag, value) in given {
        if !(value.is_finite() && value >= 0.0) {
            return Err(refused(flag, value, "a price is a number from zero up"));
        }
    }
    let [per_gb_second, per_million] = given.map(|(_, value)| value);
    if per_gb_second + per_million == 0.0 {
        let expected = "it must be above zero if --price-per-million is zero";
        return Err(refused("price-per-gb-second", per_gb_second, expected));
    }
    Ok(Prices { per_gb_second, per_million })
}

fn goal(arguments: &SizeArguments) -> anyhow::Result<SizeGoal> {
    if let Some(limit) = arguments.max_ms {
        if !(limit.is_finite() && limit > 0.0) {
            return Err(refused("max-ms", limit, "a time in milliseconds is above zero"));
        }
        return Ok(SizeGoal::Within(limit));
    }
    if !(0.0..=1.0).contains(&arguments.cost_weight) {
        return Err(refused("cost-weight", arguments.cost_weight, "it lies from 0 to 1"));
    }
    Ok(SizeGoal::Balance(arguments.cost_weight))
}

fn refused(flag: &str, value: f64, expected: &str) -> anyhow::Error {
    let (key, source_text) = (flag.to_owned(), format!("flag --{flag}"));
    Error::OutOfRange { key, value: value.to_string(), source_text, expected: expected.to_owned() }
        .into()
}
