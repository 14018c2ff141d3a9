//! Generalised processor sharing: busy jobs share cores in proportion to their weights, as the
//! kernel shares them by `cpu.shares`. No job exceeds its cap, and capacity that one job cannot use
//! goes to the others. With a [`ContentionCost`], jobs of a kind need more CPU time for the same
//! work, the more of them are runnable.
//!
//! Jobs of one class have the same weight and cap, hence always the same rate. So each class has
//! one virtual clock of the service per job, and a job finishes when that clock reaches its work.
//! All classes of a kind that run at their caps share one clock, and all other classes of the kind
//! share a second one that counts service per weight. An event advances these clocks only and
//! costs O(busy classes + log jobs), with a few additions per busy class.

use homeostat_core::{Persist, SimDuration, SimTime, Snapshot};

use crate::jobs::{Busy, Jobs};
use crate::{Error, Record, Result};

/// A class of jobs on one processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassId(u32);

impl ClassId {
    /// Its number, in the order in which classes were added.
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

/// A job that finished.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished<J> {
    /// Its class.
    pub class: ClassId,
    /// The job.
    pub job: J,
}

/// Number of kinds of jobs; each kind has its own [`ContentionCost`].
pub const KINDS: usize = 4;

/// The cost of contention for the jobs of a kind, as extra CPU time for the same work.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ContentionCost {
    /// Extra time when all other cores are busy with jobs of the kind, in proportion to the number
    /// of such cores: memory bandwidth and shared caches.
    pub shared: f64,
    /// Extra time for each further set of runnable threads of any kind beyond the cores:
    /// context switches and cold caches.
    pub overload: f64,
}

/// Cores shared by weight. Time only moves forward: each call passes the present time.
#[derive(Debug, Clone)]
pub struct SharedProcessor<J> {
    cores: f64,
    now: SimTime,
    classes: Vec<Class<J>>,
    /// Busy classes, in no order, and their sums.
    busy: Vec<Share>,
    sums: Sums,
    /// Cores per weight that classes below their caps have now.
    level: f64,
    contention: [ContentionCost; KINDS],
    /// CPU time per work of each kind, one without contention, and its inverse.
    slowdowns: [f64; KINDS],
    speeds: [f64; KINDS],
    clocks: Clocks,
    next: Option<Next>,
    next_sequence: u64,
    /// A job has left and shares are not recomputed yet.
    is_behind: bool,
}

// Aligned to lie on two cache lines: an event touches one class of thousands on a platform.
#[derive(Debug, Clone)]
#[repr(align(32))]
struct Class<J> {
    weight: f64,
    cap: f64,
    /// Core-nanoseconds of service that a job would have had at `service_anchor`, had it been
    /// here since the class was last empty.
    served: f64,
    service_anchor: f64,
    /// Core-nanoseconds of CPU time that all its jobs had used at `usage_anchor`.
    used: f64,
    usage_anchor: f64,
    jobs: Jobs<J>,
    /// Place in `busy`, or [`NOWHERE`].
    place: u32,
    kind: u8,
}

/// The place of a class without jobs.
const NOWHERE: u32 = u32::MAX;

/// The part of a busy class that sharing reads, stored contiguously for one fast pass.
#[derive(Debug, Clone, Copy)]
struct Share {
    class: u32,
    kind: u8,
    is_capped: bool,
    /// Cores per weight at which the class reaches its cap.
    threshold: f64,
    /// Sum of its jobs' caps (the threads they can keep busy), and of their weights.
    threads: f64,
    pull: f64,
    /// When its first job finishes, on the class's service clock.
    finish: f64,
}

/// Integrals over time since the processor was last idle; classes compute their figures from them.
#[derive(Debug, Clone, Copy, Default)]
struct Clocks {
    /// CPU time of a core.
    core_usage: f64,
    /// CPU time per weight.
    level_usage: f64,
    /// Service of a core to each kind.
    core_service: [f64; KINDS],
    /// Service per weight to each kind.
    level_service: [f64; KINDS],
}

/// Sums over the busy classes. They are updated incrementally while all classes run at their caps
/// and recomputed otherwise, so that rounding errors do not accumulate.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    threads_of: [f64; KINDS],
    capped_cores: f64,
    /// Weights of the jobs below their caps.
    pulls: f64,
}

