//! The injections of a campaign, one after the other.

use std::iter::Peekable;
use std::vec::IntoIter;

use homeostat_core::{SimDuration, SimTime, Stream};

use crate::campaign::{out_of_range, seconds};
use crate::{AnomalyKind, Campaign, RandomAnomalies, Result};

/// One injection: the ground truth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Injection {
    /// When it begins.
    pub at: SimTime,
    /// Its type.
    pub kind: AnomalyKind,
    /// The place of its service among those of the system.
    pub service: usize,
    /// Chooses the replica.
    place: Place,
    /// From zero to one.
    pub intensity: f64,
    /// How long it lasts.
    pub duration: SimDuration,
}

/// A replica, without knowing how many there will be.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Number(u32),
    /// Part of all replicas, in units of 2^-64.
    Part(u64),
}

impl Injection {
    /// The replica that it goes to, of so many that serve; none serve none.
    pub fn replica(&self, replicas: usize) -> Option<usize> {
        match self.place {
            Place::Number(number) => (number as usize).checked_rem(replicas),
            Place::Part(part) => {
                (replicas > 0).then(|| ((u128::from(part) * replicas as u128) >> 64) as usize)
            }
        }
    }
}

/// Injections in the order of time.
#[derive(Debug, Clone)]
pub struct Injections {
    planned: Peekable<IntoIter<Injection>>,
    random: Option<Drawn>,
}

#[derive(Debug, Clone)]
struct Drawn {
    anomalies: RandomAnomalies,
    services: Vec<usize>,
    rng: Stream,
    next_s: f64,
}

impl Injections {
    pub(crate) fn new(campaign: &Campaign, services: &[&str], rng: Stream) -> Result<Self> {
        let place = |name: &String| {
            let found = services.iter().position(|known| known == name);
            found.ok_or_else(|| {
                let expected = format!("the system has {}", services.join(", "));
                out_of_range("service", name, &expected)
            })
        };
        let mut planned = Vec::with_capacity(campaign.planned.len());
        for anomaly in &campaign.planned {
            planned.push(Injection {
                at: anomaly.at,
                kind: anomaly.kind,
                service: place(&anomaly.service)?,
                place: Place::Number(anomaly.replica),
                intensity: anomaly.intensity,
                duration: anomaly.duration,
            });
        }
        let mut random = None;
        if let Some(anomalies) = &campaign.random {
            let named = anomalies.services.iter().map(place).collect::<Result<Vec<usize>>>()?;
            let services = if named.is_empty() { (0..services.len()).collect() } else { named };
            let mut drawn = Drawn {
                next_s: anomalies.between_s[0],
                anomalies: anomalies.clone(),
                services,
                rng,
            };
            drawn.wait();
            random = Some(drawn);
        }
        Ok(Self { planned: planned.into_iter().peekable(), random })
    }

    /// The next injection if it begins by `now`.
    pub fn due(&mut self, now: SimTime) -> Option<Injection> {
        (self.next_at()? <= now).then(|| self.next())?
    }

    fn next_at(&mut self) -> Option<SimTime> {
        let planned = self.planned.peek().map(|injection| injection.at);
        let random = self.random.as_ref().and_then(Drawn::at);
        planned.into_iter().chain(random).min()
    }
}

impl Iterator for Injections {
    type Item = Injection;

    fn next(&mut self) -> Option<Injection> {
        let at = self.next_at()?;
        if let Some(planned) = self.planned.next_if(|injection| injection.at <= at) {
            return Some(planned);
        }
        self.random.as_mut().map(|random| random.draw(at))
    }
}

impl Drawn {
    fn at(&self) -> Option<SimTime> {
        let is_over = self.next_s > self.anomalies.between_s[1] || self.next_s.is_infinite();
        (!is_over).then(|| SimTime::ZERO + seconds(self.next_s))
    }

    fn draw(&mut self, at: SimTime) -> Injection {
        let Self { anomalies, services, rng, .. } = self;
        let kind = anomalies.kinds[rng.below(anomalies.kinds.len())];
        let [low, high] = anomalies.intensity;
        let intensity = rng.range(low, high);
        let [shortest, longest] = anomalies.duration_s;
        let duration = seconds(rng.range(shortest, longest));
        let place = Place::Part(rng.next_u64());
        let service = match services.as_slice() {
            [only] => *only,
            several => several[rng.below(several.len())],
        };
        self.wait();
        Injection { at, kind, service, place, intensity, duration }
    }

