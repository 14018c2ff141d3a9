//! Embeddings of prompts as features of a predictor.

use std::sync::Arc;

use crate::encode::Embed;

/// Embeddings as features: without the mean of all prompts, and scaled.
#[derive(Debug, Clone)]
pub(super) struct Embeddings {
    encoder: Arc<dyn Embed>,
    mean: Vec<f64>,
    scale: f64,
}

impl Embeddings {
    pub(super) fn of(encoder: Arc<dyn Embed>, scale: f64, texts: &[String]) -> Self {
        let mut mean = vec![0.0; encoder.width()];
        for text in texts {
            for (mean, value) in mean.iter_mut().zip(encoder.embed(text)) {
                *mean += f64::from(value) / texts.len() as f64;
            }
        }
        Self { encoder, mean, scale }
    }

    /// Of a text, one number for each of the width.
    pub(super) fn features(&self, text: &str) -> impl Iterator<Item = f64> {
        let embedding = self.encoder.embed(text).into_iter();
        embedding.zip(&self.mean).map(|(value, mean)| self.scale * (f64::from(value) - mean))
    }

    /// How many numbers a text has.
    pub(super) fn width(&self) -> usize {
        self.mean.len()
    }
}
