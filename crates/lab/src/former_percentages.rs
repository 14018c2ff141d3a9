//! Ratios that were percentages under another key in the release before. Records that programs read
//! have both keys for one release, and files with the old key alone can still be read.

use serde_json::Value;

/// A ratio from 0 to 1 whose key held percent before.
#[derive(Debug, Clone, Copy)]
pub struct FormerPercentage {
    /// The key of the ratio.
    pub new: &'static str,
    /// The key that the percentage had.
    pub old: &'static str,
}

/// Adds the percentage under its old key wherever a record, or one inside it, has the ratio.
pub fn with_former_percentages(mut record: Value, former: &[FormerPercentage]) -> Value {
    for_each_object(&mut record, &mut |fields| {
        for FormerPercentage { new, old } in former {
            if let Some(ratio) = fields.get(*new) {
                let percentage = scaled(ratio, |ratio| ratio * 100.0);
                fields.insert((*old).to_owned(), percentage);
            }
        }
    });
    record
}

/// Replaces old keys by new ones wherever a record, or one inside it, has the old key alone.
pub fn without_former_percentages(mut record: Value, former: &[FormerPercentage]) -> Value {
    for_each_object(&mut record, &mut |fields| {
        for FormerPercentage { new, old } in former {
            if let Some(percentage) = fields.remove(*old)
                && !fields.contains_key(*new)
            {
                let ratio = scaled(&percentage, |percentage| percentage / 100.0);
                fields.insert((*new).to_owned(), ratio);
            }
        }
    });
    record
}

fn for_each_object(value: &mut Value, change: &mut dyn FnMut(&mut serde_json::Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(|inner| for_each_object(inner, change));
            change(fields);
        }
        Value::Array(values) => values.iter_mut().for_each(|inner| for_each_object(inner, change)),
        _ => {}
    }
}

/// A number, or all numbers of a mean with its interval; texts stay as they are.
fn scaled(value: &Value, scale: fn(f64) -> f64) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or(Value::Null, |number| scale(number).into()),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, inner)| (name.clone(), scaled(inner, scale)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FORMER: [FormerPercentage; 1] = [FormerPercentage { new: "loss_ratio", old: "loss_pct" }];

    #[test]
    fn records_have_both_keys_at_any_depth() {
        let record = json!({ "runs": [{ "loss_ratio": 0.25 }, { "loss_ratio": { "mean": 0.5 } }] });
        let expect = json!({ "runs": [
            { "loss_ratio": 0.25, "loss_pct": 25.0 },
            { "loss_ratio": { "mean": 0.5 }, "loss_pct": { "mean": 50.0 } },
        ] });
        assert_eq!(with_former_percentages(record, &FORMER), expect);
    }

    #[test]
    fn an_old_record_is_read_as_a_new_one() {
        let old = json!({ "total": { "loss_pct": 25.0 }, "loss_pct": null });
        let expect = json!({ "total": { "loss_ratio": 0.25 }, "loss_ratio": null });
        assert_eq!(without_former_percentages(old, &FORMER), expect);
        let both = json!({ "loss_ratio": 0.5, "loss_pct": 50.0 });
        assert_eq!(without_former_percentages(both, &FORMER), json!({ "loss_ratio": 0.5 }));
    }
}
