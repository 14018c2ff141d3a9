//! The whole state of a platform as arrays, to stop and go on bit for bit.
//!
//! A platform is loaded into one that was built from the same configuration, with the same
//! functions added in the same order: what they need and where their requests come from is
//! not part of the state.

use homeostat_core::{Bytes, Millicores, Persist, Result, SimDuration, SimTime, Snapshot};

use super::Platform;
use super::chain_telemetry::{ChainCounters, ChainTotals};
use super::chains::{Chain, Journey};
use super::state::{
    ALONE, Arrived, Container, ContainerTimes, Counters, Draws, Function, FunctionTrace, Needs,
    Phase, Request, Totals,
};

impl Persist for Platform {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.rng.save(&format!("{name}/rng"), out);
        self.events.save(&format!("{name}/events"), out);
        out.put_u64(&format!("{name}/clock"), [self.now.nanos(), u64::from(self.pending)]);
        for (number, node) in self.nodes.iter().enumerate() {
            let name = format!("{name}/node/{number}");
            out.put_u64(&name, [node.reserved.bytes(), u64::from(node.is_up)]);
            let traces = node.traces.iter().flat_map(|(function, trace)| {
                [u64::from(*function), trace.class.number() as u64, trace.has_image.into()]
            });
            out.put_u64(&format!("{name}/traces"), traces.collect::<Vec<_>>());
            node.processor.save(&format!("{name}/processor"), out);
        }
        let containers = self.containers.iter().zip(&self.container_times);
        let words = containers.flat_map(|(state, times)| container_words(state, times));
        out.put_u64(&format!("{name}/containers"), words.collect::<Vec<_>>());
        out.put_u64(&format!("{name}/containers/free"), wide(&self.free_containers));
        let requests = self.requests.iter().flat_map(|request| {
            let Request { arrived, io, container, next, epoch, .. } = *request;
            [arrived.nanos(), io.nanos(), container.into(), next.into(), epoch.into()]
        });
        out.put_u64(&format!("{name}/requests"), requests.collect::<Vec<_>>());
        out.put_u64(&format!("{name}/requests/free"), wide(&self.free_requests));
        self.arrivals.save(&format!("{name}/arrivals"), out);
        for (number, function) in self.functions.iter().enumerate() {
            function.save(&format!("{name}/function/{number}"), out);
        }
        // Platforms without chains are saved as before there were any.
        if !self.chains.is_empty() {
            let journeys: Vec<u32> = self.requests.iter().map(|request| request.journey).collect();
            out.put_u64(&format!("{name}/requests/journeys"), wide(&journeys));
        }
        for (number, chain) in self.chains.iter().enumerate() {
            chain.save(&format!("{name}/chain/{number}"), out);
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        self.rng.load(&format!("{name}/rng"), from)?;
        self.events.load(&format!("{name}/events"), from)?;
        let clock = from.u64s(&format!("{name}/clock"), 2)?;
        self.now = SimTime::from_nanos(clock[0]);
        self.pending = clock[1] as u32;
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let name = format!("{name}/node/{number}");
            let facts = from.u64s(&name, 2)?;
            (node.reserved, node.is_up) = (Bytes::new(facts[0]), facts[1] != 0);
            node.processor.load(&format!("{name}/processor"), from)?;
            let traces = from.any_u64s(&format!("{name}/traces"))?.chunks_exact(3);
            let traces = traces.filter_map(|words| {
                let class = node.processor.class(words[1])?;
                Some((words[0] as u32, FunctionTrace { class, has_image: words[2] != 0 }))
            });
            node.traces = traces.collect();
            self.placement.update(number, node);
        }
        let containers = from.any_u64s(&format!("{name}/containers"))?;
        (self.containers, self.container_times) =
            containers.chunks_exact(CONTAINER_WORDS).map(read_container).unzip();
        for state in self.containers.iter_mut().filter(|state| state.phase != Phase::Gone) {
            let traces = self.nodes.get(state.node as usize).map(|node| &node.traces);
            let trace = traces.and_then(|traces| traces.get(&state.function));
            state.class = trace.map(|trace| trace.class);
        }
        self.free_containers = narrow(from.any_u64s(&format!("{name}/containers/free"))?);
        let requests = from.any_u64s(&format!("{name}/requests"))?.chunks_exact(5);
        self.requests = requests
            .map(|words| Request {
                arrived: SimTime::from_nanos(words[0]),
                io: SimDuration::from_nanos(words[1]),
                container: words[2] as u32,
                next: words[3] as u32,
                epoch: words[4] as u32,
                journey: ALONE,
            })
            .collect();
        self.free_requests = narrow(from.any_u64s(&format!("{name}/requests/free"))?);
        self.arrivals.load(&format!("{name}/arrivals"), from)?;
        self.short_functions.clear();
        for (number, function) in self.functions.iter_mut().enumerate() {
            let name = format!("{name}/function/{number}");
            function.load(&name, from)?;
            let nodes = narrow(from.any_u64s(&format!("{name}/nodes"))?);
            let classes = nodes.into_iter().filter_map(|node| {
                let trace = self.nodes.get(node as usize)?.traces.get(&(number as u32))?;
                Some((node, trace.class))
            });
            function.classes = classes.collect();
            if function.shortage() > 0 {
                self.short_functions.insert(number as u32);
            }
            // Counted below, with its containers.
            function.in_service = 0;
            function.draining.clear();
        }
        for (number, state) in self.containers.iter().enumerate() {
            if state.phase == Phase::Gone {
                continue;
            }
            if let Some(function) = self.functions.get_mut(state.function as usize) {
                function.in_service += state.in_service;
                if state.is_draining {
                    function.draining.push(number as u32);
                }
            }
        }
        if !self.chains.is_empty() {
            let journeys = from.u64s(&format!("{name}/requests/journeys"), self.requests.len())?;
            for (request, journey) in self.requests.iter_mut().zip(journeys) {
                request.journey = *journey as u32;
            }
        }
        for (number, chain) in self.chains.iter_mut().enumerate() {
            chain.load(&format!("{name}/chain/{number}"), from)?;
        }
        for (number, node) in self.nodes.iter().enumerate() {
            self.finishes.set_or_clear(number, node.processor.next_finish());
        }
        Ok(())
    }
}

