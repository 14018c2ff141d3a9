//! The wire format of protobuf, as far as reading spans needs it: fields of a message in place,
//! without copies. Generated code would allocate every string and attribute of every span, most
//! of which are not looked at.

use crate::{Error, Result};

/// A part of the input and where it begins in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) offset: u64,
}

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(Message<'a>),
}

impl<'a> Message<'a> {
    /// The fields with their numbers, in the order of the message.
    pub(super) fn fields(self) -> Fields<'a> {
        Fields { rest: self.bytes, end: self.offset + self.bytes.len() as u64 }
    }

    pub(super) fn text(self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes).map_err(|_| self.error("a name is not UTF-8".to_owned()))
    }

    pub(super) fn error(self, reason: String) -> Error {
        Error::Protobuf { offset: self.offset, reason }
    }
}

pub(super) struct Fields<'a> {
    rest: &'a [u8],
    /// Offset of the end of the message.
    end: u64,
}

impl<'a> Fields<'a> {
    fn next_field(&mut self) -> Result<(u32, Value<'a>)> {
        let offset = self.offset();
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| Error::Protobuf {
            offset,
            reason: format!("{} is no field number", tag >> 3),
        })?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            5 => {
                self.array::<4>()?;
                Value::Fixed32
            }
            2 => {
                let length = self.varint()?;
                let offset = self.offset();
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                Value::Bytes(Message { bytes: self.take(length)?, offset })
            }
            wire_type => {
                let reason = format!("wire type {wire_type} of field {number} is unknown");
                return Err(Error::Protobuf { offset, reason });
            }
        };
        Ok((number, value))
    }

    fn offset(&self) -> u64 {
        self.end - self.rest.len() as u64
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(Error::Protobuf {
                offset: self.offset(),
                reason: format!("{count} bytes are announced, {} are there", self.rest.len()),
            }),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for (index, byte) in self.rest.iter().take(MAX_VARINT).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        let reason = match self.rest.len() < MAX_VARINT {
            true => "the message is cut off in a number",
            false => "a number has more than 64 bits",
        };
        Err(Error::Protobuf { offset: self.offset(), reason: reason.to_owned() })
    }
}

/// Bytes of the longest number.
pub(super) const MAX_VARINT: usize = 10;

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.next_field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}
