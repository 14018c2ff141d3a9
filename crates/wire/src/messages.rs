//! Between what is sent and what is meant. Whatever arrives is checked here or by the
//! coordinator; nothing is filled in.

use std::time::Duration;

use homeostat_core::AgentId;
use homeostat_env::Action;
use homeostat_simppo::{
    AgentName, CoordinationError, Member, Membership, Refusal, RefusalKind, Registration, Seat,
    SeatObservation, Session, StepOutcome,
};

use crate::environment::messages::to_action;
use crate::protocol::coordination::v2 as protocol;
use crate::protocol::environment::v1::Action as SentAction;

impl From<&Member> for protocol::Member {
    fn from(member: &Member) -> Self {
        Self {
            name: member.name.to_string(),
            coordinator_life: member.session.coordinator_life,
            session_number: member.session.number,
        }
    }
}

/// The sender of a message.
pub(crate) fn member(sent: Option<protocol::Member>) -> Result<Member, Refusal> {
    let Some(sent) = sent else {
        let reason = "the message does not say who sent it";
        return Err(Refusal::new(RefusalKind::Incomplete, reason));
    };
    let session = Session { coordinator_life: sent.coordinator_life, number: sent.session_number };
    Ok(Member { name: AgentName::new(&sent.name)?, session })
}

/// What an agent says of itself.
pub(crate) fn registration(
    sent: protocol::RegisterRequest,
) -> Result<(AgentName, Registration), Refusal> {
    let function = (!sent.function.is_empty()).then_some(sent.function);
    let incarnation = sent.incarnation;
    Ok((AgentName::new(&sent.name)?, Registration { incarnation, function }))
}

/// An action; the coordinator knows whether it is one of its platform.
pub(crate) fn action(sent: Option<SentAction>) -> Result<Action, Refusal> {
    let kind = if sent.is_some() { RefusalKind::UnknownAction } else { RefusalKind::Incomplete };
    to_action(sent).map_err(|error| Refusal::new(kind, error.to_string()))
}

impl From<&Membership> for protocol::Membership {
    fn from(membership: &Membership) -> Self {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let seat = |seat: &Seat| protocol::Seat {
            agent: seat.agent.number(),
            function: seat.function.clone(),
        };
        Self {
            member: Some((&membership.member).into()),
            seat: membership.seat.as_ref().map(seat),
            env: membership.env.clone(),
            seats: membership.seats,
            heartbeat_ms: milliseconds(membership.heartbeat),
            timeout_ms: milliseconds(membership.timeout),
            step_wait_ms: milliseconds(membership.step_wait),
        }
    }
}

impl From<SeatObservation> for protocol::Observation {
    fn from(SeatObservation { step, state, others }: SeatObservation) -> Self {
        Self { step, state, others }
    }
}

impl From<StepOutcome> for protocol::StepOutcome {
    fn from(outcome: StepOutcome) -> Self {
        Self {
            reward: outcome.reward,
            team_reward: outcome.team_reward,
            members: u32::try_from(outcome.members).unwrap_or(u32::MAX),
            terminated: outcome.terminated,
            truncated: outcome.truncated,
            state: outcome.state,
            others: outcome.others,
            next: outcome.next.map(Into::into),
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
    let sent = match outcome {
        Some(Outcome::Membership(sent)) => sent,
        Some(Outcome::Refusal(sent)) => return Err(refused(sent)),
        None => return Err(garbled("is empty")),
    };
    let seat =
        |seat: protocol::Seat| Seat { agent: AgentId::new(seat.agent), function: seat.function };
    Ok(Membership {
        member: member(sent.member).map_err(|_| garbled("names no member"))?,
        seat: sent.seat.map(seat),
        env: sent.env,
        seats: sent.seats,
        // At least one millisecond: an agent waits this long between two calls.
        heartbeat: Duration::from_millis(sent.heartbeat_ms.max(1)),
        timeout: Duration::from_millis(sent.timeout_ms),
        step_wait: Duration::from_millis(sent.step_wait_ms),
    })
}

/// What a seat sees, as the agent understands it.
pub(crate) fn seen(
    outcome: Option<protocol::observe_reply::Outcome>,
) -> Result<Option<SeatObservation>, CoordinationError> {
    use protocol::observe_reply::Outcome;
    match outcome {
        Some(Outcome::Seen(sent)) => sent.observation.map(observation).transpose(),
        Some(Outcome::Refusal(sent)) => Err(refused(sent)),
        None => Err(garbled("is empty")),
    }
}

/// The outcome of a step, as the agent understands it.
pub(crate) fn step_outcome(
    outcome: Option<protocol::act_reply::Outcome>,
) -> Result<StepOutcome, CoordinationError> {
    use protocol::act_reply::Outcome;
    let sent = match outcome {
        Some(Outcome::Step(sent)) => sent,
        Some(Outcome::Refusal(sent)) => return Err(refused(sent)),
        None => return Err(garbled("is empty")),
    };
    // A learner stops at a number that is not finite: none may come from outside.
    require_finite([&sent.state, &sent.others])?;
    if !sent.reward.is_finite() || !sent.team_reward.is_finite() {
        return Err(garbled("has a reward that is not finite"));
    }
    Ok(StepOutcome {
        reward: sent.reward,
        team_reward: sent.team_reward,
        members: sent.members as usize,
        terminated: sent.terminated,
        truncated: sent.truncated,
        state: sent.state,
        others: sent.others,
        next: sent.next.map(observation).transpose()?,
    })
}

fn observation(sent: protocol::Observation) -> Result<SeatObservation, CoordinationError> {
    require_finite([&sent.state, &sent.others])?;
    Ok(SeatObservation { step: sent.step, state: sent.state, others: sent.others })
}

fn require_finite(figures: [&Vec<f32>; 2]) -> Result<(), CoordinationError> {
    let is_finite = figures.into_iter().flatten().all(|figure| figure.is_finite());
    if is_finite { Ok(()) } else { Err(garbled("has a number that is not finite")) }
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
