//! The jobs of one class of a processor, in the order in which they finish.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A job with the reading of its class's clock at which it finishes.
#[derive(Debug, Clone)]
pub(crate) struct Busy<J> {
    pub(crate) done_at: f64,
    pub(crate) sequence: u64,
    pub(crate) job: J,
}

impl<J> PartialEq for Busy<J> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<J> Eq for Busy<J> {}

impl<J> PartialOrd for Busy<J> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<J> Ord for Busy<J> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.done_at.total_cmp(&other.done_at).then(self.sequence.cmp(&other.sequence))
    }
}

/// A queue that stores its first job inline: most classes have one job at a time, which then costs
/// no further memory access.
#[derive(Debug, Clone)]
pub(crate) struct Jobs<J> {
    first: Option<Busy<J>>,
    later: Option<Box<Later<J>>>,
    count: u32,
}

#[derive(Debug, Clone)]
struct Later<J>(BinaryHeap<Reverse<Busy<J>>>);

impl<J> Default for Jobs<J> {
    fn default() -> Self {
        Self { first: None, later: None, count: 0 }
    }
}

impl<J> Jobs<J> {
    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn first(&self) -> Option<&Busy<J>> {
        self.first.as_ref()
    }

    pub(crate) fn push(&mut self, busy: Busy<J>) {
        self.count += 1;
        let later = match &mut self.first {
            None => return self.first = Some(busy),
            Some(first) if busy < *first => std::mem::replace(first, busy),
            Some(_) => busy,
        };
        let others = self.later.get_or_insert_with(|| Box::new(Later(BinaryHeap::new())));
        others.0.push(Reverse(later));
    }

    pub(crate) fn pop(&mut self) -> Option<Busy<J>> {
        let first = self.first.take()?;
        self.count -= 1;
        if self.count > 0 {
            let later = self.later.as_mut().and_then(|later| later.0.pop());
            self.first = later.map(|Reverse(next)| next);
        }
        Some(first)
    }

    /// Removes the jobs for which `is_gone` holds.
    pub(crate) fn extract(&mut self, mut is_gone: impl FnMut(&J) -> bool) -> Vec<J> {
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(self).into_iter().partition(|busy| is_gone(&busy.job));
        *self = kept.into_iter().collect();
        gone.into_iter().map(|busy| busy.job).collect()
    }

    /// All jobs in the order in which they finish.
    pub(crate) fn ordered(&self) -> Vec<&Busy<J>> {
        let later = self.later.iter().flat_map(|later| later.0.iter().map(|Reverse(busy)| busy));
        let mut jobs: Vec<_> = self.first.iter().chain(later).collect();
        jobs.sort();
        jobs
    }

    fn into_iter(self) -> impl Iterator<Item = Busy<J>> {
        let later = self.later.into_iter().flat_map(|later| later.0.into_vec());
        self.first.into_iter().chain(later.map(|Reverse(busy)| busy))
    }
}

impl<J> FromIterator<Busy<J>> for Jobs<J> {
    fn from_iter<I: IntoIterator<Item = Busy<J>>>(busy: I) -> Self {
        let mut jobs = Self::default();
        busy.into_iter().for_each(|busy| jobs.push(busy));
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn jobs_leave_in_the_order_of_a_sorted_list(
            calls in prop::collection::vec(prop::option::of(0u32..6), 1..120), gone in 0u64..9,
        ) {
            let mut jobs = Jobs::default();
            let mut expect: Vec<Busy<u64>> = Vec::new();
            for (sequence, call) in (0u64..).zip(calls) {
                match call {
                    Some(done_at) => {
                        // Few different times, so that the sequence decides often.
                        let busy = Busy { done_at: f64::from(done_at), sequence, job: sequence };
                        jobs.push(busy.clone());
                        expect.push(busy);
                    }
                    None => {
                        expect.sort();
                        let first = (!expect.is_empty()).then(|| expect.remove(0));
                        prop_assert_eq!(jobs.first(), first.as_ref());
                        prop_assert_eq!(jobs.pop(), first);
                    }
                }
                prop_assert_eq!((jobs.len(), jobs.is_empty()), (expect.len(), expect.is_empty()));
            }
            let is_gone = |job: &u64| job % 9 == gone;
            let mut removed = jobs.extract(is_gone);
            removed.sort();
            let expect_gone = expect.iter().map(|busy| busy.job).filter(is_gone).collect::<Vec<_>>();
            expect.retain(|busy| !is_gone(&busy.job));
            expect.sort();
            prop_assert_eq!(removed.len(), expect_gone.len());
            prop_assert_eq!(jobs.ordered(), expect.iter().collect::<Vec<_>>());
        }
    }
}
