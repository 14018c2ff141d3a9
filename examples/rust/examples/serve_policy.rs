//! What does a learned policy read, and what becomes of its proposals?
//!
//! Trains one agent for a serverless function, then serves its policy file on the simulator
//! through `decide`, which explains every decision.

use homeostat_core::{SeedTree, Stream};
use homeostat_decide::{GuardsConfig, ScaledBy, decide};
use homeostat_lab::{Assignment, Environments, Settings, UserLayers};
use homeostat_rl::{LearnedPolicy, Policy, Sampling};
use homeostat_train::{ExtraWriters, Silent, Training};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let environments = Environments::builtin();
    let flags = [("run.env", "faas/function-v2"), ("run.steps", "4000")];
    let layers = UserLayers::of_flags(flags.map(|(key, value)| Assignment::set(key, value)));
    let config = Settings::resolve(&environments, &layers)?.validate()?;
    let directory = std::env::temp_dir().join(format!("serve-policy-{}", std::process::id()));
    Training::start(config.clone(), &directory, ExtraWriters::default())?.run(&mut Silent)?;
    let file = std::fs::read(directory.join("policies/agent-0.policy"))?;
    std::fs::remove_dir_all(&directory)?;

    let policy = Policy::from_bytes(&file)?;
    let schema = policy.schema();
    println!("trained in {}, reads {}:", policy.env(), schema.features.id);
    for feature in &schema.features.features {
        println!("  {:12} {}", feature.name, feature.meaning);
    }

    let system = config.env_factory.plants("faas")?;
    let mut plant = system.make(&[0], &SeedTree::new(1), ScaledBy::Controllers)?;
    let bounds = *plant.bounds();
    let rng = Stream::from_seed(0);
    let mut policy =
        LearnedPolicy::new("ppo", &policy, bounds, Sampling::Greedy, rng)?.explaining();
    let mut guards =
        GuardsConfig { hold_while_violated: true, ..GuardsConfig::bounds_only(bounds) }.build()?;
    println!("\nserved for {}:", plant.name(0));
    for _ in 0..10 {
        plant.advance()?;
        let decision = decide(&mut policy, &mut guards, plant.observe(0));
        println!("{decision}");
        plant.apply(0, &decision)?;
    }
    Ok(())
}
