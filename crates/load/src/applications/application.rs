//! Applications: combinations of segments, each of which a request passes once.

use homeostat_core::{Bytes, SimDuration, Stream};

use super::segment::{Need, Payload, Segment, micros};
use crate::{Error, Result};

/// An application.
#[derive(Debug, Clone, PartialEq)]
pub struct Application {
    name: String,
    /// Sorted by name, so that equal combinations are equal.
    segments: Vec<&'static Segment>,
    /// Memory of a replica without requests.
    resident: Bytes,
    /// Memory that caches fill if they can, and what a request waits without any of it.
    cache: Bytes,
    uncached: SimDuration,
    /// Payload sizes, and what each combination of sizes needs: three sizes that all segments share.
    changed: Vec<Payload>,
    needs: [Need; 3],
}

impl Application {
    /// The standard deviation of the logarithm of a request's need of CPU, around its mean for the
    /// payload.
    pub const SPREAD: f64 = 0.15;

    /// Memory of a replica's runtime, below all segments.
    const RUNTIME: Bytes = Bytes::from_mib(24);

    /// An application of these segments, with the payloads of before any change.
    pub fn new(mut segments: Vec<&'static Segment>) -> Result<Self> {
        if segments.is_empty() {
            return Err(Error::NoSegments);
        }
        segments.sort_by_key(|segment| segment.name);
        let names: Vec<_> = segments.iter().map(|segment| segment.name).collect();
        let mib = |mib: f64| Bytes::new((mib * 1_048_576.0) as u64);
        let sum = |figure: fn(&Segment) -> f64| segments.iter().map(|one| figure(one)).sum::<f64>();
        Ok(Self {
            name: names.join("+"),
            resident: Self::RUNTIME + mib(sum(|one| one.resident_mib)),
            cache: mib(sum(|one| one.cache_mib)),
            uncached: micros(sum(|one| one.uncached_us)),
            needs: needs(&segments, &[]),
            changed: Vec::new(),
            segments,
        })
    }

    /// The application with these segments, joined by `+`.
    pub fn parse(text: &str) -> Result<Self> {
        let segment = |name: &str| {
            let name = name.trim();
            Segment::by_name(name).ok_or_else(|| Error::NoSuchSegment { name: name.to_owned() })
        };
        Self::new(text.split('+').map(segment).collect::<Result<_>>()?)
    }

    /// Its segments' names, joined by `+`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its segments, sorted by name.
    pub fn segments(&self) -> &[&'static Segment] {
        &self.segments
    }

    /// Whether one of its segments has this payload.
    pub fn has(&self, payload: Payload) -> bool {
        self.segments.iter().any(|segment| segment.payload == payload)
    }

    /// The same with the payload of its change scenario.
    pub fn with_change(&self, payload: Payload) -> Self {
        let changed = [self.changed.as_slice(), &[payload]].concat();
        Self { needs: needs(&self.segments, &changed), changed, ..self.clone() }
    }

    /// Whether this payload is that of its change scenario.
    pub fn has_changed(&self, payload: Payload) -> bool {
        self.changed.contains(&payload)
    }

    /// The mean CPU time of a request.
    pub fn mean_cpu(&self) -> SimDuration {
        let sum: u64 = self.needs.iter().map(|need| need.cpu.nanos()).sum();
        SimDuration::from_nanos(sum / 3)
    }

    /// Memory of a replica without requests.
    pub fn resident(&self) -> Bytes {
        self.resident
    }

    /// Memory of a replica that serves this many requests, with full caches.
    pub fn full_memory(&self, requests: u32) -> Bytes {
        let largest = self.needs.iter().map(|need| need.memory.bytes()).max().unwrap_or(0);
        self.resident + self.cache + Bytes::new(largest * u64::from(requests))
    }

    /// Memory that the caches of a replica fill, if they can.
    pub fn cache(&self) -> Bytes {
        self.cache
    }

    /// What the next request needs, in a replica whose caches have this part of what they can fill.
    pub fn draw(&self, rng: &mut Stream) -> Need {
        let need = self.needs[rng.below(3)];
        let sigma = Self::SPREAD;
        let factor = (sigma * rng.normal() - 0.5 * sigma * sigma).exp();
        Need { cpu: SimDuration::from_nanos((need.cpu.nanos() as f64 * factor) as u64), ..need }
    }

    /// What a request waits for what caches do not hold.
    pub fn uncached(&self, cached: f64) -> SimDuration {
        SimDuration::from_nanos((self.uncached.nanos() as f64 * (1.0 - cached)) as u64)
    }
}

/// What a request of each of the three sizes needs.
fn needs(segments: &[&'static Segment], changed: &[Payload]) -> [Need; 3] {
    std::array::from_fn(|size| {
        let none = Need { cpu: SimDuration::ZERO, io: SimDuration::ZERO, memory: Bytes::ZERO };
        segments.iter().fold(none, |sum, segment| {
            let sizes = segment.payload.sizes(changed.contains(&segment.payload));
            let need = segment.need(sizes[size]);
            Need { cpu: sum.cpu + need.cpu, io: sum.io + need.io, memory: sum.memory + need.memory }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_its_segments_in_any_order() {
        let one = Application::parse("file-read + json-parse").unwrap();
        assert_eq!(one, Application::parse("json-parse+file-read").unwrap());
        assert_eq!(one.name(), "file-read+json-parse");
        let refused = Application::parse("json-parse+tea").unwrap_err().to_string();
        assert!(refused.starts_with("there is no segment `tea`"), "{refused}");
    }

    #[test]
    fn the_mean_of_the_drawn_needs_is_the_stated_one() {
        let app = Application::parse("compression+image-resize").unwrap();
        let mut rng = Stream::from_seed(1);
        let draws = 100_000;
        let sum: f64 = (0..draws).map(|_| app.draw(&mut rng).cpu.seconds()).sum();
        let ratio = sum / f64::from(draws) / app.mean_cpu().seconds();
        // Standard error: the spread of sizes and needs, about 0.4 of the mean, over 316.
        assert!((ratio - 1.0).abs() < 0.005, "{ratio}");
    }

    #[test]
    fn a_change_reaches_the_segments_of_its_payload_alone() {
        let app = Application::parse("image-resize+json-parse").unwrap();
        let larger = app.with_change(Payload::Image);
        assert!(larger.mean_cpu() > app.mean_cpu());
        assert_eq!(app.with_change(Payload::Table).mean_cpu(), app.mean_cpu());
        assert!(app.has(Payload::Text) && !app.has(Payload::Table));
        assert!(larger.has_changed(Payload::Image) && !larger.has_changed(Payload::Text));
    }
}
