//! The requests to come, sorted ahead of time.
//!
//! When requests come depends on nothing that is done to the platform. So those of a stretch of
//! time are drawn function by function and sorted at once: each function's generator is read
//! once in a stretch instead of once for each request, and the next request of all functions
//! is the next in the list. Where stretches begin and end has no influence on the requests.

use std::collections::VecDeque;

use homeostat_core::{Persist, Result, SimDuration, SimTime, Snapshot};

use super::state::{Draws, Function, Needs};

/// The requests to come of all functions.
#[derive(Debug, Clone)]
pub(super) struct ArrivalSchedule {
    /// All requests until `until`, by time and function. Those before `next` have come.
    sorted: Vec<Arrival>,
    next: usize,
    until: SimTime,
    /// The first request of each function after `until`.
    following: Vec<SimTime>,
    /// No later than the first of those.
    first_following: SimTime,
    /// Length of the next stretch to be drawn.
    stretch: SimDuration,
    /// Memory for requests that are not sorted yet.
    drawn: Vec<Arrival>,
}

/// A request to come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) at: SimTime,
    needs: Needs,
    pub(super) function: u32,
    /// Whether `needs` is what it needs; otherwise that is drawn when it comes.
    is_drawn: bool,
}

impl Arrival {
    /// What it needs, if that is drawn already.
    #[inline]
    pub(super) fn needs(&self) -> Option<Needs> {
        self.is_drawn.then_some(self.needs)
    }
}

pub(super) const NEVER: SimTime = SimTime::from_nanos(u64::MAX);

/// Requests in a stretch for each function, at least and at most: enough to make a stretch and a
/// function's generator worth the effort, and few enough to stay in the cache until they come.
const REQUESTS_PER_FUNCTION: usize = 16;
const MIN_REQUESTS: usize = 256;
const MAX_REQUESTS: usize = 8192;

impl Default for ArrivalSchedule {
    fn default() -> Self {
        Self {
            sorted: Vec::new(),
            next: 0,
            until: SimTime::ZERO,
            following: Vec::new(),
            first_following: NEVER,
            stretch: SimDuration::from_millis(1),
            drawn: Vec::new(),
        }
    }
}

impl ArrivalSchedule {
    /// When the next request comes, if it is drawn already.
    #[inline]
    pub(super) fn next_time(&self) -> Option<SimTime> {
        self.sorted.get(self.next).map(|arrival| arrival.at)
    }

