//! Tests of the localisation of culprits against other programs and from spans.

mod components;
mod scikit_learn;
mod spans;
