//! Values that the JSON formats share: ids in hexadecimal digits, numbers that may be texts,
//! attributes of which a few matter.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Attributes that name an instance of a service, the best first: OpenTelemetry's, then Jaeger's.
const INSTANCE_KEYS: [&str; 5] =
    ["service.instance.id", "k8s.pod.name", "host.name", "hostname", "ip"];

/// How good an attribute is as the name of an instance; lower is better.
pub(super) fn instance_rank(key: &str) -> Option<usize> {
    INSTANCE_KEYS.iter().position(|instance_key| *instance_key == key)
}

/// An id in up to 32 hexadecimal digits; empty and null are zero, which stands for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HexId(pub(super) u128);

impl HexId {
    /// The id of a span, which has 16 digits; of longer ones the last are taken, as Jaeger does.
    pub(super) fn span(self) -> u64 {
        self.0 as u64
    }
}

impl<'de> Deserialize<'de> for HexId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HexVisitor;
        impl Visitor<'_> for HexVisitor {
            type Value = HexId;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("an id of up to 32 hexadecimal digits")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<HexId, E> {
                let digits = text.bytes().map(|byte| char::from(byte).to_digit(16));
                let value = match text.len() {
                    0..=32 => digits.into_iter().try_fold(0, |value: u128, digit| {
                        digit.map(|digit| value << 4 | u128::from(digit))
                    }),
                    _ => None,
                };
                value.map(HexId).ok_or_else(|| {
                    let shown: String = text.chars().take(40).collect();
                    E::custom(format!("{shown:?} is not an id of up to 32 hexadecimal digits"))
                })
            }

            fn visit_unit<E: Error>(self) -> Result<HexId, E> {
                Ok(HexId(0))
            }
        }
        deserializer.deserialize_any(HexVisitor)
    }
}

/// A whole number, also as a text (OTLP) or with a fraction, which is cut.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Whole(pub(super) i128);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WholeVisitor;
        impl Visitor<'_> for WholeVisitor {
            type Value = Whole;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a whole number")
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Whole, E> {
                Ok(Whole(value.into()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Whole, E> {
                Ok(Whole(value.into()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Whole, E> {
                // Saturates: what is out of range is counted with the span.
                Ok(Whole(i128::from(value as i64)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Whole, E> {
                let value = text.parse().map(|value: i64| Whole(value.into()));
                let value = value.or_else(|_| text.parse().map(|value: u64| Whole(value.into())));
                value.map_err(|_| {
                    let shown: String = text.chars().take(40).collect();
                    E::custom(format!("{shown:?} is not a whole number"))
                })
            }

            fn visit_unit<E: Error>(self) -> Result<Whole, E> {
                Ok(Whole(0))
            }
        }
        deserializer.deserialize_any(WholeVisitor)
    }
}

impl Whole {
    /// Nanoseconds of microseconds.
    pub(super) fn micros(self) -> i128 {
        self.0 * 1000
    }
}

/// Nanoseconds since 1970, cut to what 64 bits hold; the store counts what is out of range.
pub(super) fn unix_ns(ns: i128) -> u64 {
    ns.clamp(0, i128::from(u64::MAX)) as u64
}

/// A text, or whether something is true; other values do not matter.
#[derive(Debug, Clone, Default)]
pub(super) enum Scalar<'a> {
    Text(Cow<'a, str>),
    Bool(bool),
    #[default]
    Other,
}

impl Scalar<'_> {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether an attribute of this value says yes.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Bool(value) => *value,
            Self::Text(text) => text == "true",
            Self::Other => false,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl<'de> Visitor<'de> for ScalarVisitor {
            type Value = Scalar<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a value")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Bool(value))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Other)
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Other)
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Other)
            }

            fn visit_unit<E: Error>(self) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Other)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Scalar<'de>, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

/// Hands each element of a list, which may be null, to `take`; none is kept.
pub(super) fn for_each<'de, D, T>(deserializer: D, take: impl FnMut(T)) -> Result<(), D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct ListVisitor<T, F>(F, std::marker::PhantomData<T>);
    impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for ListVisitor<T, F> {
        type Value = ();

        fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
            formatter.write_str("a list")
        }

        fn visit_unit<E: Error>(self) -> Result<(), E> {
            Ok(())
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            while let Some(element) = list.next_element()? {
                (self.0)(element);
            }
            Ok(())
        }
    }
    deserializer.deserialize_any(ListVisitor(take, std::marker::PhantomData))
}
