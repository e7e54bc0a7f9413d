//! Label selectors with the semantics of Kubernetes.

use super::rule::{field, items, text};
use serde_json::Value;

/// True if a selector with `matchLabels` and `matchExpressions` selects these labels. An empty selector selects
/// everything, a missing one nothing.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let wanted = field(selector, "matchLabels");
    wanted.is_none_or(|wanted| has_all(wanted, labels))
        && items(selector, "matchExpressions")
            .iter()
            .all(|expression| holds(expression, labels))
}

/// True if all wanted labels are present.
pub(super) fn has_all(wanted: &Value, labels: &Value) -> bool {
    let Some(wanted) = wanted.as_object() else {
        return false;
    };
    wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
}

fn holds(expression: &Value, labels: &Value) -> bool {
    let label = labels.get(text(expression, "key"));
    let is_among = label.is_some_and(|label| items(expression, "values").contains(label));
    match text(expression, "operator") {
        "In" => is_among,
        "NotIn" => !is_among,
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::matches;
    use serde_json::json;

    #[test]
    fn selectors_match_as_in_a_cluster() {
        let labels = json!({ "app": "web", "tier": "front" });
        let expression = |operator: &str| json!({ "matchExpressions": [{ "key": "app", "operator": operator, "values": ["web"] }] });
        for (selector, expected) in [
            (json!(null), false),
            (json!({}), true),
            (json!({ "matchLabels": { "app": "web" } }), true),
            (json!({ "matchLabels": { "app": "api" } }), false),
            (expression("In"), true),
            (expression("NotIn"), false),
            (expression("Exists"), true),
            (expression("DoesNotExist"), false),
            (expression("Near"), false),
        ] {
            assert_eq!(matches(&selector, &labels), expected, "{selector}");
        }
    }
}
