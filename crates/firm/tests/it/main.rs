//! Tests of the localisation of culprits against other programs and from spans.

mod scikit_learn;
mod spans;
