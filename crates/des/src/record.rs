//! Fixed-size records of 64-bit words, for snapshots.

/// A value that is stored as a fixed number of 64-bit words.
pub trait Record: Sized {
    /// Words of one record.
    const WORDS: usize;

    /// Appends exactly [`Record::WORDS`] words.
    fn write(&self, words: &mut Vec<u64>);

    /// Reads what [`Record::write`] wrote.
    fn read(words: &[u64]) -> Self;
}

impl Record for u64 {
    const WORDS: usize = 1;

    fn write(&self, words: &mut Vec<u64>) {
        words.push(*self);
    }

    fn read(words: &[u64]) -> Self {
        words[0]
    }
}
