//! What happens in a program that runs for long: a sentence for people on standard error, or an
//! object on a line for programs on standard output.

use std::time::Instant;

use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::output::print;

/// The form of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub(crate) enum EventForm {
    /// Sentences.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Tells events as they happen.
pub(crate) struct EventLog {
    form: EventForm,
    start: Instant,
}

impl EventLog {
    pub(crate) fn new(form: EventForm) -> Self {
        Self { form, start: Instant::now() }
    }

    pub(crate) fn form(&self) -> EventForm {
        self.form
    }

    /// Tells an event by name, with its fields; people read the sentence instead.
    pub(crate) fn tell(&self, event: &str, fields: Value, sentence: &str) {
        match self.form {
            EventForm::Text => say!("{sentence}"),
            EventForm::Json => {
                let mut record = Map::new();
                record.insert("event".to_owned(), event.into());
                let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
                record.insert("at_ms".to_owned(), elapsed.into());
                if let Value::Object(fields) = fields {
                    record.extend(fields);
                }
                print(&format!("{}\n", Value::Object(record)));
            }
        }
    }
}
