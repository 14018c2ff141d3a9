//! Cores that busy jobs share by weight, as the kernel shares them by `cpu.shares`:
//! in proportion to the weights, no job above its cap, and what one cannot use goes to
//! the others.
//!
//! Jobs of one class have the same weight and cap, hence always the same rate. So a
//! class needs one clock of the service each of its jobs has had, and a job is done when
//! that clock reaches the work it came with: an event costs O(classes + log jobs), however
//! many jobs are busy, and a change of weight costs no more.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use homeostat_core::{Persist, SimDuration, SimTime, Snapshot};

use crate::{Error, Record, Result};

/// A class of jobs on one processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassId(usize);

impl ClassId {
    /// Its number: classes are numbered as they are added.
    pub fn number(self) -> usize {
        self.0
    }
}

/// A job that is done.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished<J> {
    /// Its class.
    pub class: ClassId,
    /// The job.
    pub job: J,
}

/// Cores shared by weight. Time only moves forward: calls come with the present time.
#[derive(Debug, Clone)]
pub struct SharedProcessor<J> {
    cores: f64,
    now: SimTime,
    classes: Vec<Class<J>>,
    /// Classes by how much of the processor they need per weight to reach their cap.
    by_threshold: Vec<usize>,
    next: Option<(SimTime, ClassId)>,
    next_sequence: u64,
}

#[derive(Debug, Clone)]
struct Class<J> {
    weight: f64,
    cap: f64,
    /// Cores that each job has now.
    rate: f64,
    /// Core-nanoseconds that a job would have had, had it been here since the class was
    /// last empty.
    served: f64,
    jobs: BinaryHeap<Reverse<Busy<J>>>,
}

#[derive(Debug, Clone)]
struct Busy<J> {
    /// The class's clock when this job is done.
    done_at: f64,
    sequence: u64,
    job: J,
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

impl<J> SharedProcessor<J> {
    /// An idle processor with this many cores.
    pub fn new(cores: f64) -> Result<Self> {
        positive("number of cores", cores)?;
        Ok(Self {
            cores,
            now: SimTime::ZERO,
            classes: Vec::new(),
            by_threshold: Vec::new(),
            next: None,
            next_sequence: 0,
        })
    }

    /// Adds a class whose jobs have this weight and use at most `cap` cores each.
    pub fn add_class(&mut self, weight: f64, cap: f64) -> Result<ClassId> {
        positive("weight", weight)?;
        positive("cap", cap)?;
        let class = ClassId(self.classes.len());
        self.classes.push(Class { weight, cap, rate: 0.0, served: 0.0, jobs: BinaryHeap::new() });
        self.by_threshold.push(class.0);
        self.sort_thresholds();
        Ok(class)
    }

    /// Changes the weight of a class, of its running jobs too.
    pub fn set_weight(&mut self, now: SimTime, class: ClassId, weight: f64) -> Result<()> {
        positive("weight", weight)?;
        self.advance(now);
        self.classes[class.0].weight = weight;
        self.sort_thresholds();
        self.share();
        Ok(())
    }

    /// Changes the cap of a class, of its running jobs too.
    pub fn set_cap(&mut self, now: SimTime, class: ClassId, cap: f64) -> Result<()> {
        positive("cap", cap)?;
        self.advance(now);
        self.classes[class.0].cap = cap;
        self.sort_thresholds();
        self.share();
        Ok(())
    }

    /// Changes the number of cores, for example because contention costs some.
    pub fn set_cores(&mut self, now: SimTime, cores: f64) -> Result<()> {
        positive("number of cores", cores)?;
        self.advance(now);
        self.cores = cores;
        self.share();
        Ok(())
    }

    /// Starts a job that needs this much time of one core. Zero work is done at once, by
    /// the next call of [`SharedProcessor::finish`].
    pub fn start(&mut self, now: SimTime, class: ClassId, work: SimDuration, job: J) {
        self.advance(now);
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let class = &mut self.classes[class.0];
        if class.jobs.is_empty() {
            class.served = 0.0;
        }
        let done_at = class.served + work.nanos() as f64;
        class.jobs.push(Reverse(Busy { done_at, sequence, job }));
        self.share();
    }

    /// When the next job is done, if nothing changes until then.
    pub fn next_finish(&self) -> Option<SimTime> {
        self.next.map(|(at, _)| at)
    }

    /// Takes a job that is done by `now`. Several may be done at once: call until there is
    /// none.
    pub fn finish(&mut self, now: SimTime) -> Option<Finished<J>> {
        let (_, class) = self.next.filter(|(at, _)| *at <= now)?;
        self.advance(now);
        let Reverse(done) = self.classes[class.0].jobs.pop().expect("the next to finish is busy");
        self.share();
        Some(Finished { class, job: done.job })
    }

