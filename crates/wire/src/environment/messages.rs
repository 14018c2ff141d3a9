//! Between the messages of the protocol and our own types. Whatever comes from the other side
//! may be anything.

use homeostat_env::{Action, Space};
use tonic::{Code, Status};

use super::{EnvironmentError, Opening, Stepped};
use crate::protocol::environment::v1 as protocol;

/// Numbers of one message, at most.
const MAX_NUMBERS: usize = 1024;

pub(super) fn to_status(error: &EnvironmentError) -> Status {
    let code = match error {
        EnvironmentError::NotFound(_) => Code::NotFound,
        EnvironmentError::NoAction(_) => Code::InvalidArgument,
        EnvironmentError::NotNow(_) => Code::FailedPrecondition,
        EnvironmentError::TooLate(_) => Code::Aborted,
        EnvironmentError::Away(_) => Code::Unavailable,
        EnvironmentError::Full(_) => Code::ResourceExhausted,
        EnvironmentError::Denied(_) => Code::Unauthenticated,
    };
    Status::new(code, error.to_string())
}

pub(super) fn from_status(status: &Status) -> EnvironmentError {
    let reason = match std::error::Error::source(status) {
        Some(source) => crate::listening::chain(source),
        None => status.message().to_owned(),
    };
    match status.code() {
        Code::NotFound => EnvironmentError::NotFound(reason),
        Code::InvalidArgument | Code::OutOfRange => EnvironmentError::NoAction(reason),
        Code::FailedPrecondition => EnvironmentError::NotNow(reason),
        Code::Aborted => EnvironmentError::TooLate(reason),
        Code::ResourceExhausted => EnvironmentError::Full(reason),
        // Something answers there, and it is no environment of this version.
        Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented => {
            EnvironmentError::Denied(reason)
        }
        _ => EnvironmentError::Away(reason),
    }
}

pub(crate) fn to_action(sent: Option<protocol::Action>) -> Result<Action, EnvironmentError> {
    use protocol::action::Kind;
    let wrong = |why: &str| EnvironmentError::NoAction(why.to_owned());
    match sent.and_then(|sent| sent.kind).ok_or_else(|| wrong("the message has no action"))? {
        Kind::Discrete(choice) => Ok(Action::Discrete(choice as usize)),
        Kind::MultiDiscrete(sent) if sent.choices.len() > MAX_NUMBERS => {
            Err(wrong("an action has at most 1024 numbers"))
        }
        Kind::MultiDiscrete(sent) => {
            Ok(Action::MultiDiscrete(sent.choices.iter().map(|choice| *choice as usize).collect()))
        }
        Kind::Continuous(sent) if sent.values.len() > MAX_NUMBERS => {
            Err(wrong("an action has at most 1024 numbers"))
        }
        Kind::Continuous(sent) => Ok(Action::Continuous(sent.values)),
    }
}

pub(crate) fn from_action(action: &Action) -> protocol::Action {
    use protocol::action::Kind;
    // A choice beyond what the protocol can say is beyond every space as well.
    let choice = |choice: &usize| u32::try_from(*choice).unwrap_or(u32::MAX);
    let kind = match action {
        Action::Discrete(one) => Kind::Discrete(choice(one)),
        Action::MultiDiscrete(choices) => {
            Kind::MultiDiscrete(protocol::Choices { choices: choices.iter().map(choice).collect() })
        }
        Action::Continuous(values) => Kind::Continuous(protocol::Point { values: values.clone() }),
    };
    protocol::Action { kind: Some(kind) }
}

fn from_space(space: &Space) -> protocol::Space {
    use protocol::space::Kind;
    let kind = match space {
        Space::Box { low, high } => {
            Kind::Box(protocol::Box { low: low.clone(), high: high.clone() })
        }
        Space::Discrete(n) => Kind::Discrete(*n as u32),
        Space::MultiDiscrete(n) => Kind::MultiDiscrete(protocol::Choices {
            choices: n.iter().map(|n| *n as u32).collect(),
        }),
    };
    protocol::Space { kind: Some(kind) }
}

fn to_space(sent: Option<protocol::Space>) -> Result<Space, EnvironmentError> {
    use protocol::space::Kind;
    let broken = |why: String| EnvironmentError::Denied(format!("no environment answers: {why}"));
    let space = match sent.and_then(|sent| sent.kind) {
        Some(Kind::Box(sent)) => Space::Box { low: sent.low, high: sent.high },
        Some(Kind::Discrete(n)) => Space::Discrete(n as usize),
        Some(Kind::MultiDiscrete(sent)) => {
            Space::MultiDiscrete(sent.choices.iter().map(|n| *n as usize).collect())
        }
        None => return Err(broken("a space is missing".to_owned())),
    };
    space.validate().map_err(|error| broken(error.to_string()))?;
    Ok(space)
}

pub(super) fn from_opening(opening: Opening) -> protocol::InitReply {
    let fields = |fields: Vec<(String, String)>| {
        fields.into_iter().map(|(name, meaning)| protocol::Field { name, meaning }).collect()
    };
    protocol::InitReply {
        session: opening.session,
        observation: Some(from_space(&opening.observation)),
        action: Some(from_space(&opening.action)),
        observation_fields: fields(opening.observation_fields),
        action_fields: fields(opening.action_fields),
        reward: opening.reward,
        time_limit: opening.time_limit,
    }
}

pub(super) fn to_opening(sent: protocol::InitReply) -> Result<Opening, EnvironmentError> {
    let fields = |fields: Vec<protocol::Field>| {
        fields.into_iter().map(|field| (field.name, field.meaning)).collect()
    };
    Ok(Opening {
        session: sent.session,
        observation: to_space(sent.observation)?,
        action: to_space(sent.action)?,
        observation_fields: fields(sent.observation_fields),
        action_fields: fields(sent.action_fields),
        reward: sent.reward,
        time_limit: sent.time_limit,
    })
}

pub(super) fn from_stepped(stepped: Stepped) -> protocol::StepReply {
    protocol::StepReply {
        state: stepped.state,
        reward: stepped.reward,
        terminated: stepped.terminated,
        truncated: stepped.truncated,
        info: stepped.info.into_iter().collect(),
    }
}

pub(super) fn to_stepped(sent: protocol::StepReply) -> Stepped {
    let mut info: Vec<_> = sent.info.into_iter().collect();
    info.sort_by(|(a, _), (b, _)| a.cmp(b));
    Stepped {
        state: sent.state,
        reward: sent.reward,
        terminated: sent.terminated,
        truncated: sent.truncated,
        info,
    }
}
