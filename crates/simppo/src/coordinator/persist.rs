//! A coordinator as arrays: its platform, and the agents that were there.

use homeostat_core::{AgentId, Error, Persist, Result, Snapshot};

use super::record::Record;
use crate::coordination::{AgentName, Session};
use crate::{Coordinator, RefusalCounts, RefusalKind};

const KINDS: usize = RefusalKind::ALL.len();

/// Numbers of one record before its refusals.
const FACTS: usize = 8;

/// Numbers of one record: session, counts, flags, seat and refusals.
const WIDTH: usize = FACTS + KINDS;

impl Persist for Coordinator {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let line = |(name, record): (&AgentName, &Record)| {
            format!("{name} {}", record.function.as_deref().unwrap_or_default())
        };
        let lines: Vec<String> = self.records.iter().map(line).collect();
        out.put_u8(&format!("{name}/names"), lines.join("\n").into_bytes());
        let rows: Vec<u64> = self.records.values().flat_map(row).collect();
        out.put_u64(&format!("{name}/records"), rows);
        let counts = [self.config.life, self.accepted, self.missed, self.events_dropped];
        out.put_u64(&format!("{name}/counts"), counts);
        out.put_u64(&format!("{name}/refusals"), self.refusals.numbers());
        self.platform.save(&format!("{name}/platform"), out);
    }

    /// Goes on where the saved coordinator was: every agent has a whole timeout to be heard from
    /// again, and sessions given from now on are larger than all before. Actions of a step that
    /// was not over are gone.
    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        let damaged = |found: String, expected: &str| Error::SnapshotMismatch {
            name: format!("{name}/names"),
            found,
            expected: expected.to_owned(),
        };
        let text = String::from_utf8_lossy(from.any_u8s(&format!("{name}/names"))?).into_owned();
        let lines: Vec<&str> = text.split('\n').filter(|line| !line.is_empty()).collect();
        let rows = from.u64s(&format!("{name}/records"), lines.len() * WIDTH)?;
        let counts = from.u64s(&format!("{name}/counts"), 4)?;
        let refusals = from.u64s(&format!("{name}/refusals"), KINDS)?;
        self.platform.load(&format!("{name}/platform"), from)?;
        self.records.clear();
        for (line, numbers) in lines.iter().zip(rows.chunks_exact(WIDTH)) {
            let (agent, function) = line.split_once(' ').unwrap_or((line, ""));
            let agent = AgentName::new(agent)
                .map_err(|_| damaged(format!("{agent:?}"), "names of agents"))?;
            let mut record = record(numbers);
            record.function = (!function.is_empty()).then(|| function.to_owned());
            record.seat = record.seat.filter(|seat| self.platform.seat(*seat).is_some());
            record.last_heard = self.clock.now();
            self.records.insert(agent, record);
        }
        self.config.life = self.config.life.max(counts[0].saturating_add(1));
        self.sessions_given = 0;
        [self.accepted, self.missed, self.events_dropped] = [counts[1], counts[2], counts[3]];
        self.refusals = RefusalCounts::from_numbers(refusals);
        self.next_check = self.clock.now() + self.config.timeout;
        self.first_action = None;
        Ok(())
    }
}

fn row(record: &Record) -> Vec<u64> {
    let mut row = vec![
        record.session.coordinator_life,
        record.session.number,
        record.incarnation,
        record.seat.map_or(0, |seat| u64::from(seat.number()) + 1),
        record.accepted,
        record.missed,
        record.timeouts,
        u64::from(record.is_silent),
    ];
    row.extend(record.refusals.numbers());
    row
}

fn record(numbers: &[u64]) -> Record {
    let (facts, refusals) = numbers.split_at(FACTS);
    let seat = facts[3].checked_sub(1).and_then(|number| u32::try_from(number).ok());
    Record {
        session: Session { coordinator_life: facts[0], number: facts[1] },
        incarnation: facts[2],
        seat: seat.map(AgentId::new),
        accepted: facts[4],
        missed: facts[5],
        timeouts: facts[6],
        is_silent: facts[7] != 0,
        refusals: RefusalCounts::from_numbers(refusals),
        ..Record::default()
    }
}
