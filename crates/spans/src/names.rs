//! Strings kept once: services, operations and instances repeat in every span.

use std::collections::BTreeMap;

/// A string that is kept once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameId(u32);

/// Longest name in bytes; real ones have a few dozen, and URLs in operation names may have any.
const MAX_NAME_BYTES: usize = 256;

/// What stands for names beyond the limit; the first name of all.
const OTHER: &str = "(other)";
const OTHER_ID: NameId = NameId(0);

/// All names, up to a limit.
#[derive(Debug)]
pub(crate) struct Names {
    // Ordered, not hashed: names come from outside and could be chosen to collide.
    ids: BTreeMap<Box<str>, NameId>,
    texts: Vec<Box<str>>,
    max_names: usize,
    /// The last answers by a few bits of the text: spans repeat a few names.
    recent: Vec<NameId>,
}

const RECENT: usize = 1024;

impl Names {
    pub(crate) fn new(max_names: usize) -> Self {
        let mut names =
            Self { ids: BTreeMap::new(), texts: Vec::new(), max_names, recent: Vec::new() };
        names.insert(OTHER);
        names.recent = vec![OTHER_ID; RECENT];
        names
    }

    /// The id of a name and whether the name was kept as it is. Long names are cut; names beyond
    /// the limit are all [`OTHER`].
    pub(crate) fn intern(&mut self, text: &str) -> (NameId, bool) {
        let cut = match text.len() > MAX_NAME_BYTES {
            true => &text[..text.floor_char_boundary(MAX_NAME_BYTES)],
            false => text,
        };
        let slot = slot(cut.as_bytes());
        let recent = self.recent[slot];
        if self.text(recent) == cut {
            return (recent, cut.len() == text.len());
        }
        let id = match self.ids.get(cut) {
            Some(id) => *id,
            None if self.texts.len() > self.max_names => return (OTHER_ID, false),
            None => self.insert(cut),
        };
        self.recent[slot] = id;
        (id, cut.len() == text.len())
    }

    pub(crate) fn text(&self, id: NameId) -> &str {
        &self.texts[id.0 as usize]
    }

    fn insert(&mut self, text: &str) -> NameId {
        let id = NameId(u32::try_from(self.texts.len()).expect("the limit is far below 2^32"));
        self.texts.push(text.into());
        self.ids.insert(text.into(), id);
        id
    }
}

/// A place for a text among the recent ones; equal texts have equal places.
fn slot(bytes: &[u8]) -> usize {
    let ends = match bytes {
        [] => 0,
        [first, .., last] => usize::from(*first) * 31 + usize::from(*last),
        [only] => usize::from(*only),
    };
    let middle = bytes.get(bytes.len() / 2).copied().map_or(0, usize::from);
    (bytes.len().wrapping_mul(131) + ends * 7 + middle * 61) % RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_id_and_other_texts_another() {
        let mut names = Names::new(10);
        let (a, kept) = names.intern("cart");
        assert!(kept);
        assert_eq!(names.intern("cart"), (a, true));
        let (b, _) = names.intern("caxt");
        assert_ne!(a, b);
        assert_eq!((names.text(a), names.text(b)), ("cart", "caxt"));
        assert!(names.intern("").1);
    }

    #[test]
    fn names_beyond_the_limits_are_cut_or_put_together() {
        let mut names = Names::new(2);
        let long = "é".repeat(MAX_NAME_BYTES);
        let (id, kept) = names.intern(&long);
        assert!(!kept);
        assert_eq!(names.text(id).len(), MAX_NAME_BYTES);
        names.intern("second");
        let (third, kept) = names.intern("third");
        assert_eq!((names.text(third), kept), (OTHER, false));
        assert!(names.intern("second").1);
    }
}
