//! CPU, disks and network of a node are shared exactly: while a node has enough, lanes do not
//! affect each other; while it is short, each change divides it again.

use super::{CPU, DISK, Mesh, NETWORK};
use crate::lane::water_fill;

/// A sum of demands this close above a capacity is rounding, not contention.
const TOLERANCE: f64 = 1.0 + 1e-9;

impl Mesh {
    /// Starts a piece of work in a lane.
    pub(super) fn start_job(&mut self, lane: usize, work: f64, rpc: u32) {
        self.lanes[lane].advance(self.now);
        self.lanes[lane].push(work, rpc);
        self.after_change(lane);
    }

    /// Ends the piece of work that is due in a lane.
    pub(super) fn finish_job(&mut self, lane: usize) {
        self.lanes[lane].advance(self.now);
        let rpc = self.lanes[lane].pop().expect("a lane with a finish time has a job");
        self.after_change(lane);
        match lane % super::LANES {
            CPU => self.after_cpu(rpc),
            DISK => self.go_on(rpc),
            _ => self.after_send(rpc),
        }
    }

    /// Divides a group again after a change in one of its lanes, whose clock is at the present.
    pub(super) fn after_change(&mut self, number: usize) {
        let lane = &mut self.lanes[number];
        let demand = lane.demand();
        let group = &mut self.groups[lane.group as usize];
        group.want += demand - lane.want;
        lane.want = demand;
        let is_short = group.want > group.capacity * TOLERANCE;
        if is_short || group.is_short {
            let group = lane.group as usize;
            self.divide(group);
        } else {
            lane.set_rate(f64::INFINITY);
            self.finishes.set_or_clear(number, lane.next());
        }
    }

    /// Divides a group among its lanes, by their limits as weights.
    pub(super) fn divide(&mut self, number: usize) {
        let group = &mut self.groups[number];
        self.claims.clear();
        for lane in &group.lanes {
            let lane = &mut self.lanes[*lane as usize];
            lane.want = lane.demand();
            self.claims.push((lane.want, lane.limit()));
        }
        // Summed afresh, so that rounding errors do not add up.
        group.want = self.claims.iter().map(|(want, _)| want).sum();
        let was_short = group.is_short;
        group.is_short = group.want > group.capacity * TOLERANCE;
        if !group.is_short && !was_short {
            return;
        }
        water_fill(group.capacity, &self.claims, &mut self.grants);
        for (lane, grant) in group.lanes.iter().zip(&self.grants) {
            let share = if group.is_short { *grant } else { f64::INFINITY };
            let number = *lane as usize;
            let lane = &mut self.lanes[number];
            lane.advance(self.now);
            lane.set_rate(share);
            self.finishes.set_or_clear(number, lane.next());
        }
    }

    /// Adds a lane to a group, or takes it out.
    pub(super) fn leave_group(&mut self, lane: u32) {
        let group = self.lanes[lane as usize].group as usize;
        self.groups[group].lanes.retain(|other| *other != lane);
        self.finishes.clear(lane as usize);
        self.divide(group);
    }

    /// The lane of a resource of a replica.
    pub(super) fn lane(replica: u32, resource: usize) -> usize {
        debug_assert!(matches!(resource, CPU | DISK | NETWORK));
        replica as usize * super::LANES + resource
    }
}