    /// Takes away every job of a class that `is_gone` names, done or not: time-outs and
    /// kills. Costs O(jobs of the class).
    pub fn remove(
        &mut self,
        now: SimTime,
        class: ClassId,
        mut is_gone: impl FnMut(&J) -> bool,
    ) -> Vec<J> {
        self.advance(now);
        let jobs = std::mem::take(&mut self.classes[class.0].jobs).into_vec();
        let (gone, kept): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|Reverse(busy)| is_gone(&busy.job));
        self.classes[class.0].jobs = kept.into();
        self.share();
        gone.into_iter().map(|Reverse(busy)| busy.job).collect()
    }

    /// Busy jobs of a class.
    pub fn busy(&self, class: ClassId) -> usize {
        self.classes[class.0].jobs.len()
    }

    /// Cores that each job of a class has now.
    pub fn rate(&self, class: ClassId) -> f64 {
        let class = &self.classes[class.0];
        if class.jobs.is_empty() { 0.0 } else { class.rate }
    }

    /// Cores in use.
    pub fn used(&self) -> f64 {
        self.classes.iter().map(|class| class.rate * class.jobs.len() as f64).sum()
    }

    /// Moves every class's clock to `now`.
    fn advance(&mut self, now: SimTime) {
        debug_assert!(now >= self.now, "time goes forward");
        let elapsed = now.saturating_since(self.now).nanos() as f64;
        self.now = self.now.max(now);
        if elapsed > 0.0 {
            for class in &mut self.classes {
                if !class.jobs.is_empty() {
                    class.served += class.rate * elapsed;
                }
            }
        }
    }

    /// Gives every class its rate, by filling up from the class that is content soonest,
    /// and finds the next job to finish.
    fn share(&mut self) {
        let mut left = self.cores;
        let mut weights: f64 =
            self.classes.iter().map(|class| class.weight * class.jobs.len() as f64).sum();
        self.next = None;
        for index in &self.by_threshold {
            let class = &mut self.classes[*index];
            let Some(Reverse(first)) = class.jobs.peek() else { continue };
            let busy = class.jobs.len() as f64;
            // Classes come in the order in which they reach their caps: once one does not,
            // none behind it does, and the same level holds for all of them.
            let level = left / weights;
            class.rate = if class.weight * level >= class.cap {
                left -= busy * class.cap;
                weights -= busy * class.weight;
                class.cap
            } else {
                class.weight * level
            };
            let wait = ((first.done_at - class.served).max(0.0) / class.rate).ceil();
            // Beyond the range of the clock the job simply never ends.
            let at = self.now + SimDuration::from_nanos(wait as u64);
            if self.next.is_none_or(|next| (at, *index) < (next.0, next.1.0)) {
                self.next = Some((at, ClassId(*index)));
            }
        }
    }

    fn sort_thresholds(&mut self) {
        let threshold = |index: &usize| self.classes[*index].cap / self.classes[*index].weight;
        self.by_threshold.sort_by(|a, b| threshold(a).total_cmp(&threshold(b)).then(a.cmp(b)));
    }
}

fn positive(what: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(Error::NotPositive { what, value }) }
}

impl<J: Record> Persist for SharedProcessor<J> {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let clock = [self.now.nanos(), self.next_sequence, self.classes.len() as u64];
        out.put_u64(&format!("{name}/clock"), clock);
        out.put_f64(&format!("{name}/cores"), [self.cores]);
        for (index, class) in self.classes.iter().enumerate() {
            let name = format!("{name}/class/{index}");
            out.put_f64(&name, [class.weight, class.cap, class.served]);
            let mut jobs: Vec<_> = class.jobs.iter().map(|Reverse(busy)| busy).collect();
            jobs.sort();
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
        let clock = from.u64s(&format!("{name}/clock"), 3)?;
        self.now = SimTime::from_nanos(clock[0]);
        self.next_sequence = clock[1];
        self.cores = from.f64s(&format!("{name}/cores"), 1)?[0];
        self.classes.clear();
        for index in 0..clock[2] as usize {
            let name = format!("{name}/class/{index}");
            let numbers = from.f64s(&name, 3)?;
            let done_at = from.any_f64s(&format!("{name}/done_at"))?;
            let words = from.u64s(&format!("{name}/jobs"), done_at.len() * (1 + J::WORDS))?;
            let records = words.chunks_exact(1 + J::WORDS);
            let jobs = done_at.iter().zip(records).map(|(done_at, record)| {
                Reverse(Busy { done_at: *done_at, sequence: record[0], job: J::read(&record[1..]) })
            });
            self.classes.push(Class {
                weight: numbers[0],
                cap: numbers[1],
                rate: 0.0,
                served: numbers[2],
                jobs: jobs.collect(),
            });
        }
        self.by_threshold = (0..self.classes.len()).collect();
        self.sort_thresholds();
        self.share();
        Ok(())
    }
}