    fn wait(&mut self) {
        self.next_s += match self.anomalies.per_s {
            0.0 => f64::INFINITY,
            per_s => -(1.0 - self.rng.uniform()).ln() / per_s,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::SeedTree;

    fn drawn(text: &str, seed: u64, count: usize) -> Vec<Injection> {
        let campaign = Campaign::parse(text).unwrap();
        let services = ["a", "b", "c"];
        campaign.injections(&services, &SeedTree::new(seed)).unwrap().take(count).collect()
    }

    #[test]
    fn random_anomalies_have_exponential_gaps_and_all_types_services_and_intensities() {
        let all = drawn("[random]\nper_s = 0.5\nduration_s = [1, 3]", 4, 20_000);
        let gaps = all.windows(2).map(|pair| pair[1].at.seconds() - pair[0].at.seconds());
        let gaps: Vec<f64> = gaps.collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let longer = gaps.iter().filter(|gap| **gap > 2.0).count() as f64 / gaps.len() as f64;
        assert!((mean - 2.0).abs() < 0.05, "{mean}");
        assert!((longer - (-1f64).exp()).abs() < 0.02, "{longer} of the gaps exceed their mean");
        for kind in AnomalyKind::ALL {
            let of = all.iter().filter(|one| one.kind == kind).count() as f64 / all.len() as f64;
            assert!((of - 1.0 / 7.0).abs() < 0.02, "{kind}: {of}");
        }
        for service in 0..3 {
            let of = all.iter().filter(|one| one.service == service).count() as f64;
            assert!((of / all.len() as f64 - 1.0 / 3.0).abs() < 0.02, "{service}: {of}");
        }
        let intensity = all.iter().map(|one| one.intensity).sum::<f64>() / all.len() as f64;
        assert!((intensity - 0.5).abs() < 0.02, "{intensity}");
        assert!(all.iter().all(|one| (1.0..3.0).contains(&one.duration.seconds())));
    }

    #[test]
    fn planned_and_random_ones_come_in_the_order_of_time_and_end() {
        let planned = "[[anomaly]]\nat_s = 7.0\nkind = \"cache\"\nservice = \"b\"\nreplica = 4\n\
                       intensity = 1.0\nduration_s = 1.0\n";
        let all = drawn(&format!("{planned}[random]\nper_s = 2\nend_s = 30\n"), 1, 10_000);
        assert!(all.is_sorted_by_key(|injection| injection.at));
        assert!(all.last().unwrap().at.seconds() <= 30.0 && all.len() > 30, "{}", all.len());
        let cache = all.iter().find(|one| one.at.seconds() == 7.0).unwrap();
        assert_eq!((cache.kind, cache.service), (AnomalyKind::Cache, 1));
        assert_eq!(
            (cache.replica(3), cache.replica(1), cache.replica(0)),
            (Some(1), Some(0), None)
        );
        assert_eq!(all, drawn(&format!("{planned}[random]\nper_s = 2\nend_s = 30\n"), 1, 10_000));
        assert_ne!(all, drawn(&format!("{planned}[random]\nper_s = 2\nend_s = 30\n"), 2, 10_000));
    }

    #[test]
    fn what_is_due_is_given_out_once() {
        let campaign = Campaign::parse("[random]\nper_s = 1\nservices = [\"c\"]").unwrap();
        let mut injections = campaign.injections(&["a", "c"], &SeedTree::new(9)).unwrap();
        let mut clone = injections.clone();
        let mut given = Vec::new();
        for second in 0..100 {
            let now = SimTime::ZERO + SimDuration::from_secs(second);
            while let Some(injection) = injections.due(now) {
                assert!(injection.at <= now);
                given.push(injection);
            }
        }
        assert_eq!(given, clone.by_ref().take(given.len()).collect::<Vec<_>>());
        assert!(given.iter().all(|one| one.service == 1));
    }

    #[test]
    fn a_service_that_is_not_there_is_refused_with_those_that_are() {
        let campaign = Campaign::parse("[random]\nper_s = 1\nservices = [\"d\"]").unwrap();
        let error = campaign.injections(&["a", "b"], &SeedTree::new(1)).unwrap_err().to_string();
        assert_eq!(error, "campaign: service = d: the system has a, b");
    }
}
