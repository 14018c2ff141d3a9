//! Zipkin's JSON, version 2: spans that carry their service, or lists of them.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::fields::{HexId, Whole, unix_ns};
use crate::{NewSpan, SpanKind, SpanStore};

/// A span, or the list of the spans of one trace.
pub(super) struct SpanOrList<'a> {
    pub(super) store: &'a mut SpanStore,
}

impl<'de> DeserializeSeed<'de> for SpanOrList<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for SpanOrList<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a span, or a list of spans")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let span = Span::deserialize(MapAccessDeserializer::new(map))?.into_new(self.store);
        self.store.push(&span);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(span) = list.next_element::<Span>()? {
            let span = span.into_new(self.store);
            self.store.push(&span);
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Span<'a> {
    trace_id: HexId,
    id: HexId,
    #[serde(default)]
    parent_id: HexId,
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(default)]
    timestamp: Whole,
    #[serde(default)]
    duration: Whole,
    #[serde(borrow, default)]
    local_endpoint: Option<Endpoint<'a>>,
    #[serde(default)]
    tags: Option<Tags>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Endpoint<'a> {
    #[serde(borrow, default)]
    service_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    ipv4: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    ipv6: Option<Cow<'a, str>>,
}

/// Of all tags, the presence of `error` matters.
#[derive(Deserialize, Default)]
struct Tags {
    error: Option<IgnoredAny>,
}

impl Span<'_> {
    fn into_new(self, store: &mut SpanStore) -> NewSpan {
        let endpoint = self.local_endpoint.unwrap_or_default();
        let service = store.intern(&endpoint.service_name.unwrap_or_default());
        let address = endpoint.ipv4.or(endpoint.ipv6);
        NewSpan {
            trace_id: self.trace_id.0,
            span_id: self.id.span(),
            parent_id: self.parent_id.span(),
            service,
            instance: address.map_or(service, |address| store.intern(&address)),
            operation: store.intern(&self.name.unwrap_or_default()),
            start_ns: unix_ns(self.timestamp.micros()),
            end_ns: unix_ns(self.timestamp.micros() + self.duration.micros()),
            kind: SpanKind::by_name(&self.kind.unwrap_or_default()),
            is_error: self.tags.unwrap_or_default().error.is_some(),
            follows_from: false,
        }
    }
}
