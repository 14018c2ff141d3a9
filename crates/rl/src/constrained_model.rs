//! The served form of BCQ: candidates of a generative model, each moved a little, of which the one
//! with the highest value is taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_nn::{Activation, Init, MlpShape, Network, StateFile, argmax};

use crate::offline::perturb;
use crate::policy::{require_layers, save_network};
use crate::{Encoder, Error, Result, Workspace};

/// Three networks and the latent numbers of each candidate.
#[derive(Debug, Clone)]
pub(crate) struct ConstrainedModel {
    /// From features and latent numbers to an action in [-1, 1].
    pub(crate) decoder: Network,
    /// From features and an action to a move of the action.
    pub(crate) perturbation: Network,
    /// From features and an action to a value.
    pub(crate) critic: Network,
    /// Candidates times latent numbers.
    pub(crate) latents: Vec<f32>,
    /// Largest move of an action.
    pub(crate) largest_move: f32,
}

/// What the networks of a file must read and answer.
pub(crate) struct ModelWidths {
    /// Encoded features.
    pub(crate) features: usize,
    /// Components of an action.
    pub(crate) action: usize,
}

impl ConstrainedModel {
    /// The action for an observation, in [-1, 1].
    pub(crate) fn act<'w>(
        &self,
        encoder: &Encoder,
        obs: &[f32],
        workspace: &'w mut Workspace,
    ) -> &'w mut [f32] {
        let action_len = self.decoder.shape().outputs();
        let latent_len = self.latent_len(encoder.features());
        let candidates = self.latents.len() / latent_len;
        let Workspace { kernel, actor, critic, features, d_input, actions, .. } = workspace;
        let features = features.at_least(encoder.features());
        encoder.encode(obs, features);
        let x = d_input.at_least(candidates * (features.len() + latent_len.max(action_len)));
        let width = place(x, features, &self.latents, candidates);
        let chosen = actions.at_least(candidates * action_len);
        let decoded = self.decoder.forward(*kernel, &x[..candidates * width], candidates, actor);
        chosen.copy_from_slice(decoded);
        let width = place(x, features, chosen, candidates);
        let x = &mut x[..candidates * width];
        perturb(
            chosen,
            self.perturbation.forward(*kernel, x, candidates, actor),
            self.largest_move,
        );
        place(x, features, chosen, candidates);
        let best = argmax(self.critic.forward(*kernel, x, candidates, critic));
        chosen.copy_within(best * action_len..(best + 1) * action_len, 0);
        &mut chosen[..action_len]
    }

    /// The networks by their names in a file.
    pub(crate) fn networks(&self) -> [(&'static str, &Network); 3] {
        [("decoder", &self.decoder), ("perturbation", &self.perturbation), ("critic", &self.critic)]
    }

    /// Latent numbers of one candidate.
    pub(crate) fn latent_len(&self, features: usize) -> usize {
        self.decoder.shape().inputs() - features
    }

    pub(crate) fn save(&self, file: &mut StateFile) {
        for (name, network) in self.networks() {
            save_network(name, network, file);
        }
        file.arrays.put_f32("latents", self.latents.as_slice());
        file.arrays.put_f32("largest_move", [self.largest_move]);
    }

    /// Reads what [`ConstrainedModel::save`] wrote, for this many features and numbers of an action.
    pub(crate) fn load(
        arrays: &Snapshot,
        widths: &BTreeMap<String, Vec<usize>>,
        candidates: usize,
        reads: ModelWidths,
    ) -> Result<Self> {
        let ModelWidths { features, action: action_len } = reads;
        let damaged = |what: String| Error::PolicyFile { what };
        let network = |name: &str, inputs: usize, outputs: usize, last| -> Result<Network> {
            let widths = widths.get(name).map_or(&[][..], Vec::as_slice);
            if widths.first() != Some(&inputs) || widths.last() != Some(&outputs) {
                let what = format!("{name} {widths:?} does not read {inputs} and answer {outputs}");
                return Err(damaged(what));
            }
            require_layers(name, arrays, widths)?;
            let shape = Arc::new(MlpShape::new(widths, Activation::Relu, last)?);
            let mut network = Network::new(shape, 0, Init::UniformFanIn, &mut Stream::from_seed(0));
            network.load(name, arrays)?;
            Ok(network)
        };
        let inputs = widths.get("decoder").and_then(|widths| widths.first()).copied();
        let latent_len = inputs.unwrap_or(0).saturating_sub(features);
        if latent_len == 0 || candidates == 0 {
            return Err(damaged("its decoder has no latent numbers or no candidates".to_owned()));
        }
        let width = features + action_len;
        let latents = arrays.f32s("latents", candidates.saturating_mul(latent_len))?.to_vec();
        Ok(Self {
            decoder: network("decoder", features + latent_len, action_len, Activation::Tanh)?,
            perturbation: network("perturbation", width, action_len, Activation::Tanh)?,
            critic: network("critic", width, 1, Activation::Identity)?,
            latents,
            largest_move: arrays.f32s("largest_move", 1)?[0],
        })
    }
}

/// Writes rows of the features and a part of `behind` each; returns the width of a row.
fn place(x: &mut [f32], features: &[f32], behind: &[f32], rows: usize) -> usize {
    let len = behind.len() / rows;
    let width = features.len() + len;
    for (row, behind) in x.chunks_exact_mut(width).zip(behind.chunks_exact(len)) {
        row[..features.len()].copy_from_slice(features);
        row[features.len()..].copy_from_slice(behind);
    }
    width
}
