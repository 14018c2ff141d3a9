//! The definitions of our objects, as the cluster wants them.

use kube::CustomResourceExt;

use super::{MultidimPodAutoscaler, MultidimPodAutoscalerCheckpoint};

/// The definitions as YAML, made from the types in this folder.
pub fn definitions() -> String {
    let definitions = [MultidimPodAutoscaler::crd(), MultidimPodAutoscalerCheckpoint::crd()];
    let texts = definitions.iter().map(|definition| {
        serde_saphyr::to_string(definition).expect("a definition can be written as YAML")
    });
    let head = "# Made by `homeostat operator crd`. Do not edit.\n";
    format!("{head}{}", texts.collect::<Vec<_>>().join("---\n"))
}
