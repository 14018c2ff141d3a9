//! Jaeger's JSON: traces with spans, and the processes that spans refer to, which come last.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::fields::{HexId, Scalar, Whole, for_each, instance_rank, unix_ns};
use crate::{NameId, NewSpan, SpanKind, SpanStore};

/// The list `data`.
pub(super) struct Traces<'a> {
    pub(super) store: &'a mut SpanStore,
}

impl<'de> DeserializeSeed<'de> for Traces<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Traces<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a list of traces")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut pending = Vec::new();
        while list.next_element_seed(Trace { store: self.store, pending: &mut pending })?.is_some()
        {
        }
        Ok(())
    }
}

/// One trace. Spans wait for the processes at its end.
struct Trace<'a> {
    store: &'a mut SpanStore,
    pending: &'a mut Vec<Pending>,
}

struct Pending {
    span: NewSpan,
    process: NameId,
}

impl<'de> DeserializeSeed<'de> for Trace<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Trace<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a trace with `spans` and `processes`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut processes = BTreeMap::new();
        self.pending.clear();
        while let Some(key) = map.next_key::<Cow<str>>()? {
            match key.as_ref() {
                "spans" => {
                    let spans = Spans { store: self.store, pending: self.pending };
                    map.next_value_seed(spans)?;
                }
                "processes" => {
                    let found: BTreeMap<Cow<str>, Process> = map.next_value()?;
                    for (key, process) in found {
                        let (key, names) = (self.store.intern(&key), process.names(self.store));
                        processes.insert(key, names);
                    }
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        for Pending { span, process } in self.pending.drain(..) {
            let (service, instance) =
                processes.get(&process).copied().unwrap_or((span.service, span.instance));
            self.store.push(&NewSpan { service, instance, ..span });
        }
        Ok(())
    }
}

struct Spans<'a> {
    store: &'a mut SpanStore,
    pending: &'a mut Vec<Pending>,
}

impl<'de> DeserializeSeed<'de> for Spans<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { store, pending } = self;
        for_each(deserializer, |span: Span| {
            if pending.len() >= store.limits().max_spans_per_trace {
                store.count_over_limit();
                return;
            }
            pending.push(span.into_pending(store));
        })
    }
}

#[derive(Deserialize)]
struct Span<'a> {
    #[serde(rename = "traceID")]
    trace_id: HexId,
    #[serde(rename = "spanID")]
    span_id: HexId,
    #[serde(rename = "parentSpanID", default)]
    parent_id: HexId,
    #[serde(rename = "operationName", borrow, default)]
    operation: Cow<'a, str>,
    #[serde(default)]
    references: References,
    #[serde(rename = "startTime")]
    start: Whole,
    #[serde(default)]
    duration: Whole,
    #[serde(default)]
    tags: SpanTags,
    #[serde(rename = "processID", borrow, default)]
    process_id: Cow<'a, str>,
    #[serde(borrow)]
    process: Option<Process<'a>>,
}

impl Span<'_> {
    fn into_pending(self, store: &mut SpanStore) -> Pending {
        let (service, instance) = self.process.unwrap_or_default().names(store);
        let parent = self.references.parent.filter(|parent| parent.trace_id == self.trace_id);
        let span = NewSpan {
            trace_id: self.trace_id.0,
            span_id: self.span_id.span(),
            parent_id: parent.map_or(self.parent_id.span(), |parent| parent.span_id.span()),
            service,
            instance,
            operation: store.intern(&self.operation),
            start_ns: unix_ns(self.start.micros()),
            end_ns: unix_ns(self.start.micros() + self.duration.micros()),
            kind: self.tags.kind,
            is_error: self.tags.is_error,
            follows_from: parent.is_some_and(|parent| parent.follows_from),
        };
        Pending { span, process: store.intern(&self.process_id) }
    }
}

/// The parent among the references: the first that the span is a child of, else the first that it
/// follows from.
#[derive(Default)]
struct References {
    parent: Option<Reference>,
}

#[derive(Clone, Copy)]
struct Reference {
    trace_id: HexId,
    span_id: HexId,
    follows_from: bool,
}

impl<'de> Deserialize<'de> for References {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Raw<'a> {
            #[serde(rename = "refType", borrow, default)]
            kind: Cow<'a, str>,
            #[serde(rename = "traceID", default)]
            trace_id: HexId,
            #[serde(rename = "spanID", default)]
            span_id: HexId,
        }
        let mut references = Self::default();
        for_each(deserializer, |raw: Raw| {
            let follows_from = raw.kind == "FOLLOWS_FROM";
            let is_better = match references.parent {
                None => true,
                Some(parent) => parent.follows_from && !follows_from,
            };
            if is_better {
                let (trace_id, span_id) = (raw.trace_id, raw.span_id);
                references.parent = Some(Reference { trace_id, span_id, follows_from });
            }
        })?;
        Ok(references)
    }
}

#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow, default)]
    key: Cow<'a, str>,
    #[serde(borrow, default)]
    value: Scalar<'a>,
}

#[derive(Default)]
struct SpanTags {
    kind: SpanKind,
    is_error: bool,
}

impl<'de> Deserialize<'de> for SpanTags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut tags = Self::default();
        for_each(deserializer, |tag: Tag| match tag.key.as_ref() {
            "span.kind" => tags.kind = SpanKind::by_name(tag.value.text().unwrap_or_default()),
            "error" => tags.is_error |= tag.value.is_true(),
            "otel.status_code" => tags.is_error |= tag.value.text() == Some("ERROR"),
            _ => {}
        })?;
        Ok(tags)
    }
}

/// A service on a host.
#[derive(Deserialize, Default)]
struct Process<'a> {
    #[serde(rename = "serviceName", borrow, default)]
    service: Cow<'a, str>,
    #[serde(default)]
    tags: ProcessTags,
}

impl Process<'_> {
    fn names(&self, store: &mut SpanStore) -> (NameId, NameId) {
        let service = store.intern(&self.service);
        let instance = self.tags.instance.as_ref();
        (service, instance.map_or(service, |(_, instance)| store.intern(instance)))
    }
}

#[derive(Default)]
struct ProcessTags {
    instance: Option<(usize, String)>,
}

impl<'de> Deserialize<'de> for ProcessTags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut tags = Self::default();
        for_each(deserializer, |tag: Tag| {
            if let (Some(rank), Some(text)) = (instance_rank(&tag.key), tag.value.text())
                && tags.instance.as_ref().is_none_or(|(other, _)| rank < *other)
            {
                tags.instance = Some((rank, text.to_owned()));
            }
        })?;
        Ok(tags)
    }
}
