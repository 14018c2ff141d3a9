//! One resource of one replica as a processor-sharing queue in virtual time: the jobs of a lane always run
//! at the same rate, so one clock of service per lane serves all of them, and an event costs O(log jobs).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use homeostat_core::{SimDuration, SimTime};

/// Jobs that share a limited resource. Amounts are core-nanoseconds or bytes; rates are per nanosecond.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    /// The group (one resource of one node) that it takes part in.
    pub(crate) group: u32,
    /// The most that all jobs and stressors get.
    limit: f64,
    /// The most that one job gets.
    job_cap: f64,
    /// What a stressor inside the replica wants, and as how many jobs it competes.
    stress: f64,
    stress_jobs: f64,
    /// What the group grants while it is short.
    share: f64,
    /// What was wanted of the group when shares were last made.
    pub(crate) want: f64,
    /// Amount that must be used for one amount of work.
    slowdown: f64,
    rate: f64,
    job_use: f64,
    stress_use: f64,
    /// Work done for each job since the lane was last empty.
    clock: f64,
    anchor: SimTime,
    /// Used by jobs, and by jobs and stressors, ever.
    job_used: f64,
    used: f64,
    jobs: BinaryHeap<Reverse<(u64, u64, u32)>>,
    sequence: u64,
    next: Option<SimTime>,
}

impl Lane {
    pub(crate) fn new(group: u32, limit: f64, job_cap: f64) -> Self {
        Self {
            group,
            limit,
            job_cap,
            stress: 0.0,
            stress_jobs: 0.0,
            share: f64::INFINITY,
            want: 0.0,
            slowdown: 1.0,
            rate: 0.0,
            job_use: 0.0,
            stress_use: 0.0,
            clock: 0.0,
            anchor: SimTime::ZERO,
            job_used: 0.0,
            used: 0.0,
            jobs: BinaryHeap::new(),
            sequence: 0,
            next: None,
        }
    }

    /// Brings the clock to `now`.
    #[inline]
    pub(crate) fn advance(&mut self, now: SimTime) {
        let elapsed = now.saturating_since(self.anchor).nanos() as f64;
        self.anchor = now;
        self.clock += elapsed * self.rate;
        self.job_used += elapsed * self.job_use;
        self.used += elapsed * (self.job_use + self.stress_use);
    }

    /// Adds a job; the clock must be at the present.
    #[inline]
    pub(crate) fn push(&mut self, work: f64, job: u32) {
        if self.jobs.is_empty() {
            self.clock = 0.0;
        }
        // Positive floats are ordered as their bits.
        self.jobs.push(Reverse(((self.clock + work).to_bits(), self.sequence, job)));
        self.sequence += 1;
    }

    /// Removes the job that is due; the clock must be at the present.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.jobs.pop().map(|Reverse((_, _, job))| job)
    }

    /// What it would use now if its group had enough.
    #[inline]
    pub(crate) fn demand(&self) -> f64 {
        let jobs = self.jobs.len() as f64;
        let wanted = if jobs == 0.0 { self.stress } else { jobs * self.job_cap + self.stress };
        wanted.min(self.limit)
    }

    /// Divides what it has among jobs and stressor.
    #[inline]
    pub(crate) fn set_rate(&mut self, share: f64) {
        self.share = share;
        let total = self.limit.min(share);
        let jobs = self.jobs.len() as f64;
        self.stress_use = match (self.stress, jobs) {
            (0.0, _) => 0.0,
            (stress, 0.0) => stress.min(total),
            (stress, jobs) => {
                let fair = total * self.stress_jobs / (jobs + self.stress_jobs);
                stress.min(fair.max(total - jobs * self.job_cap))
            }
        };
        if jobs == 0.0 {
            (self.rate, self.job_use, self.next) = (0.0, 0.0, None);
            return;
        }
        let each = self.job_cap.min((total - self.stress_use) / jobs);
        self.job_use = each * jobs;
        self.rate = each / self.slowdown;
        let Some(Reverse((finish, _, _))) = self.jobs.peek() else { return };
        let left = (f64::from_bits(*finish) - self.clock).max(0.0) / self.rate;
        self.next = Some(self.anchor + SimDuration::from_nanos(left.ceil() as u64));
    }

    /// When the next job finishes.
    #[inline]
    pub(crate) fn next(&self) -> Option<SimTime> {
        self.next
    }

    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    pub(crate) fn limit(&self) -> f64 {
        self.limit
    }

    pub(crate) fn set_limit(&mut self, limit: f64) {
        self.limit = limit;
    }

    pub(crate) fn set_stress(&mut self, wanted: f64, jobs: f64) {
        (self.stress, self.stress_jobs) = (wanted, jobs);
    }

    pub(crate) fn slowdown(&self) -> f64 {
        self.slowdown
    }

    pub(crate) fn set_slowdown(&mut self, slowdown: f64) {
        self.slowdown = slowdown;
    }

    /// The amount that jobs have used.
    pub(crate) fn job_used(&self) -> f64 {
        self.job_used
    }

    /// The amount that jobs and stressors have used.
    pub(crate) fn used(&self) -> f64 {
        self.used
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }
}

