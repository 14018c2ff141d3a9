//! JSON of any of the formats: its first keys tell which.

use std::borrow::Cow;
use std::fmt;
use std::io::BufRead;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::jaeger::Traces;
use super::otlp_json::Resources;
use super::zipkin::SpanOrList;
use super::{Format, check_expected};
use crate::{Error, Result, SpanStore};

/// Reads one document after another, as files of lines have them.
pub(super) fn read(
    input: &mut dyn BufRead,
    expected: Option<Format>,
    store: &mut SpanStore,
) -> Result<Format> {
    if input.fill_buf()?.starts_with(&[0xef, 0xbb, 0xbf]) {
        input.consume(3);
    }
    let mut deserializer = serde_json::Deserializer::from_reader(input);
    let mut found = None;
    loop {
        let document = Document { store, expected, found: &mut found };
        let result = document.deserialize(&mut deserializer);
        if let Some(found) = found {
            check_expected(found, expected)?;
        }
        result.map_err(|error| Error::Json { reason: error.to_string() })?;
        if deserializer.end().is_ok() {
            break;
        }
    }
    found.ok_or(Error::Empty)
}

struct Document<'a> {
    store: &'a mut SpanStore,
    expected: Option<Format>,
    found: &'a mut Option<Format>,
}

impl Document<'_> {
    /// Stops the reading where the format is not the expected one.
    fn is<E: serde::de::Error>(&mut self, format: Format) -> Result<(), E> {
        *self.found = Some(format);
        check_expected(format, self.expected).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(
            "an object with `data` (Jaeger) or `resourceSpans` (OTLP), or a list (Zipkin)",
        )
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut is_known = false;
        while let Some(key) = map.next_key::<Cow<str>>()? {
            match key.as_ref() {
                "data" => {
                    self.is(Format::Jaeger)?;
                    map.next_value_seed(Traces { store: self.store })?;
                }
                "resourceSpans" | "resource_spans" => {
                    self.is(Format::Otlp)?;
                    map.next_value_seed(Resources { store: self.store })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            }
            is_known = true;
        }
        match is_known {
            true => Ok(()),
            false => Err(A::Error::custom(
                "the object has neither `data` (Jaeger) nor `resourceSpans` (OTLP)",
            )),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        self.is(Format::Zipkin)?;
        while list.next_element_seed(SpanOrList { store: self.store })?.is_some() {}
        Ok(())
    }
}
