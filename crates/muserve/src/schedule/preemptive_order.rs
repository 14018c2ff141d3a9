//! Orders that look again while a request runs.

use super::LengthDistribution;

/// What is known of the length of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Expectation<'a> {
    /// Its true length: an oracle.
    Known(u32),
    /// The lengths of finished answers like it.
    Like(&'a LengthDistribution),
}

/// Which request runs, looked at again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreemptiveOrder {
    /// Shortest remaining length (SRPT): no order has a smaller mean completion time if lengths are known. With
    /// predictions, the tokens so far refine what is left (SERPT).
    ShortestRemaining,
    /// Shortest length, also against the one that runs (PSJF).
    ShortestFirst,
    /// Fewest tokens so far (LAS, also called foreground-background): needs no prediction.
    LeastAttained,
    /// Smallest Gittins rank: no order has a smaller mean completion time if only the distributions are known.
    Gittins,
}

impl PreemptiveOrder {
    /// The rank of a request after `done` tokens: the smallest runs.
    pub fn rank(self, expected: Expectation<'_>, done: u32) -> f64 {
        match (self, expected) {
            (Self::LeastAttained, _) => f64::from(done),
            (Self::ShortestFirst, Expectation::Known(tokens)) => f64::from(tokens),
            (Self::ShortestFirst, Expectation::Like(lengths)) => lengths.mean(),
            (_, Expectation::Known(tokens)) => f64::from(tokens.saturating_sub(done)),
            (Self::ShortestRemaining, Expectation::Like(lengths)) => lengths.mean_remaining(done),
            (Self::Gittins, Expectation::Like(lengths)) => lengths.gittins_rank(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_differ_in_what_they_make_of_the_tokens_so_far() {
        use PreemptiveOrder::{Gittins, LeastAttained, ShortestFirst, ShortestRemaining};
        // Half of the answers have 10 tokens, half 1000.
        let lengths: Vec<u32> = (0..100).map(|i| if i % 2 == 0 { 10 } else { 1000 }).collect();
        let lengths = LengthDistribution::of(&lengths).unwrap();
        let check = |order: PreemptiveOrder, known: f64, like: f64| {
            assert_eq!(order.rank(Expectation::Known(505), 10), known, "{order:?}");
            assert_eq!(order.rank(Expectation::Like(&lengths), 10), like, "{order:?}");
        };
        check(ShortestRemaining, 495.0, 990.0);
        check(ShortestFirst, 505.0, 505.0);
        check(LeastAttained, 10.0, 10.0);
        check(Gittins, 495.0, 990.0);
        assert_eq!(ShortestRemaining.rank(Expectation::Like(&lengths), 0), 505.0);
        assert_eq!(Gittins.rank(Expectation::Like(&lengths), 0), 20.0);
    }
}
