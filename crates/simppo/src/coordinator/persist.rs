//! A coordinator as arrays: who was there, and what each did last.

use homeostat_core::{Error, Persist, Result, Snapshot};

use super::record::{Part, Record};
use crate::coordination::{AgentName, Session};
use crate::{Contribution, Coordinator, RefusalCounts, RefusalKind, VirtualAgent};

const KINDS: usize = RefusalKind::ALL.len();

/// Numbers of one record before its refusals.
const FACTS: usize = 9;

/// Numbers of one record: session, sequence, counts, flags, refusals, contribution and reward.
const WIDTH: usize = FACTS + KINDS + Contribution::VARIABLES + 1;

impl Persist for Coordinator {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let names: Vec<&str> = self.records.keys().map(AgentName::as_str).collect();
        out.put_u8(&format!("{name}/names"), names.join("\n").into_bytes());
        let rows: Vec<u64> = self.records.values().flat_map(row).collect();
        out.put_u64(&format!("{name}/records"), rows);
        let counts = [self.config.life, self.accepted, self.missed, self.events_dropped];
        out.put_u64(&format!("{name}/counts"), counts);
        out.put_u64(&format!("{name}/refusals"), self.refusals.numbers());
    }

    /// Begins a new life: whoever was there has a whole timeout to be heard from again, and
    /// sessions given from now on are larger than all before.
    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        let damaged = |found: String, expected: &str| Error::SnapshotMismatch {
            name: format!("{name}/names"),
            found,
            expected: expected.to_owned(),
        };
        let text = String::from_utf8_lossy(from.any_u8s(&format!("{name}/names"))?).into_owned();
        let names: Vec<&str> = text.split('\n').filter(|name| !name.is_empty()).collect();
        let rows = from.u64s(&format!("{name}/records"), names.len() * WIDTH)?;
        let counts = from.u64s(&format!("{name}/counts"), 4)?;
        let refusals = from.u64s(&format!("{name}/refusals"), KINDS)?;
        self.records.clear();
        (self.team, self.rewards) = (VirtualAgent::default(), 0);
        for (agent, numbers) in names.iter().zip(rows.chunks_exact(WIDTH)) {
            let agent = AgentName::new(agent)
                .map_err(|_| damaged(format!("{agent:?}"), "names of agents"))?;
            let mut record = record(numbers);
            record.last_heard = self.clock.now();
            if let Some(part) = &record.part {
                self.team.add(&part.contribution);
                self.rewards += i128::from(part.reward);
            }
            self.records.insert(agent, record);
        }
        self.config.life = self.config.life.max(counts[0].saturating_add(1));
        self.sessions_given = 0;
        [self.accepted, self.missed, self.events_dropped] = [counts[1], counts[2], counts[3]];
        self.refusals = RefusalCounts::from_numbers(refusals);
        self.next_check = self.clock.now() + self.config.timeout;
        Ok(())
    }
}

fn row(record: &Record) -> Vec<u64> {
    let mut row = vec![
        record.session.coordinator_life,
        record.session.number,
        record.last_sequence,
        record.accepted,
        record.missed,
        record.timeouts,
        u64::from(record.is_silent),
        u64::from(record.part.is_some()),
        record.incarnation,
    ];
    row.extend(record.refusals.numbers());
    let nothing = [0; Contribution::VARIABLES];
    let (contribution, reward) =
        record.part.map_or((nothing, 0), |part| (part.contribution.numbers(), part.reward));
    row.extend(contribution.iter().chain([&reward]).map(|number| number.cast_unsigned()));
    row
}

fn record(numbers: &[u64]) -> Record {
    let (facts, rest) = numbers.split_at(FACTS);
    let (refusals, part) = rest.split_at(KINDS);
    let signed = |index: usize| part[index].cast_signed();
    let contribution = Contribution::from_numbers(std::array::from_fn(signed));
    Record {
        session: Session { coordinator_life: facts[0], number: facts[1] },
        incarnation: facts[8],
        last_sequence: facts[2],
        accepted: facts[3],
        missed: facts[4],
        timeouts: facts[5],
        is_silent: facts[6] != 0,
        part: (facts[7] != 0 && facts[6] == 0)
            .then(|| Part { contribution, reward: signed(Contribution::VARIABLES) }),
        refusals: RefusalCounts::from_numbers(refusals),
        ..Record::default()
    }
}