/// One resource of one node, and the lanes that share it.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) capacity: f64,
    pub(crate) want: f64,
    pub(crate) is_short: bool,
    pub(crate) lanes: Vec<u32>,
}

impl Group {
    pub(crate) fn new(capacity: f64) -> Self {
        Self { capacity, want: 0.0, is_short: false, lanes: Vec::new() }
    }
}

/// Divides a capacity among claims `(want, weight)` in proportion to their weights; what one does not want goes
/// to the others. The result is in the order of the claims.
pub(crate) fn water_fill(capacity: f64, claims: &[(f64, f64)], grants: &mut Vec<f64>) {
    grants.clear();
    if claims.iter().map(|(want, _)| want).sum::<f64>() <= capacity {
        grants.extend(claims.iter().map(|(want, _)| *want));
        return;
    }
    grants.resize(claims.len(), f64::NAN);
    let (mut left, mut weights) = (capacity, claims.iter().map(|(_, weight)| weight).sum::<f64>());
    loop {
        let level = (left / weights).max(0.0);
        let mut is_done = true;
        for ((want, weight), grant) in claims.iter().zip(grants.iter_mut()) {
            if grant.is_nan() && *want <= level * weight {
                *grant = *want;
                left -= want;
                weights -= weight;
                is_done = false;
            }
        }
        if is_done {
            for ((_, weight), grant) in claims.iter().zip(grants.iter_mut()) {
                if grant.is_nan() {
                    *grant = level * weight;
                }
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: u64) -> SimTime {
        SimTime::from_nanos(nanos)
    }

    #[test]
    fn a_stressor_takes_its_fair_share_and_leaves_what_it_does_not_want() {
        let mut lane = Lane::new(0, 2.0, 1.0);
        lane.set_stress(4.0, 4.0);
        lane.push(100.0, 7);
        lane.set_rate(f64::INFINITY);
        // One job and four threads on two cores.
        assert!((lane.job_use - 0.4).abs() < 1e-12);
        lane.set_stress(0.5, 0.5);
        lane.set_rate(f64::INFINITY);
        assert_eq!((lane.job_use, lane.stress_use, lane.next()), (1.0, 0.5, Some(at(100))));
    }

    #[test]
    fn jobs_share_a_lane_and_finish_in_order_of_work() {
        let mut lane = Lane::new(0, 1.0, 1.0);
        lane.push(30.0, 1);
        lane.push(10.0, 2);
        lane.set_rate(f64::INFINITY);
        assert_eq!(lane.next(), Some(at(20)));
        lane.advance(at(20));
        assert_eq!(lane.pop(), Some(2));
        lane.set_rate(f64::INFINITY);
        assert_eq!(lane.next(), Some(at(40)));
        lane.advance(at(40));
        assert_eq!((lane.pop(), lane.used()), (Some(1), 40.0));
    }

    proptest! {
        #[test]
        fn a_division_gives_no_more_than_there_is_nor_than_is_wanted_and_wastes_nothing(
            capacity in 0.1f64..100.0,
            claims in prop::collection::vec((0.0f64..50.0, 0.1f64..10.0), 1..12),
        ) {
            let mut grants = Vec::new();
            water_fill(capacity, &claims, &mut grants);
            let total: f64 = grants.iter().sum();
            let wanted: f64 = claims.iter().map(|(want, _)| want).sum();
            prop_assert!(total <= capacity.min(wanted) + 1e-9);
            prop_assert!(total >= capacity.min(wanted) - 1e-9);
            for ((want, _), grant) in claims.iter().zip(&grants) {
                prop_assert!((0.0..=want + 1e-12).contains(grant));
            }
        }
    }
}