impl Sums {
    fn add(&mut self, share: &Share) {
        self.threads_of[usize::from(share.kind)] += share.threads;
        if share.is_capped {
            self.capped_cores += share.threads;
        } else {
            self.pulls += share.pull;
        }
    }

    fn take(&mut self, share: &Share) {
        self.threads_of[usize::from(share.kind)] -= share.threads;
        if share.is_capped {
            self.capped_cores -= share.threads;
        } else {
            self.pulls -= share.pull;
        }
    }
}

/// Busy classes that run at their caps, and those that do not.
#[derive(Debug, Clone, Copy, Default)]
struct Sides {
    sums: Sums,
    /// Threshold and index of the class nearest to the boundary, on either side.
    highest_capped: Option<(f64, u32)>,
    lowest_free: Option<(f64, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct Next {
    at: SimTime,
    place: u32,
}

impl<J> SharedProcessor<J> {
    /// An idle processor with this many cores.
    pub fn new(cores: f64) -> Result<Self> {
        positive("number of cores", cores)?;
        Ok(Self {
            cores,
            now: SimTime::ZERO,
            classes: Vec::new(),
            busy: Vec::new(),
            sums: Sums::default(),
            level: 0.0,
            contention: [ContentionCost::default(); KINDS],
            slowdowns: [1.0; KINDS],
            speeds: [1.0; KINDS],
            clocks: Clocks::default(),
            next: None,
            next_sequence: 0,
            is_behind: false,
        })
    }

    /// Adds a class of kind 0. Each of its jobs has this weight and uses at most `cap` cores.
    pub fn add_class(&mut self, weight: f64, cap: f64) -> Result<ClassId> {
        self.add_class_of_kind(weight, cap, 0)
    }

    /// Adds a class of a kind, counted from zero.
    pub fn add_class_of_kind(&mut self, weight: f64, cap: f64, kind: usize) -> Result<ClassId> {
        positive("weight", weight)?;
        positive("cap", cap)?;
        if kind >= KINDS {
            return Err(Error::NoSuchKind { kind });
        }
        let class = ClassId(self.classes.len() as u32);
        self.classes.push(Class {
            weight,
            cap,
            kind: kind as u8,
            served: 0.0,
            service_anchor: 0.0,
            used: 0.0,
            usage_anchor: 0.0,
            place: NOWHERE,
            jobs: Jobs::default(),
        });
        Ok(class)
    }

    /// The class with this number, if there is one.
    pub fn class(&self, number: u64) -> Option<ClassId> {
        u32::try_from(number).ok().map(ClassId).filter(|class| class.number() < self.classes.len())
    }

    /// Changes the weight of a class, of its running jobs too.
    pub fn set_weight(&mut self, now: SimTime, class: ClassId, weight: f64) -> Result<()> {
        positive("weight", weight)?;
        self.change(now, class, |class| class.weight = weight);
        Ok(())
    }

    /// Changes the cap of a class, of its running jobs too.
    pub fn set_cap(&mut self, now: SimTime, class: ClassId, cap: f64) -> Result<()> {
        positive("cap", cap)?;
        self.change(now, class, |class| class.cap = cap);
        Ok(())
    }

    /// Changes the contention cost of each kind.
    pub fn set_contention(
        &mut self,
        now: SimTime,
        contention: [ContentionCost; KINDS],
    ) -> Result<()> {
        for cost in contention {
            for (what, value) in [
                ("shared contention cost", cost.shared),
                ("overload contention cost", cost.overload),
            ] {
                if !value.is_finite() || value < 0.0 {
                    return Err(Error::Negative { what, value });
                }
            }
        }
        self.advance(now);
        self.contention = contention;
        self.share();
        Ok(())
    }

    /// Changes the number of cores.
    pub fn set_cores(&mut self, now: SimTime, cores: f64) -> Result<()> {
        positive("number of cores", cores)?;
        self.advance(now);
        self.cores = cores;
        self.share();
        Ok(())
    }

    /// Starts a job that needs this much time of one core. A job without work finishes in the next
    /// call of [`SharedProcessor::finish`].
    pub fn start(&mut self, now: SimTime, class: ClassId, work: SimDuration, job: J) {
        self.advance(now);
        if self.classes[class.number()].place == NOWHERE {
            self.classes[class.number()].served = 0.0;
            self.enter(class.number());
        } else {
            self.settle(class.number());
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let class = &mut self.classes[class.number()];
        let done_at = class.served + work.nanos() as f64;
        class.jobs.push(Busy { done_at, sequence, job });
        let place = class.place;
        self.refresh(place);
        self.share();
    }

    /// When the next job finishes, if nothing changes until then.
    pub fn next_finish(&self) -> Option<SimTime> {
        self.next.map(|next| next.at)
    }

    /// Removes a job that has finished by `now`. Several may finish at once: call until none is
    /// returned.
    pub fn finish(&mut self, now: SimTime) -> Option<Finished<J>> {
        let finished = self.finish_and_wait(now);
        self.catch_up();
        finished
    }

    /// [`SharedProcessor::finish`] for callers that probably start another job at the same
    /// instant: shares are recomputed then, or by [`SharedProcessor::catch_up`], which must be
    /// called before time advances.
    pub fn finish_and_wait(&mut self, now: SimTime) -> Option<Finished<J>> {
        let next = self.next.filter(|next| next.at <= now)?;
        self.advance(now);
        let class = ClassId(self.busy[next.place as usize].class);
        self.settle(class.number());
        let jobs = &mut self.classes[class.number()].jobs;
        let done = jobs.pop().expect("the next to finish is busy");
        self.leave_or_refresh(next.place);
        self.is_behind = true;
        Some(Finished { class, job: done.job })
    }

    /// Recomputes shares after [`SharedProcessor::finish_and_wait`], if no other call has.
    pub fn catch_up(&mut self) {
        if self.is_behind {
            self.share();
        }
    }

    /// Removes the jobs of a class for which `is_gone` holds, finished or not (time-outs, kills).
    /// Costs O(jobs of the class).
    pub fn remove(
        &mut self,
        now: SimTime,
        class: ClassId,
        is_gone: impl FnMut(&J) -> bool,
    ) -> Vec<J> {
        self.advance(now);
        let place = self.classes[class.number()].place;
        if place == NOWHERE {
            return Vec::new();
        }
        self.settle(class.number());
        let gone = self.classes[class.number()].jobs.extract(is_gone);
        self.leave_or_refresh(place);
        self.share();
        gone
    }

    /// Busy jobs of a class.
    pub fn busy(&self, class: ClassId) -> usize {
        self.classes[class.number()].jobs.len()
    }

    /// Cores that each job of a class has now.
    pub fn rate(&self, class: ClassId) -> f64 {
        let class = &self.classes[class.number()];
        match class.place {
            NOWHERE => 0.0,
            place if self.busy[place as usize].is_capped => class.cap,
            _ => class.weight * self.level,
        }
    }

    /// Cores in use.
    pub fn used(&self) -> f64 {
        let cores = |share: &Share| {
            if share.is_capped { share.threads } else { share.pull * self.level }
        };
        // The sum of an empty iterator is minus zero.
        self.busy.iter().map(cores).fold(0.0, |sum, cores| sum + cores)
    }

    /// Work that jobs of a class do per CPU time now: one without contention, less with it.
    pub fn speed(&self, class: ClassId) -> f64 {
        self.speeds[usize::from(self.classes[class.number()].kind)]
    }

    /// Core-nanoseconds of CPU time that a class has used since it was added.
    pub fn cpu_time(&mut self, now: SimTime, class: ClassId) -> f64 {
        self.advance(now);
        if self.classes[class.number()].place != NOWHERE {
            self.settle(class.number());
        }
        self.classes[class.number()].used
    }

    /// Advances the clocks to `now`.
    fn advance(&mut self, now: SimTime) {
        debug_assert!(now >= self.now, "time goes forward");
        let elapsed = now.saturating_since(self.now).nanos() as f64;
        debug_assert!(!self.is_behind || elapsed == 0.0, "shares are divided before time goes on");
        self.now = self.now.max(now);
        let level_elapsed = elapsed * self.level;
        self.clocks.core_usage += elapsed;
        self.clocks.level_usage += level_elapsed;
        for (kind, speed) in self.speeds.iter().enumerate() {
            self.clocks.core_service[kind] += elapsed * speed;
            self.clocks.level_service[kind] += level_elapsed * speed;
        }
    }

    /// Brings the figures of a busy class up to date.
    fn settle(&mut self, class: usize) {
        let class = &mut self.classes[class];
        let kind = usize::from(class.kind);
        let (service, usage, rate) = if self.busy[class.place as usize].is_capped {
            (self.clocks.core_service[kind], self.clocks.core_usage, class.cap)
        } else {
            (self.clocks.level_service[kind], self.clocks.level_usage, class.weight)
        };
        class.served += rate * (service - class.service_anchor);
        class.used += rate * (usage - class.usage_anchor) * class.jobs.len() as f64;
        (class.service_anchor, class.usage_anchor) = (service, usage);
    }

    /// Sets a busy class's anchors to the clocks of its side (capped or not), after a move.
    fn anchor(&mut self, place: u32) {
        let share = &self.busy[place as usize];
        let class = &mut self.classes[share.class as usize];
        let kind = usize::from(class.kind);
        (class.service_anchor, class.usage_anchor) = if share.is_capped {
            (self.clocks.core_service[kind], self.clocks.core_usage)
        } else {
            (self.clocks.level_service[kind], self.clocks.level_usage)
        };
    }

    /// Adds a class to the busy ones, at its cap until shares are recomputed.
    fn enter(&mut self, number: usize) {
        let place = self.busy.len() as u32;
        let class = &mut self.classes[number];
        class.place = place;
        self.busy.push(Share {
            class: number as u32,
            kind: class.kind,
            is_capped: true,
            threshold: class.cap / class.weight,
            threads: 0.0,
            pull: 0.0,
            finish: f64::INFINITY,
        });
        self.anchor(place);
    }

    /// Removes a class from the busy ones.
    fn leave(&mut self, place: u32) {
        let gone = self.busy.swap_remove(place as usize);
        self.sums.take(&gone);
        self.classes[gone.class as usize].place = NOWHERE;
        if let Some(moved) = self.busy.get(place as usize) {
            self.classes[moved.class as usize].place = place;
        }
    }

    fn leave_or_refresh(&mut self, place: u32) {
        if self.classes[self.busy[place as usize].class as usize].jobs.is_empty() {
            self.leave(place);
        } else {
            self.refresh(place);
        }
    }

    /// Updates the count and the first finish of a busy class.
    fn refresh(&mut self, place: u32) {
        let share = &mut self.busy[place as usize];
        let class = &self.classes[share.class as usize];
        let count = class.jobs.len() as f64;
        self.sums.take(share);
        (share.threads, share.pull) = (count * class.cap, count * class.weight);
        self.sums.add(share);
        let rate = if share.is_capped { class.cap } else { class.weight };
        let Some(first) = class.jobs.first() else { return };
        share.finish = class.service_anchor + (first.done_at - class.served).max(0.0) / rate;
    }

    /// Changes a class, busy or not.
    fn change(&mut self, now: SimTime, class: ClassId, change: impl FnOnce(&mut Class<J>)) {
        self.advance(now);
        let place = self.classes[class.number()].place;
        if place == NOWHERE {
            return change(&mut self.classes[class.number()]);
        }
        self.settle(class.number());
        self.leave(place);
        change(&mut self.classes[class.number()]);
        self.enter(class.number());
        self.refresh(self.classes[class.number()].place);
        self.share();
    }

    /// Moves one class between the capped ones and the others.
    fn move_over(&mut self, place: u32) {
        self.settle(self.busy[place as usize].class as usize);
        let share = &mut self.busy[place as usize];
        share.is_capped = !share.is_capped;
        self.anchor(place);
        self.refresh(place);
    }

    /// Finds the classes that run at their caps, the level of the others, the contention costs,
    /// and the next job to finish.
    fn share(&mut self) {
        self.is_behind = false;
        if self.busy.is_empty() {
            (self.level, self.clocks, self.next) = (0.0, Clocks::default(), None);
            self.sums = Sums::default();
            return;
        }
        let everybody_has_its_cap = self.sums.pulls == 0.0 && self.sums.capped_cores <= self.cores;
        if !everybody_has_its_cap {
            self.divide();
        }
        self.slow_down();
        self.find_next();
    }

    /// Finds the classes that run at their caps, and the level of the others.
    fn divide(&mut self) {
        let mut sides = self.look();
        // Classes that no longer reach their caps leave that side, the highest threshold first;
        // then classes that now reach theirs join it, the lowest threshold first. Each move only
        // raises the level, so that no class ends on the wrong side.
        while let Some((threshold, place)) = sides.highest_capped {
            // With no class below its cap, the caps together may exceed the cores already.
            let is_content = match sides.lowest_free {
                None => sides.sums.capped_cores <= self.cores,
                Some(_) => self.cores - sides.sums.capped_cores >= threshold * sides.sums.pulls,
            };
            if is_content {
                break;
            }
            self.move_over(place);
            sides = self.look();
        }
        self.level = 0.0;
        while let Some((threshold, place)) = sides.lowest_free {
            self.level = (self.cores - sides.sums.capped_cores) / sides.sums.pulls;
            if self.level < threshold {
                break;
            }
            self.level = 0.0;
            self.move_over(place);
            sides = self.look();
        }
        self.sums = sides.sums;
    }

    /// Adds up both sides.
    fn look(&self) -> Sides {
        let mut sides = Sides::default();
        for (place, share) in (0u32..).zip(&self.busy) {
            sides.sums.add(share);
            if share.is_capped {
                if sides.highest_capped.is_none_or(|(highest, _)| share.threshold > highest) {
                    sides.highest_capped = Some((share.threshold, place));
                }
            } else {
                if sides.lowest_free.is_none_or(|(lowest, _)| share.threshold < lowest) {
                    sides.lowest_free = Some((share.threshold, place));
                }
            }
        }
        sides
    }

    /// The contention cost of each kind that has busy jobs; the clocks of other kinds are unused.
    fn slow_down(&mut self) {
        let threads_of = self.sums.threads_of;
        let threads: f64 = threads_of.iter().sum();
        // A job that runs alone shares nothing; on a single core no job runs beside another.
        let others = (threads.min(self.cores) - 1.0).max(0.0);
        let beside = if others > 0.0 { others / ((self.cores - 1.0) * threads) } else { 0.0 };
        let over = (threads / self.cores - 1.0).max(0.0);
        for (kind, cost) in self.contention.iter().enumerate() {
            if threads_of[kind] > 0.0 {
                let alike = beside * threads_of[kind];
                self.slowdowns[kind] = 1.0 + cost.shared * alike + cost.overload * over;
                self.speeds[kind] = 1.0 / self.slowdowns[kind];
            }
        }
    }

    fn find_next(&mut self) {
        let per_level = 1.0 / self.level;
        let (mut wait, mut next) = (f64::INFINITY, 0);
        for (place, share) in (0u32..).zip(&self.busy) {
            let kind = usize::from(share.kind);
            let slowdown = self.slowdowns[kind];
            let needed = if share.is_capped {
                (share.finish - self.clocks.core_service[kind]) * slowdown
            } else {
                (share.finish - self.clocks.level_service[kind]) * slowdown * per_level
            };
            if needed < wait {
                (wait, next) = (needed, place);
            }
        }
        // Beyond the range of the clock the job never finishes.
        let at = self.now + SimDuration::from_nanos(wait.max(0.0).ceil() as u64);
        self.next = Some(Next { at, place: next });
    }
}

fn positive(what: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(Error::NotPositive { what, value }) }
}

impl<J: Record> Persist for SharedProcessor<J> {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let counts = [self.next_sequence, self.classes.len() as u64];
        out.put_u64(&format!("{name}/counts"), counts);
        let busy =
            self.busy.iter().flat_map(|share| [share.class.into(), u64::from(share.is_capped)]);
        out.put_u64(&format!("{name}/busy"), busy.collect::<Vec<_>>());
        let Sums { threads_of, capped_cores, pulls } = self.sums;
        let sums = [[capped_cores, pulls].as_slice(), &threads_of].concat();
        out.put_f64(&format!("{name}/sums"), sums);
        out.put_u64(&format!("{name}/now"), [self.now.nanos()]);
        let Clocks { core_usage, level_usage, core_service, level_service } = self.clocks;
        let clocks = [[core_usage, level_usage].as_slice(), &core_service, &level_service].concat();
        out.put_f64(&format!("{name}/clocks"), clocks);
        let contention = self.contention.iter().flat_map(|cost| [cost.shared, cost.overload]);
        out.put_f64(&format!("{name}/strains"), contention.collect::<Vec<_>>());
        // Derived values are saved too: recomputed in another order they would round differently.
        let rates = [[self.cores, self.level].as_slice(), &self.slowdowns, &self.speeds].concat();
        out.put_f64(&format!("{name}/rates"), rates);
        let finishes: Vec<f64> = self.busy.iter().map(|share| share.finish).collect();
        out.put_f64(&format!("{name}/finishes"), finishes);
        let next = self.next.map(|next| vec![next.at.nanos(), next.place.into()]);
        out.put_u64(&format!("{name}/next"), next.unwrap_or_default());
        for (index, class) in self.classes.iter().enumerate() {
            let name = format!("{name}/class/{index}");
            let anchors = [class.service_anchor, class.usage_anchor];
            let kind = f64::from(class.kind);
            let numbers = [class.weight, class.cap, kind, class.served, class.used];
            out.put_f64(&name, [numbers.as_slice(), &anchors].concat());
            let jobs = class.jobs.ordered();
            let done_at: Vec<f64> = jobs.iter().map(|busy| busy.done_at).collect();
            out.put_f64(&format!("{name}/done_at"), done_at);
            let mut words = Vec::new();
            for busy in jobs {
                words.push(busy.sequence);
                busy.job.write(&mut words);
            }
            out.put_u64(&format!("{name}/jobs"), words);
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let counts = from.u64s(&format!("{name}/counts"), 2)?;
        let clocks = from.f64s(&format!("{name}/clocks"), 2 + 2 * KINDS)?;
        let rates = from.f64s(&format!("{name}/rates"), 2 + 2 * KINDS)?;
        let contention = from.f64s(&format!("{name}/strains"), 2 * KINDS)?;
        *self = Self::new(1.0).expect("one core is a processor");
        self.now = SimTime::from_nanos(from.u64s(&format!("{name}/now"), 1)?[0]);
        self.next_sequence = counts[0];
        for index in 0..counts[1] as usize {
            let name = format!("{name}/class/{index}");
            let numbers = from.f64s(&name, 7)?;
            let done_at = from.any_f64s(&format!("{name}/done_at"))?;
            let words = from.u64s(&format!("{name}/jobs"), done_at.len() * (1 + J::WORDS))?;
            let records = words.chunks_exact(1 + J::WORDS);
            let jobs = done_at.iter().zip(records).map(|(done_at, record)| Busy {
                done_at: *done_at,
                sequence: record[0],
                job: J::read(&record[1..]),
            });
            self.classes.push(Class {
                weight: numbers[0],
                cap: numbers[1],
                kind: (numbers[2] as usize).min(KINDS - 1) as u8,
                served: 0.0,
                service_anchor: 0.0,
                used: numbers[4],
                usage_anchor: 0.0,
                place: NOWHERE,
                jobs: jobs.collect(),
            });
            let class = &mut self.classes[index];
            class.served = numbers[3];
            [class.service_anchor, class.usage_anchor] = [numbers[5], numbers[6]];
        }
        for share in from.any_u64s(&format!("{name}/busy"))?.chunks_exact(2) {
            let class = (share[0] as usize).min(self.classes.len().saturating_sub(1));
            if self.classes.get(class).is_none_or(|class| class.jobs.is_empty()) {
                continue;
            }
            let Class { service_anchor, usage_anchor, .. } = self.classes[class];
            self.enter(class);
            let own = &mut self.classes[class];
            (own.service_anchor, own.usage_anchor) = (service_anchor, usage_anchor);
            self.busy[own.place as usize].is_capped = share[1] != 0;
        }
        let kinds = |numbers: &[f64]| std::array::from_fn(|kind| numbers[kind]);
        self.clocks = Clocks {
            core_usage: clocks[0],
            level_usage: clocks[1],
            core_service: kinds(&clocks[2..]),
            level_service: kinds(&clocks[2 + KINDS..]),
        };
        [self.cores, self.level] = [rates[0], rates[1]];
        self.slowdowns = kinds(&rates[2..]);
        self.speeds = kinds(&rates[2 + KINDS..]);
        self.contention = std::array::from_fn(|kind| ContentionCost {
            shared: contention[2 * kind],
            overload: contention[2 * kind + 1],
        });
        let finishes = from.f64s(&format!("{name}/finishes"), self.busy.len())?;
        for (place, finish) in (0u32..).zip(finishes) {
            self.refresh(place);
            self.busy[place as usize].finish = *finish;
        }
        let sums = from.f64s(&format!("{name}/sums"), 2 + KINDS)?;
        self.sums = Sums { capped_cores: sums[0], pulls: sums[1], threads_of: kinds(&sums[2..]) };
        let next = from.any_u64s(&format!("{name}/next"))?.first_chunk::<2>();
        self.next = next
            .map(|[at, place]| Next { at: SimTime::from_nanos(*at), place: *place as u32 })
            .filter(|next| (next.place as usize) < self.busy.len());
        Ok(())
    }
}