    /// Takes the next request that is drawn.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Arrival> {
        let arrival = self.sorted.get(self.next).copied()?;
        self.next += 1;
        Some(arrival)
    }

    /// Whether there are requests until `end` that are not drawn yet.
    #[inline]
    pub(super) fn is_short_of(&self, end: SimTime) -> bool {
        self.first_following <= end && self.first_following != NEVER
    }

    /// Draws the next stretch, once the last one is used up.
    pub(super) fn draw_stretch(&mut self, functions: &mut [Function]) {
        debug_assert_eq!(self.next, self.sorted.len(), "every request drawn has come");
        let from = self.until.max(self.first_following);
        self.until = from + self.stretch;
        self.drawn.clear();
        self.first_following = NEVER;
        for (number, following) in self.following.iter_mut().enumerate() {
            if *following <= self.until {
                draw(number, &mut functions[number], following, self.until, &mut self.drawn);
            }
            self.first_following = self.first_following.min(*following);
        }
        self.next = 0;
        let drawn = self.drawn.len();
        match (self.drawn.first(), self.drawn.last()) {
            // The requests of one function are in order.
            (Some(first), Some(last)) if first.function == last.function => {
                std::mem::swap(&mut self.drawn, &mut self.sorted);
            }
            _ => sort_by_time(&self.drawn, from, self.until, &mut self.sorted),
        }
        let aim =
            (REQUESTS_PER_FUNCTION * functions.len()).clamp(MIN_REQUESTS, MAX_REQUESTS) as f64;
        let factor = (aim / drawn.max(1) as f64).clamp(0.0625, 16.0);
        let nanos = self.stretch.nanos() as f64 * factor;
        self.stretch = SimDuration::from_nanos((nanos as u64).max(1));
    }

    /// Takes in the load of a function that begins now.
    pub(super) fn begin(&mut self, number: usize, function: &mut Function) {
        if self.following.len() <= number {
            self.following.resize(number + 1, NEVER);
        }
        let following = &mut self.following[number];
        *following = function.next_arrival().unwrap_or(NEVER);
        if *following <= self.until {
            self.sorted.drain(..self.next);
            self.next = 0;
            draw(number, function, following, self.until, &mut self.sorted);
            // Stable, so that requests of one function and instant keep their order.
            self.sorted.sort_by_key(|arrival| (arrival.at, arrival.function));
        }
        self.first_following = self.first_following.min(self.following[number]);
    }

    /// No more requests of a function come.
    pub(super) fn end(&mut self, number: usize) {
        if let Some(following) = self.following.get_mut(number) {
            *following = NEVER;
        }
        self.sorted.drain(..self.next);
        self.next = 0;
        self.sorted.retain(|arrival| arrival.function as usize != number);
    }

    /// From now on, what a function's requests need is drawn as they come: another one comes
    /// in between.
    pub(super) fn stop_drawing_ahead(&mut self, number: usize, function: &mut Function) {
        if function.draws != Draws::Ahead {
            return;
        }
        let mut left = VecDeque::new();
        for arrival in &mut self.sorted[self.next..] {
            if arrival.function as usize == number {
                left.extend(arrival.needs());
                arrival.is_drawn = false;
            }
        }
        function.draws = Draws::OnArrival(left);
    }
}

/// Draws the requests of one function until `until`.
fn draw(
    number: usize,
    function: &mut Function,
    following: &mut SimTime,
    until: SimTime,
    out: &mut Vec<Arrival>,
) {
    while *following <= until && *following != NEVER {
        let is_drawn = matches!(function.draws, Draws::Ahead);
        let needs = if is_drawn { function.draw_needs() } else { Needs::default() };
        out.push(Arrival { at: *following, needs, function: number as u32, is_drawn });
        *following = function.next_arrival().unwrap_or(NEVER);
    }
}

/// Sorts requests that come by function, each function's by time. Requests are spread over a
/// stretch more or less evenly: buckets of time hold one or two of them, and are sorted alone.
fn sort_by_time(drawn: &[Arrival], from: SimTime, until: SimTime, sorted: &mut Vec<Arrival>) {
    let length = until.saturating_since(from).nanos();
    let most = 2 * drawn.len().max(1) as u64;
    let mut shift = 0;
    while length >> shift >= most {
        shift += 1;
    }
    let bucket = |arrival: &Arrival| (arrival.at.saturating_since(from).nanos() >> shift) as usize;
    let mut ends = vec![0u32; (length >> shift) as usize + 2];
    drawn.iter().for_each(|arrival| ends[bucket(arrival) + 1] += 1);
    for place in 1..ends.len() {
        ends[place] += ends[place - 1];
    }
    // Every place is written below.
    let anything = Arrival { at: NEVER, needs: Needs::default(), function: 0, is_drawn: false };
    sorted.resize(drawn.len(), anything);
    for arrival in drawn {
        // The end of the bucket before, until its own requests are in.
        let place = &mut ends[bucket(arrival)];
        sorted[*place as usize] = *arrival;
        *place += 1;
    }
    let mut start = 0;
    for end in ends {
        let end = end as usize;
        if end > start + 1 {
            // Stable: of one instant, functions come by number and a function's in order.
            sorted[start..end].sort_by_key(|arrival| arrival.at);
        }
        start = end;
    }
}

const ARRIVAL_WORDS: usize = 5;

