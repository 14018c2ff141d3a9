//! What a chain is: functions that one request goes through, and which follows which.
//!
//! Left out: stages that are skipped or repeated for some requests, and payloads that one
//! stage hands to the next: what a request needs of each stage is drawn by itself.

use std::str::FromStr;

use homeostat_core::SimDuration;

use crate::{Error, Result};

/// Stages by name and the arrows between them: a connected graph without cycles. Stages that
/// nothing comes before are where requests arrive.
///
/// In text, `>` goes from a step to the next, `,` joins the functions of a step, each of which
/// follows every one of the step before, and `;` begins another path through the same
/// functions: `a > b, c > d` is a diamond, and `a > b > d; a > c > d` the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainGraph {
    stages: Vec<Stage>,
}

/// One stage; sets of stages are bits by place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stage {
    name: String,
    before: u64,
    after: u64,
}

impl ChainGraph {
    /// Stages of a chain at most: a set of them is one word.
    pub const MAX_STAGES: usize = 64;

    /// Stages with these names and arrows, by place. Refuses arrows that no request could
    /// follow to the end.
    pub fn new(names: &[&str], arrows: &[(usize, usize)]) -> Result<Self> {
        let refuse = |reason: String| Err(Error::Chain { chain: names.join(", "), reason });
        if names.is_empty() {
            return refuse("it has no stage: name at least one function".to_owned());
        }
        if names.len() > Self::MAX_STAGES {
            let reason = format!("it has {} stages: {} at most", names.len(), Self::MAX_STAGES);
            return refuse(reason);
        }
        let stage = |name: &&str| Stage { name: (*name).to_owned(), before: 0, after: 0 };
        let mut graph = Self { stages: names.iter().map(stage).collect() };
        for (from, to) in arrows.iter().copied() {
            let last = names.len() - 1;
            if from.max(to) > last {
                return refuse(format!("an arrow from {from} to {to}: its last stage is {last}"));
            }
            if from == to {
                let name = names[from];
                return refuse(format!("{name} follows itself: a request would never leave it"));
            }
            graph.stages[from].after |= 1 << to;
            graph.stages[to].before |= 1 << from;
        }
        if let Some(cycle) = graph.cycle() {
            let cycle: Vec<_> = cycle.into_iter().map(|place| names[place]).collect();
            let way = cycle.join(" > ");
            return refuse(format!("{way} goes round in circles: leave out one of these arrows"));
        }
        let reached = graph.connected_with(0);
        if let Some(apart) = (0..names.len()).find(|place| reached & 1 << place == 0) {
            let reason = format!("nothing connects {} with {}", names[apart], names[0]);
            return refuse(format!("{reason}: add an arrow, or make two chains of it"));
        }
        Ok(graph)
    }

    /// Number of stages.
    pub fn len(&self) -> usize {
        self.stages.len()
    }

    /// Whether it has no stage; never.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Names of the stages, by place.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.stages.iter().map(|stage| stage.name.as_str())
    }

    /// The stages where requests arrive.
    pub fn entries(&self) -> impl Iterator<Item = usize> {
        places(self.entry_set())
    }

    /// The stages that follow a stage.
    pub(crate) fn successors(&self, place: usize) -> impl Iterator<Item = usize> {
        places(self.stages[place].after)
    }

    /// The longest way through, where each stage takes this long.
    pub fn longest(&self, times: &[SimDuration]) -> SimDuration {
        let mut ends = vec![SimDuration::ZERO; self.len()];
        for place in self.in_order() {
            let before = places(self.stages[place].before).map(|before| ends[before]).max();
            ends[place] = before.unwrap_or(SimDuration::ZERO) + times[place];
        }
        ends.into_iter().max().unwrap_or(SimDuration::ZERO)
    }

    pub(crate) fn entry_set(&self) -> u64 {
        let entries = self.stages.iter().enumerate().filter(|(_, stage)| stage.before == 0);
        entries.map(|(place, _)| 1 << place).sum()
    }

    /// The successors of a stage that may start once these stages are finished.
    pub(crate) fn ready_after(&self, place: usize, finished: u64) -> u64 {
        let is_ready = |next: &usize| self.stages[*next].before & !finished == 0;
        self.successors(place).filter(is_ready).map(|next| 1 << next).sum()
    }

    /// All stages as a set.
    pub(crate) fn all(&self) -> u64 {
        u64::MAX >> (Self::MAX_STAGES - self.len())
    }

    /// Stages, each behind all that come before it; without those on a cycle and behind it.
    fn in_order(&self) -> Vec<usize> {
        let (mut order, mut done) = (Vec::new(), 0u64);
        while let Some(next) = (0..self.len())
            .find(|place| done & 1 << place == 0 && self.stages[*place].before & !done == 0)
        {
            done |= 1 << next;
            order.push(next);
        }
        order
    }

    /// A way from a stage back to itself.
    fn cycle(&self) -> Option<Vec<usize>> {
        let stuck =
            self.in_order().into_iter().fold(self.all(), |left, place| left & !(1 << place));
        let mut way = vec![places(stuck).next()?];
        // A stage that is not ordered waits for another such stage: going backwards, a stage repeats.
        loop {
            let last = way[way.len() - 1];
            let before = places(self.stages[last].before & stuck).next();
            let before = before.expect("a stage that is stuck waits for another");
            let seen = way.iter().position(|place| *place == before);
            way.push(before);
            if let Some(first) = seen {
                way.drain(..first);
                way.reverse();
                return Some(way);
            }
        }
    }

    /// Everything that arrows connect with a stage, whichever way they point.
    fn connected_with(&self, place: usize) -> u64 {
        let mut reached = 1u64 << place;
        loop {
            let near = |place: usize| self.stages[place].before | self.stages[place].after;
            let wider = places(reached).fold(reached, |wider, place| wider | near(place));
            if wider == reached {
                return reached;
            }
            reached = wider;
        }
    }
}

