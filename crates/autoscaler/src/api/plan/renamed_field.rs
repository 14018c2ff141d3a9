//! Fields with a deprecated name.

use super::{PlanError, Result};

/// A field that has another name since this release. The old one stays in the schema for one
/// release, since the API server drops fields that are not in it.
pub(super) struct RenamedField<'a, T> {
    pub(super) parent: &'a str,
    pub(super) name: &'a str,
    pub(super) value: &'a Option<T>,
    pub(super) old_name: &'a str,
    pub(super) old_value: &'a Option<T>,
}

/// A value and the field that it comes from.
pub(super) struct FieldValue<T> {
    pub(super) field: String,
    pub(super) value: T,
}

impl<T: Clone + PartialEq> RenamedField<'_, T> {
    /// The value of the field, under either name; appends to `deprecated` if it is the old one.
    pub(super) fn resolve(
        self,
        default: impl FnOnce() -> T,
        deprecated: &mut Vec<String>,
    ) -> Result<FieldValue<T>> {
        let Self { parent, name, value, old_name, old_value } = self;
        let (field, old_field) = (format!("{parent}.{name}"), format!("{parent}.{old_name}"));
        let default = default();
        // The schema of the release before had this default, which the API server wrote into
        // every object: it does not mean that a user typed it.
        let old_value = old_value.as_ref().filter(|old| **old != default);
        match (value, old_value) {
            (Some(value), Some(old)) if old != value => {
                let problem = format!("deprecated and in conflict with {name}; remove {old_name}");
                Err(PlanError::new(old_field, problem))
            }
            (Some(value), _) => Ok(FieldValue { field, value: value.clone() }),
            (None, Some(old)) => {
                deprecated.push(format!("{old_field} is deprecated, use {name}"));
                Ok(FieldValue { field: old_field, value: old.clone() })
            }
            (None, None) => Ok(FieldValue { field, value: default }),
        }
    }
}