/// The functions, and what they have drawn, are saved by themselves.
impl Persist for ArrivalSchedule {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let clock = [self.until.nanos(), self.first_following.nanos(), self.stretch.nanos()];
        out.put_u64(name, clock);
        let following: Vec<u64> = self.following.iter().map(|time| time.nanos()).collect();
        out.put_u64(&format!("{name}/following"), following);
        let coming = self.sorted[self.next..].iter().flat_map(|arrival| {
            let Arrival { at, needs, function, is_drawn } = *arrival;
            let Needs { cpu, io } = needs;
            [at.nanos(), cpu.nanos(), io.nanos(), function.into(), is_drawn.into()]
        });
        out.put_u64(&format!("{name}/coming"), coming.collect::<Vec<_>>());
    }

    /// Into the schedule of a platform with the same functions.
    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        let clock = from.u64s(name, 3)?;
        [self.until, self.first_following] = [clock[0], clock[1]].map(SimTime::from_nanos);
        self.stretch = SimDuration::from_nanos(clock[2].max(1));
        let following = from.u64s(&format!("{name}/following"), self.following.len())?;
        self.following = following.iter().map(|nanos| SimTime::from_nanos(*nanos)).collect();
        let coming = from.any_u64s(&format!("{name}/coming"))?.chunks_exact(ARRIVAL_WORDS);
        let arrivals = coming.map(|words| Arrival {
            at: SimTime::from_nanos(words[0]),
            needs: Needs {
                cpu: SimDuration::from_nanos(words[1]),
                io: SimDuration::from_nanos(words[2]),
            },
            function: words[3] as u32,
            is_drawn: words[4] != 0,
        });
        let functions = self.following.len();
        self.sorted = arrivals.filter(|arrival| (arrival.function as usize) < functions).collect();
        self.next = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::{Bytes, Fraction, Millicores, SeedTree, Slo, Stream};
    use homeostat_decide::Allocation;
    use homeostat_load::{Arrivals, LoadShape, TraceArrivals};
    use proptest::prelude::*;

    use super::*;
    use crate::config::{FunctionSetup, PlatformConfig, Scaling, Source};
    use crate::profile::FunctionProfile;
    use crate::{FunctionId, Platform, catalogue};

    /// One timer for each function, moved with every request.
    struct Timer {
        source: Option<Source>,
        rng: Stream,
        profile: FunctionProfile,
        began: SimTime,
        next: SimTime,
    }

    impl Timer {
        fn advance(&mut self) {
            let next = self.source.as_mut().and_then(Source::next_arrival);
            let next = next.map(|next| self.began + next.saturating_since(SimTime::ZERO));
            self.next = next.unwrap_or(NEVER);
        }

        fn needs(&mut self) -> Needs {
            let cpu = self.profile.draw_cpu(&mut self.rng);
            Needs { cpu, io: self.profile.draw_io(&mut self.rng) }
        }
    }

    fn source(kind: usize, seed: u64) -> Option<Source> {
        let rng = SeedTree::new(seed).stream("arrivals");
        let shape = match kind {
            0 => return None,
            // A full minute, in which requests share nanoseconds, and an empty one.
            1 => return Some(Source::Trace(TraceArrivals::new(vec![40, 0, 5], rng))),
            2 => LoadShape::Flat { per_second: 2.0 },
            3 => LoadShape::Poisson { per_second: 0.02 },
            _ => LoadShape::Fluctuating {
                per_second: 5.0,
                spread: 0.6,
                persistence: 0.8,
                every_s: 3.0,
            },
        };
        Some(Source::Shape(Arrivals::new(&shape, rng).unwrap()))
    }

    /// Adds a function, and a timer for the same load.
    fn add(platform: &mut Platform, kind: usize) -> Timer {
        let number = platform.functions.len();
        let profile = catalogue()[number % 12].clone();
        let allocation =
            Allocation { replicas: 1, cpu: Millicores::new(500), memory: Bytes::from_mib(512) };
        let setup = FunctionSetup {
            profile: profile.clone(),
            slo: Slo::try_new(Fraction::from_percent(99), SimDuration::from_secs(1)).unwrap(),
            isolated_latency: SimDuration::from_millis(800),
            allocation,
            scaling: Scaling::Managed,
            arrivals: source(kind, number as u64),
        };
        platform.add_function(setup).unwrap();
        let rng = platform.seeds.child(&format!("function/{number}")).stream("requests");
        let began = platform.now;
        let mut timer =
            Timer { source: source(kind, number as u64), rng, profile, began, next: NEVER };
        timer.advance();
        timer
    }

    /// The next request until `end`, as a platform takes it.
    fn pop(platform: &mut Platform, end: SimTime) -> Option<(SimTime, usize, Needs)> {
        while platform.arrivals.next_time().is_none() && platform.arrivals.is_short_of(end) {
            platform.arrivals.draw_stretch(&mut platform.functions);
        }
        platform.arrivals.next_time().filter(|at| *at <= end)?;
        let arrival = platform.arrivals.pop()?;
        let number = arrival.function as usize;
        let needs = arrival.needs().unwrap_or_else(|| platform.functions[number].next_needs());
        Some((arrival.at, number, needs))
    }

    fn expected(timers: &mut [Timer], end: SimTime) -> Option<(SimTime, usize, Needs)> {
        let number = (0..timers.len()).min_by_key(|number| (timers[*number].next, *number))?;
        let at = Some(timers[number].next).filter(|at| *at <= end && *at != NEVER)?;
        timers[number].advance();
        Some((at, number, timers[number].needs()))
    }

    proptest! {
        #[test]
        fn requests_come_as_from_one_timer_for_each_function(
            calls in prop::collection::vec((0u8..8, 0usize..16), 1..60),
        ) {
            let config = PlatformConfig::uniform(4, 8.0, Bytes::from_mib(64 * 1024));
            let mut platform = Platform::new(config, &SeedTree::new(1)).unwrap();
            let mut timers: Vec<_> = (0..4).map(|kind| add(&mut platform, kind)).collect();
            for (call, choice) in calls {
                let number = choice % timers.len();
                match call {
                    0 => timers.push(add(&mut platform, choice % 5)),
                    1 => {
                        drop(platform.remove_function(FunctionId(number)));
                        timers[number].next = NEVER;
                        timers[number].source = None;
                    }
                    // A function that is gone is sent no more requests.
                    2 if !platform.functions[number].is_gone => {
                        let function = &mut platform.functions[number];
                        platform.arrivals.stop_drawing_ahead(number, function);
                        prop_assert_eq!(function.next_needs(), timers[number].needs());
                    }
                    3 => {
                        let mut snapshot = Snapshot::default();
                        platform.arrivals.save("a", &mut snapshot);
                        platform.arrivals.sorted.clear();
                        platform.arrivals.load("a", &snapshot).unwrap();
                    }
                    _ => {
                        let end = platform.now + SimDuration::from_millis(1 << choice);
                        while let Some(expect) = expected(&mut timers, end) {
                            prop_assert_eq!(pop(&mut platform, end), Some(expect));
                        }
                        prop_assert_eq!(pop(&mut platform, end), None);
                        platform.now = end;
                    }
                }
            }
        }
    }

    #[test]
    fn requests_of_one_instant_keep_their_order() {
        let arrival = |at: u64, function: u32, cpu: u64| Arrival {
            at: SimTime::from_nanos(at),
            needs: Needs { cpu: SimDuration::from_nanos(cpu), io: SimDuration::ZERO },
            function,
            is_drawn: true,
        };
        let drawn = [(9, 0, 1), (9, 0, 2), (3, 1, 3), (9, 1, 4), (900, 1, 5), (9, 2, 6)]
            .map(|(at, function, cpu)| arrival(at, function, cpu));
        let mut sorted = Vec::new();
        let [from, until] = [2, 1000].map(SimTime::from_nanos);
        sort_by_time(&drawn, from, until, &mut sorted);
        let order: Vec<_> = sorted.iter().map(|arrival| arrival.needs.cpu.nanos()).collect();
        assert_eq!(order, [3, 1, 2, 4, 6, 5]);
    }
}
