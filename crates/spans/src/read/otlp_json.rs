//! OTLP as JSON: the same messages as in protobuf, with ids in hexadecimal digits.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::fields::{HexId, Scalar, Whole, for_each, instance_rank, unix_ns};
use crate::{NameId, NewSpan, SpanKind, SpanStore};

/// The list `resourceSpans`.
pub(super) struct Resources<'a> {
    pub(super) store: &'a mut SpanStore,
}

impl<'de> DeserializeSeed<'de> for Resources<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Resources<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a list of resources with their spans")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut pending = Vec::new();
        while list
            .next_element_seed(ResourceSpans { store: self.store, pending: &mut pending })?
            .is_some()
        {}
        Ok(())
    }
}

/// Spans of one resource. They wait until it is known: keys have no order.
struct ResourceSpans<'a> {
    store: &'a mut SpanStore,
    pending: &'a mut Vec<NewSpan>,
}

impl<'de> DeserializeSeed<'de> for ResourceSpans<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ResourceSpans<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("an object with `resource` and `scopeSpans`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut resource = Resource::default();
        self.pending.clear();
        while let Some(key) = map.next_key::<Cow<str>>()? {
            match key.as_ref() {
                "resource" => resource = map.next_value()?,
                "scopeSpans" | "scope_spans" => {
                    map.next_value_seed(Scopes { store: self.store, pending: self.pending })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let service = self.store.intern(&resource.attributes.service);
        let instance = match &resource.attributes.instance {
            Some((_, instance)) => self.store.intern(instance),
            None => service,
        };
        for span in self.pending.drain(..) {
            self.store.push(&NewSpan { service, instance, ..span });
        }
        Ok(())
    }
}

/// The list `scopeSpans`.
struct Scopes<'a> {
    store: &'a mut SpanStore,
    pending: &'a mut Vec<NewSpan>,
}

impl<'de> DeserializeSeed<'de> for Scopes<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scopes<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a list of scopes with their spans")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Scope { store: self.store, pending: self.pending })?.is_some()
        {
        }
        Ok(())
    }
}

struct Scope<'a> {
    store: &'a mut SpanStore,
    pending: &'a mut Vec<NewSpan>,
}

impl<'de> DeserializeSeed<'de> for Scope<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Scope<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("an object with `spans`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<str>>()? {
            match key.as_ref() {
                "spans" => {
                    map.next_value_seed(Spans { store: self.store, pending: self.pending })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct Spans<'a> {
    store: &'a mut SpanStore,
    pending: &'a mut Vec<NewSpan>,
}

impl<'de> DeserializeSeed<'de> for Spans<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { store, pending } = self;
        for_each(deserializer, |span: Span| {
            if pending.len() >= store.limits().max_spans {
                store.count_over_limit();
                return;
            }
            pending.push(span.into_new(store));
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Span<'a> {
    #[serde(alias = "trace_id")]
    trace_id: HexId,
    #[serde(alias = "span_id")]
    span_id: HexId,
    #[serde(alias = "parent_span_id", default)]
    parent_span_id: HexId,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(default)]
    kind: Kind,
    #[serde(alias = "start_time_unix_nano", default)]
    start_time_unix_nano: Whole,
    #[serde(alias = "end_time_unix_nano", default)]
    end_time_unix_nano: Whole,
    #[serde(default)]
    status: Option<Status>,
}

impl Span<'_> {
    /// The service and the instance are filled in later.
    fn into_new(self, store: &mut SpanStore) -> NewSpan {
        let operation = store.intern(&self.name);
        let unknown: NameId = operation;
        NewSpan {
            trace_id: self.trace_id.0,
            span_id: self.span_id.span(),
            parent_id: self.parent_span_id.span(),
            service: unknown,
            instance: unknown,
            operation,
            start_ns: unix_ns(self.start_time_unix_nano.0),
            end_ns: unix_ns(self.end_time_unix_nano.0),
            kind: self.kind.0,
            is_error: self.status.is_some_and(|status| status.code.0),
            follows_from: false,
        }
    }
}

/// A number or a name.
#[derive(Default)]
struct Kind(SpanKind);

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_name(deserializer, |number, name| {
            Kind(number.map_or_else(|| SpanKind::by_name(name), SpanKind::by_number))
        })
    }
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: IsError,
}

/// Whether a status code, a number or a name, is that of an error.
#[derive(Default)]
struct IsError(bool);

impl<'de> Deserialize<'de> for IsError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_name(deserializer, |number, name| {
            IsError(number == Some(2) || name == "STATUS_CODE_ERROR")
        })
    }
}

/// Values of enumerations are numbers, or names in JSON of older versions.
fn number_or_name<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    make: impl FnOnce(Option<u64>, &str) -> T,
) -> Result<T, D::Error> {
    struct EnumVisitor<F>(F);
    impl<T, F: FnOnce(Option<u64>, &str) -> T> Visitor<'_> for EnumVisitor<F> {
        type Value = T;

        fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
            formatter.write_str("a number or a name")
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
            Ok((self.0)(Some(number), ""))
        }

        fn visit_str<E: Error>(self, name: &str) -> Result<T, E> {
            Ok((self.0)(None, name))
        }
    }
    deserializer.deserialize_any(EnumVisitor(make))
}

#[derive(Deserialize, Default)]
struct Resource {
    #[serde(default)]
    attributes: ResourceAttributes,
}

#[derive(Default)]
struct ResourceAttributes {
    service: String,
    instance: Option<(usize, String)>,
}

impl<'de> Deserialize<'de> for ResourceAttributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Attribute<'a> {
            #[serde(borrow, default)]
            key: Cow<'a, str>,
            #[serde(borrow, default)]
            value: AnyValue<'a>,
        }
        #[derive(Deserialize, Default)]
        struct AnyValue<'a> {
            #[serde(rename = "stringValue", alias = "string_value", borrow, default)]
            text: Scalar<'a>,
        }
        let mut attributes = Self::default();
        for_each(deserializer, |attribute: Attribute| {
            let Some(text) = attribute.value.text.text() else { return };
            match instance_rank(&attribute.key) {
                Some(rank)
                    if attributes.instance.as_ref().is_none_or(|(other, _)| rank < *other) =>
                {
                    attributes.instance = Some((rank, text.to_owned()));
                }
                None if attribute.key == "service.name" => attributes.service = text.to_owned(),
                _ => {}
            }
        })?;
        Ok(attributes)
    }
}
