//! Which rows of a padded batch exist.

use std::cmp::Reverse;
use std::ops::Range;

use crate::{Error, Result};

/// Lengths of the sequences of a batch.
///
/// Arrays of a batch are `[step][sequence][number]`, as long as the longest sequence
/// for all. Rows beyond the end of a sequence are padding: they are not read, and are
/// zero in results.
///
/// The passes see packed rows instead: longest sequence first, and of every step only
/// the sequences that have it. So no work is done for padding, and the sequences of a
/// step are the first of the step before.
#[derive(Debug, Clone, Default)]
pub struct SequenceBatch {
    /// Sequences in the order of packed rows.
    order: Vec<usize>,
    /// Where the packed rows of each step start, and where the last end.
    starts: Vec<usize>,
}

impl SequenceBatch {
    /// A batch of sequences of these lengths.
    pub fn new(lengths: &[usize]) -> Result<Self> {
        let mut this = Self::default();
        this.set(lengths)?;
        Ok(this)
    }

    /// A batch of equally long sequences.
    pub fn uniform(steps: usize, sequences: usize) -> Result<Self> {
        Self::new(&vec![steps; sequences])
    }

    /// Other lengths, in the storage of the old ones.
    pub fn set(&mut self, lengths: &[usize]) -> Result<()> {
        if let Some(sequence) = lengths.iter().position(|length| *length == 0) {
            return Err(Error::EmptySequence { sequence });
        }
        let Some(steps) = lengths.iter().copied().max() else {
            return Err(Error::EmptyBatch);
        };
        self.order.clear();
        self.order.extend(0..lengths.len());
        self.order.sort_unstable_by_key(|sequence| (Reverse(lengths[*sequence]), *sequence));
        self.starts.clear();
        self.starts.push(0);
        let mut active = lengths.len();
        let mut end = 0;
        for step in 0..steps {
            while lengths[self.order[active - 1]] <= step {
                active -= 1;
            }
            end += active;
            self.starts.push(end);
        }
        Ok(())
    }

    /// Steps of the longest sequence.
    pub fn steps(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of sequences.
    pub fn sequences(&self) -> usize {
        self.order.len()
    }

    /// Rows of an array, padding included.
    pub fn padded_rows(&self) -> usize {
        self.steps() * self.sequences()
    }

    /// Rows that are no padding.
    pub fn rows(&self) -> usize {
        self.starts[self.steps()]
    }

    /// Whether packed rows are the rows of the arrays.
    pub(super) fn is_dense(&self) -> bool {
        self.rows() == self.padded_rows()
    }

    /// Packed rows of one step.
    pub(super) fn step(&self, step: usize) -> Range<usize> {
        self.starts[step]..self.starts[step + 1]
    }

    /// For every packed row its row in the arrays.
    fn places(&self) -> impl Iterator<Item = usize> {
        (0..self.steps()).flat_map(move |step| {
            let active = self.step(step).len();
            self.order[..active].iter().map(move |sequence| step * self.sequences() + sequence)
        })
    }

    /// Packed rows of an array.
    pub(super) fn pack(&self, width: usize, padded: &[f32], packed: &mut [f32]) {
        for (row, place) in packed.chunks_exact_mut(width).zip(self.places()) {
            row.copy_from_slice(&padded[place * width..][..width]);
        }
    }

    /// An array of packed rows, with zeros for padding.
    pub(super) fn unpack(&self, width: usize, packed: &[f32], padded: &mut [f32]) {
        padded.fill(0.0);
        for (row, place) in packed.chunks_exact(width).zip(self.places()) {
            padded[place * width..][..width].copy_from_slice(row);
        }
    }

    /// One row for each sequence, longest sequence first.
    pub(super) fn sort(&self, width: usize, rows: &[f32], sorted: &mut [f32]) {
        for (sorted, sequence) in sorted.chunks_exact_mut(width).zip(&self.order) {
            sorted.copy_from_slice(&rows[sequence * width..][..width]);
        }
    }

    /// Undoes [`SequenceBatch::sort`].
    pub(super) fn unsort(&self, width: usize, sorted: &[f32], rows: &mut [f32]) {
        for (sorted, sequence) in sorted.chunks_exact(width).zip(&self.order) {
            rows[sequence * width..][..width].copy_from_slice(sorted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_the_sequences_that_are_long_enough() {
        let batch = SequenceBatch::new(&[2, 4, 1, 4]).unwrap();
        assert_eq!((batch.steps(), batch.sequences(), batch.rows()), (4, 4, 11));
        assert_eq!(batch.order, [1, 3, 0, 2]);
        assert_eq!([0, 1, 2, 3].map(|step| batch.step(step).len()), [4, 3, 2, 2]);
    }

    #[test]
    fn packing_leaves_padding_out_and_unpacking_zeroes_it() {
        let batch = SequenceBatch::new(&[1, 3, 2]).unwrap();
        let padded = [10.0, 20.0, 30.0, f32::NAN, 21.0, 31.0, f32::NAN, 22.0, f32::NAN];
        let mut packed = [0.0; 6];
        batch.pack(1, &padded, &mut packed);
        assert_eq!(packed, [20.0, 30.0, 10.0, 21.0, 31.0, 22.0]);
        let mut unpacked = [f32::NAN; 9];
        batch.unpack(1, &packed, &mut unpacked);
        assert_eq!(unpacked, [10.0, 20.0, 30.0, 0.0, 21.0, 31.0, 0.0, 22.0, 0.0]);
    }

    #[test]
    fn a_batch_without_steps_is_refused() {
        assert!(matches!(SequenceBatch::new(&[]), Err(Error::EmptyBatch)));
        let error = SequenceBatch::new(&[3, 0]).unwrap_err();
        assert!(matches!(error, Error::EmptySequence { sequence: 1 }));
    }
}
