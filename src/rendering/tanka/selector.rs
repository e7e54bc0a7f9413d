//! Label selectors in the syntax of Kubernetes: `stage=prod,tier in (1,2),!old`.

use super::TankaError;
use std::collections::BTreeMap;

/// A selector of environments by their labels. An empty selector selects all environments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    Exists(String),
    Absent(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
}

impl Selector {
    /// Parses a selector.
    pub fn parse(text: &str) -> Result<Self, TankaError> {
        let requirements = split(text).into_iter().map(|part| {
            requirement(part.trim()).map_err(|why| TankaError::Selector {
                selector: text.to_owned(),
                why,
            })
        });
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        Ok(Self(requirements.collect::<Result<_, _>>()?))
    }

    /// True if the selector selects an environment with these labels.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| match requirement {
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::Absent(key) => !labels.contains_key(key),
            Requirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => !labels.get(key).is_some_and(|value| values.contains(value)),
        })
    }
}

/// Returns the parts between commas that are outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    text.split(move |character| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    })
    .collect()
}

fn requirement(text: &str) -> Result<Requirement, String> {
    if let Some(name) = text.strip_prefix('!') {
        return Ok(Requirement::Absent(key(name)?));
    }
    if let Some((name, value)) = text.split_once("!=") {
        return Ok(Requirement::NotIn(key(name)?, vec![value_of(value)?]));
    }
    if let Some((name, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Requirement::In(key(name)?, vec![value_of(value)?]));
    }
    if let Some((head, values)) = text.split_once('(') {
        let values = values.trim_end().strip_suffix(')').ok_or("a `)` is missing")?;
        let values = values.split(',').map(value_of).collect::<Result<_, _>>()?;
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(name), Some("in"), None) => Ok(Requirement::In(key(name)?, values)),
            (Some(name), Some("notin"), None) => Ok(Requirement::NotIn(key(name)?, values)),
            _ => Err("before `(`, write a label and `in` or `notin`".to_owned()),
        };
    }
    Ok(Requirement::Exists(key(text)?))
}

fn key(text: &str) -> Result<String, String> {
    let text = text.trim();
    let allowed = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    if text.is_empty() || !text.chars().all(allowed) {
        return Err(format!("`{text}` is not the name of a label"));
    }
    Ok(text.to_owned())
}

fn value_of(text: &str) -> Result<String, String> {
    let text = text.trim();
    let allowed = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if !text.chars().all(allowed) {
        return Err(format!("`{text}` is not the value of a label"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Selector;

    #[test]
    fn labels_are_selected_as_kubernetes_selects_them() {
        let labels =
            [("stage", "prod"), ("tier", "1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let labels = labels.into();
        for (selector, expected) in [
            ("", true),
            ("stage=prod", true),
            ("stage == prod , tier=1", true),
            ("stage=dev", false),
            ("stage!=dev", true),
            ("other!=dev", true),
            ("stage", true),
            ("!stage", false),
            ("!other", true),
            ("stage in (dev, prod)", true),
            ("stage notin (dev,prod)", false),
            ("other notin (x),tier in (1,2)", true),
            ("other in (x)", false),
            ("stage=", false),
        ] {
            assert_eq!(
                Selector::parse(selector).unwrap().selects(&labels),
                expected,
                "{selector}"
            );
        }
    }

    #[test]
    fn what_is_no_selector_says_so() {
        for (selector, why) in [
            (",", "`` is not the name of a label"),
            ("a=b=c", "`b=c` is not the value of a label"),
            ("a in (b", "a `)` is missing"),
            ("a on (b)", "before `(`, write a label and `in` or `notin`"),
            ("a b", "`a b` is not the name of a label"),
            ("=x", "`` is not the name of a label"),
        ] {
            let err = Selector::parse(selector).unwrap_err().to_string();
            assert_eq!(err, format!("`{selector}` is not a label selector: {why}"));
        }
    }
}