impl Persist for Function {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.rng.save(&format!("{name}/rng"), out);
        if let Some(source) = &self.source {
            source.save(&format!("{name}/source"), out);
        }
        let facts = [
            self.began.nanos(),
            u64::from(self.is_gone),
            u64::from(self.wanted.replicas),
            self.wanted.cpu.millicores(),
            self.wanted.memory.bytes(),
            self.reserved.bytes(),
            self.memory_limit.bytes(),
            self.millicores,
            u64::from(self.present),
            u64::from(self.pending),
            self.window_began.nanos(),
            self.counted_until.nanos(),
            u64::from(self.draws == Draws::Ahead),
        ];
        out.put_u64(name, facts);
        out.put_f64(&format!("{name}/cpu"), [self.cpu_at_window]);
        let words = |arrived: &Arrived| {
            let Arrived { at, needs: Needs { cpu, io }, .. } = arrived;
            [at.nanos(), cpu.nanos(), io.nanos()]
        };
        let waiting: Vec<u64> = self.waiting.iter().flat_map(words).collect();
        out.put_u64(&format!("{name}/waiting"), waiting);
        if self.stage.is_some() {
            let journeys: Vec<u32> = self.waiting.iter().map(|arrived| arrived.journey).collect();
            out.put_u64(&format!("{name}/waiting/journeys"), wide(&journeys));
        }
        out.put_u64(&format!("{name}/containers"), wide(&self.containers));
        out.put_u64(&format!("{name}/idle"), wide(&self.idle));
        let nodes: Vec<u32> = self.classes.iter().map(|(node, _)| *node).collect();
        out.put_u64(&format!("{name}/nodes"), wide(&nodes));
        let drawn: &[Needs] = match &self.draws {
            Draws::Ahead => &[],
            Draws::OnArrival(drawn) => &drawn.iter().copied().collect::<Vec<_>>(),
        };
        out.put_u64(&format!("{name}/drawn"), needs_words(drawn));
        self.window.save(&format!("{name}/window"), out);
        self.totals.save(&format!("{name}/totals"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        self.rng.load(&format!("{name}/rng"), from)?;
        if let Some(source) = &mut self.source {
            source.load(&format!("{name}/source"), from)?;
        }
        let facts = from.u64s(name, 13)?;
        self.began = SimTime::from_nanos(facts[0]);
        self.is_gone = facts[1] != 0;
        self.wanted.replicas = facts[2] as u32;
        self.wanted.cpu = Millicores::new(facts[3]);
        self.wanted.memory = Bytes::new(facts[4]);
        self.reserved = Bytes::new(facts[5]);
        self.memory_limit = Bytes::new(facts[6]);
        self.millicores = facts[7];
        self.present = facts[8] as u32;
        self.pending = facts[9] as u32;
        self.window_began = SimTime::from_nanos(facts[10]);
        self.counted_until = SimTime::from_nanos(facts[11]);
        self.cpu_at_window = from.f64s(&format!("{name}/cpu"), 1)?[0];
        let waiting = from.any_u64s(&format!("{name}/waiting"))?;
        self.waiting = waiting
            .chunks_exact(3)
            .map(|words| Arrived {
                at: SimTime::from_nanos(words[0]),
                needs: read_needs(&words[1..]),
                journey: ALONE,
            })
            .collect();
        if self.stage.is_some() {
            let journeys = from.u64s(&format!("{name}/waiting/journeys"), self.waiting.len())?;
            for (arrived, journey) in self.waiting.iter_mut().zip(journeys) {
                arrived.journey = *journey as u32;
            }
        }
        self.containers = narrow(from.any_u64s(&format!("{name}/containers"))?);
        self.idle = narrow(from.any_u64s(&format!("{name}/idle"))?);
        let drawn = from.any_u64s(&format!("{name}/drawn"))?.chunks_exact(2).map(read_needs);
        self.draws = if facts[12] != 0 { Draws::Ahead } else { Draws::OnArrival(drawn.collect()) };
        self.window.load(&format!("{name}/window"), from)?;
        self.totals.load(&format!("{name}/totals"), from)
    }
}

impl Persist for Chain {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(name, [u64::from(self.is_broken), self.window_began.nanos()]);
        let journeys = self.journeys.iter().flat_map(|journey| {
            let Journey { arrived, finished, under_way, is_lost } = *journey;
            [arrived.nanos(), finished, under_way.into(), is_lost.into()]
        });
        out.put_u64(&format!("{name}/journeys"), journeys.collect::<Vec<_>>());
        out.put_u64(&format!("{name}/journeys/free"), wide(&self.free_journeys));
        out.put_u64(&format!("{name}/needs"), needs_words(&self.needs));
        let ChainCounters { arrived, completed, slo_violations, lost, latency } = &self.window;
        out.put_u64(&format!("{name}/window"), [*arrived, *completed, *slo_violations, *lost]);
        latency.save(&format!("{name}/window/latency"), out);
        // Without `unsettled`, which only the end of a run counts.
        let ChainTotals { arrived, completed, slo_violations, lost, latency, .. } = &self.totals;
        out.put_u64(&format!("{name}/totals"), [*arrived, *completed, *slo_violations, *lost]);
        latency.save(&format!("{name}/totals/latency"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        let facts = from.u64s(name, 2)?;
        self.is_broken = facts[0] != 0;
        self.window_began = SimTime::from_nanos(facts[1]);
        let journeys = from.any_u64s(&format!("{name}/journeys"))?.chunks_exact(4);
        self.journeys = journeys
            .map(|words| Journey {
                arrived: SimTime::from_nanos(words[0]),
                finished: words[1],
                under_way: words[2] as u32,
                is_lost: words[3] != 0,
            })
            .collect();
        self.free_journeys = narrow(from.any_u64s(&format!("{name}/journeys/free"))?);
        let needs = 2 * self.journeys.len() * self.functions.len();
        let needs = from.u64s(&format!("{name}/needs"), needs)?.chunks_exact(2);
        self.needs = needs.map(read_needs).collect();
        let counts = from.u64s(&format!("{name}/window"), 4)?;
        let window = &mut self.window;
        [window.arrived, window.completed, window.slo_violations, window.lost] =
            counts.try_into().expect("four were asked for");
        window.latency.load(&format!("{name}/window/latency"), from)?;
        let counts = from.u64s(&format!("{name}/totals"), 4)?;
        let totals = &mut self.totals;
        [totals.arrived, totals.completed, totals.slo_violations, totals.lost] =
            counts.try_into().expect("four were asked for");
        totals.latency.load(&format!("{name}/totals/latency"), from)
    }
}

impl Persist for Counters {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let counts = [
            self.arrived,
            self.completed,
            self.slo_violations,
            self.timed_out,
            self.failed,
            self.cold_starts,
            self.oom_kills,
        ];
        let times = [self.request_time, self.container_time, self.memory_time];
        save_figures(name, counts, times, &self.latency, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        let (counts, times) = load_figures(name, &mut self.latency, from)?;
        [self.arrived, self.completed, self.slo_violations, self.timed_out, ..] = counts;
        [.., self.failed, self.cold_starts, self.oom_kills] = counts;
        [self.request_time, self.container_time, self.memory_time] = times;
        Ok(())
    }
}

/// Without `unsettled`, which only the end of a run counts.
impl Persist for Totals {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let counts = [
            self.arrived,
            self.completed,
            self.slo_violations,
            self.timed_out,
            self.failed,
            self.cold_starts,
            self.oom_kills,
        ];
        let sums = [self.cpu_s, self.container_s, self.memory_gib_s];
        save_figures(name, counts, sums, &self.latency, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        let (counts, sums) = load_figures(name, &mut self.latency, from)?;
        [self.arrived, self.completed, self.slo_violations, self.timed_out, ..] = counts;
        [.., self.failed, self.cold_starts, self.oom_kills] = counts;
        [self.cpu_s, self.container_s, self.memory_gib_s] = sums;
        Ok(())
    }
}

/// What windows and totals have in common: counts, sums and a histogram.
fn save_figures(
    name: &str,
    counts: [u64; 7],
    sums: [f64; 3],
    latency: &impl Persist,
    out: &mut Snapshot,
) {
    out.put_u64(&format!("{name}/counts"), counts);
    out.put_f64(&format!("{name}/sums"), sums);
    latency.save(&format!("{name}/latency"), out);
}

fn load_figures(
    name: &str,
    latency: &mut impl Persist,
    from: &Snapshot,
) -> Result<([u64; 7], [f64; 3])> {
    latency.load(&format!("{name}/latency"), from)?;
    let counts = from.u64s(&format!("{name}/counts"), 7)?.try_into().expect("seven were asked for");
    let sums = from.f64s(&format!("{name}/sums"), 3)?.try_into().expect("three were asked for");
    Ok((counts, sums))
}

fn needs_words(needs: &[Needs]) -> Vec<u64> {
    needs.iter().flat_map(|needs| [needs.cpu.nanos(), needs.io.nanos()]).collect()
}

fn read_needs(words: &[u64]) -> Needs {
    let [cpu, io] = [words[0], words[1]].map(SimDuration::from_nanos);
    Needs { cpu, io }
}

const CONTAINER_WORDS: usize = 8;

fn container_words(state: &Container, times: &ContainerTimes) -> [u64; CONTAINER_WORDS] {
    let phase = match state.phase {
        Phase::Gone => 0,
        Phase::Creating => 1,
        Phase::Starting => 2,
        Phase::Ready => 3,
    };
    let flags = [state.is_draining, state.is_watched, state.has_served];
    let flags = flags.iter().enumerate().map(|(bit, flag)| u64::from(*flag) << bit).sum::<u64>();
    [
        u64::from(state.function) << 32 | u64::from(state.node),
        state.epoch.into(),
        phase,
        state.in_service.into(),
        flags,
        times.created.nanos(),
        times.idle_since.nanos(),
        state.first_request.into(),
    ]
}

fn read_container(words: &[u64]) -> (Container, ContainerTimes) {
    let flag = |bit: u32| words[4] >> bit & 1 == 1;
    let state = Container {
        function: (words[0] >> 32) as u32,
        node: words[0] as u32,
        class: None,
        epoch: words[1] as u32,
        phase: match words[2] {
            0 => Phase::Gone,
            1 => Phase::Creating,
            2 => Phase::Starting,
            _ => Phase::Ready,
        },
        first_request: words[7] as u32,
        in_service: words[3] as u32,
        is_draining: flag(0),
        is_watched: flag(1),
        has_served: flag(2),
    };
    let [created, idle_since] = [words[5], words[6]].map(SimTime::from_nanos);
    (state, ContainerTimes { created, idle_since })
}

fn wide(numbers: &[u32]) -> Vec<u64> {
    numbers.iter().map(|number| u64::from(*number)).collect()
}

fn narrow(numbers: &[u64]) -> Vec<u32> {
    numbers.iter().map(|number| *number as u32).collect()
}
