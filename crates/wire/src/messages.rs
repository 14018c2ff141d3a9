//! Between what is sent and what is meant. Whatever arrives is checked here or by the
//! coordinator; nothing is filled in.

use std::time::Duration;

use homeostat_simppo::{
    AgentName, CoordinationError, GlobalState, Guidance, Member, Membership, Refusal, RefusalKind,
    Session, Transition,
};

use crate::protocol;

impl From<&Member> for protocol::Member {
    fn from(member: &Member) -> Self {
        Self {
            name: member.name.to_string(),
            coordinator_life: member.session.coordinator_life,
            session_number: member.session.number,
        }
    }
}

/// Who is speaking.
pub(crate) fn member(sent: Option<protocol::Member>) -> Result<Member, Refusal> {
    let Some(sent) = sent else {
        let reason = "the message does not say who sent it";
        return Err(Refusal::new(RefusalKind::Incomplete, reason));
    };
    let session = Session { coordinator_life: sent.coordinator_life, number: sent.session_number };
    Ok(Member { name: AgentName::new(&sent.name)?, session })
}

pub(crate) fn transition(sent: &mut protocol::ObserveRequest) -> Transition {
    Transition {
        sequence: sent.sequence,
        state: std::mem::take(&mut sent.state),
        action: sent.action,
        reward: sent.reward,
    }
}

impl From<&Membership> for protocol::Membership {
    fn from(membership: &Membership) -> Self {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            member: Some((&membership.member).into()),
            last_sequence: membership.last_sequence,
            heartbeat_ms: milliseconds(membership.heartbeat),
            timeout_ms: milliseconds(membership.timeout),
        }
    }
}

impl From<&Guidance> for protocol::Guidance {
    fn from(guidance: &Guidance) -> Self {
        let global = &guidance.global;
        Self {
            team_reward: guidance.team_reward,
            members: guidance.members as u64,
            others: global.others as u64,
            limit_cpu: global.limit_cpu,
            limit_memory: global.limit_memory,
            vertical: global.vertical,
            horizontal: global.horizontal,
            preservation: global.preservation,
            use_cpu: global.use_cpu,
            use_memory: global.use_memory,
            deviations: global.deviations.to_vec(),
        }
    }
}

impl From<&Refusal> for protocol::Refusal {
    fn from(refusal: &Refusal) -> Self {
        Self { kind: refusal.kind.index() as u32, reason: refusal.reason.clone() }
    }
}

/// The answer to a registration, as the agent understands it.
pub(crate) fn membership(
    outcome: Option<protocol::register_reply::Outcome>,
) -> Result<Membership, CoordinationError> {
    use protocol::register_reply::Outcome;
    match outcome {
        Some(Outcome::Membership(sent)) => Ok(Membership {
            member: member(sent.member).map_err(|_| garbled("names no member"))?,
            last_sequence: sent.last_sequence,
            // At least one millisecond: an agent waits this long between two calls.
            heartbeat: Duration::from_millis(sent.heartbeat_ms.max(1)),
            timeout: Duration::from_millis(sent.timeout_ms),
        }),
        Some(Outcome::Refusal(sent)) => Err(refused(sent)),
        None => Err(garbled("is empty")),
    }
}

/// Guidance, as the agent understands it.
pub(crate) fn guidance(
    outcome: Option<protocol::guidance_reply::Outcome>,
) -> Result<Guidance, CoordinationError> {
    use protocol::guidance_reply::Outcome;
    let sent = match outcome {
        Some(Outcome::Guidance(sent)) => sent,
        Some(Outcome::Refusal(sent)) => return Err(refused(sent)),
        None => return Err(garbled("is empty")),
    };
    let deviations = <[f64; 7]>::try_from(sent.deviations.as_slice())
        .map_err(|_| garbled("has another number of deviations"))?;
    let guidance = Guidance {
        global: GlobalState {
            others: sent.others as usize,
            limit_cpu: sent.limit_cpu,
            limit_memory: sent.limit_memory,
            vertical: sent.vertical,
            horizontal: sent.horizontal,
            preservation: sent.preservation,
            use_cpu: sent.use_cpu,
            use_memory: sent.use_memory,
            deviations,
        },
        team_reward: sent.team_reward,
        members: sent.members as usize,
    };
    // A learner stops at a number that is none: it must not come from outside.
    let is_finite = guidance.team_reward.is_finite()
        && guidance.global.features(1.0).iter().all(|figure| figure.is_finite());
    if is_finite { Ok(guidance) } else { Err(garbled("has a number that is not finite")) }
}

/// The answer to a message that brings nothing back.
pub(crate) fn nothing(refusal: Option<protocol::Refusal>) -> Result<(), CoordinationError> {
    refusal.map_or(Ok(()), |sent| Err(refused(sent)))
}

fn refused(sent: protocol::Refusal) -> CoordinationError {
    match usize::try_from(sent.kind).ok().and_then(RefusalKind::from_index) {
        Some(kind) => CoordinationError::Refused(Refusal { kind, reason: sent.reason }),
        None => garbled("is a refusal of a kind that this version does not know"),
    }
}

fn garbled(what: &str) -> CoordinationError {
    let reason = format!("its answer {what}: it speaks another version of the protocol");
    CoordinationError::Away { reason }
}