impl FromStr for ChainGraph {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |reason: String| Error::Chain { chain: text.to_owned(), reason };
        let (mut names, mut arrows) = (Vec::<&str>::new(), Vec::new());
        for path in text.split(';') {
            let mut previous: Vec<usize> = Vec::new();
            for step in path.split('>') {
                let mut current = Vec::new();
                for name in step.split(',').map(str::trim) {
                    if name.is_empty() {
                        let reason = "a name is missing: write it as \"a > b, c > d\"";
                        return Err(refuse(reason.to_owned()));
                    }
                    let place = names.iter().position(|known| *known == name);
                    let place = place.unwrap_or_else(|| {
                        names.push(name);
                        names.len() - 1
                    });
                    if current.contains(&place) {
                        let reason = format!("{name} stands twice in one step: name it once");
                        return Err(refuse(reason));
                    }
                    current.push(place);
                }
                let pairs = |from: usize| current.iter().map(move |to| (from, *to));
                arrows.extend(previous.iter().flat_map(|from| pairs(*from)));
                previous = current;
            }
        }
        Self::new(&names, &arrows).map_err(|error| match error {
            Error::Chain { reason, .. } => refuse(reason),
            other => other,
        })
    }
}

/// The places in a set.
pub(crate) fn places(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (place < ChainGraph::MAX_STAGES).then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_who_follows_whom() {
        let check = |text: &str, expect: &[&str]| {
            let graph: ChainGraph = text.parse().unwrap();
            let names: Vec<_> = graph.names().collect();
            let follow = |place: usize| {
                let after: Vec<_> = graph.successors(place).map(|next| names[next]).collect();
                format!("{}: {}", names[place], after.join(" "))
            };
            assert_eq!((0..graph.len()).map(follow).collect::<Vec<_>>(), expect, "{text}");
        };
        check("a", &["a: "]);
        check("a > b>c", &["a: b", "b: c", "c: "]);
        check("a > b, c > d", &["a: b c", "b: d", "c: d", "d: "]);
        check("a > b > d; a > c > d", &["a: b c", "b: d", "d: ", "c: d"]);
        check("a, b > c", &["a: c", "b: c", "c: "]);
    }

    #[test]
    fn a_text_that_no_request_could_follow_is_refused_with_the_place() {
        let check = |text: &str, expect: &str| {
            let error = text.parse::<ChainGraph>().unwrap_err().to_string();
            assert_eq!(error, format!("chain \"{text}\": {expect}"));
        };
        check("", "a name is missing: write it as \"a > b, c > d\"");
        check("a > > b", "a name is missing: write it as \"a > b, c > d\"");
        check("a > a", "a follows itself: a request would never leave it");
        check("a > b, b", "b stands twice in one step: name it once");
        check(
            "a > b > c > d; d > b",
            "b > c > d > b goes round in circles: leave out one of these arrows",
        );
        check("a > b; c > d", "nothing connects c with a: add an arrow, or make two chains of it");
        let many: Vec<_> = (0..65).map(|number| format!("f{number}")).collect();
        check(&many.join(" > "), "it has 65 stages: 64 at most");
        assert!(many[..64].join(" > ").parse::<ChainGraph>().is_ok());
        let error = ChainGraph::new(&["a", "b"], &[(0, 2)]).unwrap_err().to_string();
        assert!(error.contains("its last stage is 1"), "{error}");
    }

    #[test]
    fn the_longest_way_takes_the_slower_branch() {
        let graph: ChainGraph = "a > b, c > d".parse().unwrap();
        let times = [1, 5, 3, 2].map(SimDuration::from_secs);
        assert_eq!(graph.longest(&times), SimDuration::from_secs(8));
    }
}
