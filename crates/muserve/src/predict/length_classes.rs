//! Five ordinal classes of lengths: up to the quartiles and the 99th percentile of a model.

use crate::{Error, Result};

/// The limits of a model's classes.
#[derive(Debug, Clone, PartialEq)]
pub struct LengthClasses {
    limits: [u32; 4],
}

impl LengthClasses {
    /// How many classes there are.
    pub const COUNT: usize = 5;

    /// The classes of a model with these answers.
    pub fn of(lengths: &[u32]) -> Result<Self> {
        let what = "answers of a model";
        if lengths.is_empty() {
            return Err(Error::TooFew { what, found: 0, least: 1 });
        }
        let mut sorted = lengths.to_vec();
        sorted.sort_unstable();
        let at = |percent: usize| sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)];
        Ok(Self { limits: [at(25), at(50), at(75), at(99)] })
    }

    /// The class of a length, 0 to 4.
    pub fn class(&self, tokens: u32) -> usize {
        self.limits.partition_point(|limit| *limit <= tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_a_quarter_each_and_the_longest_hundredth() {
        let lengths: Vec<u32> = (0..1000).collect();
        let classes = LengthClasses::of(&lengths).unwrap();
        let mut counts = [0; LengthClasses::COUNT];
        lengths.iter().for_each(|length| counts[classes.class(*length)] += 1);
        assert_eq!(counts, [250, 250, 250, 240, 10]);
        assert!(LengthClasses::of(&[]).is_err());
    }
}
