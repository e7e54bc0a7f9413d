//! Filters for objects: regular expressions that match `Kind/name`.

use super::TankaError;
use super::object::Object;
use regex::{Regex, RegexBuilder};

/// Memory limit of one compiled expression, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A filter for objects. Without expressions it selects all objects.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    includes: Vec<Regex>,
    excludes: Vec<Regex>,
}

impl Filter {
    /// Builds a filter that selects objects matching one of `includes` (all objects if it is empty) and none of
    /// `excludes`. Expressions ignore case and must match the whole of `Deployment/web`.
    pub fn new<I, E>(includes: I, excludes: E) -> Result<Self, TankaError>
    where
        I: IntoIterator<Item: AsRef<str>>,
        E: IntoIterator<Item: AsRef<str>>,
    {
        let compiled = |text: &str| compile(text, text);
        Ok(Self {
            includes: includes
                .into_iter()
                .map(|text| compiled(text.as_ref()))
                .collect::<Result<_, _>>()?,
            excludes: excludes
                .into_iter()
                .map(|text| compiled(text.as_ref()))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Builds a filter with the semantics of `tk show -t`: `!` before an expression excludes. As in Tanka, such an
    /// expression also includes every object that it does not exclude, whatever the other expressions are.
    pub fn targets<T: AsRef<str>>(targets: &[T]) -> Result<Self, TankaError> {
        let mut filter = Self::default();
        for target in targets.iter().map(AsRef::as_ref) {
            match target.strip_prefix('!') {
                Some(excluded) => filter.excludes.push(compile(target, excluded)?),
                None => filter.includes.push(compile(target, target)?),
            }
        }
        if !filter.excludes.is_empty() {
            filter.includes.clear();
        }
        Ok(filter)
    }

    /// True if the filter selects an object.
    pub fn selects(&self, object: &Object) -> bool {
        if self.includes.is_empty() && self.excludes.is_empty() {
            return true;
        }
        let name = match object.name() {
            "" => object.generate_name(),
            name => name,
        };
        let text = format!("{}/{name}", object.kind());
        let matches = |expressions: &[Regex]| expressions.iter().any(|expression| expression.is_match(&text));
        (self.includes.is_empty() || matches(&self.includes)) && !matches(&self.excludes)
    }
}

fn compile(target: &str, expression: &str) -> Result<Regex, TankaError> {
    RegexBuilder::new(&format!("(?i)^{expression}$"))
        .size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|err| TankaError::Filter {
            target: target.to_owned(),
            why: reason(&err),
        })
}

/// Returns the last line of the message. The lines before it draw the expression.
fn reason(err: &regex::Error) -> String {
    let text = err.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Filter;
    use crate::rendering::tanka::Object;
    use serde_json::json;

    fn selected(filter: &Filter) -> Vec<&'static str> {
        let names = ["ConfigMap/l1", "ConfigMap/l2", "Deployment/web", "Job/job-"];
        let is_selected = |text: &&str| {
            let (kind, name) = text.split_once('/').unwrap();
            let field = if name.ends_with('-') {
                "generateName"
            } else {
                "name"
            };
            filter.selects(&Object {
                path: String::new(),
                value: json!({ "kind": kind, "metadata": { field: name } }),
            })
        };
        names.into_iter().filter(is_selected).collect()
    }

    #[test]
    fn targets_mean_what_they_mean_to_tanka() {
        let targets = |targets: &[&str]| selected(&Filter::targets(targets).unwrap());
        assert_eq!(targets(&[]).len(), 4);
        assert_eq!(targets(&["configmap/l.*"]), ["ConfigMap/l1", "ConfigMap/l2"]);
        assert_eq!(targets(&["deployment/w"]), Vec::<&str>::new());
        assert_eq!(
            targets(&["job/.*", "deployment/web"]),
            ["Deployment/web", "Job/job-"]
        );
        assert_eq!(targets(&["!configmap/.*"]), ["Deployment/web", "Job/job-"]);
        assert_eq!(
            targets(&["configmap/.*", "!configmap/l1"]),
            ["ConfigMap/l2", "Deployment/web", "Job/job-"]
        );
    }

    #[test]
    fn includes_and_excludes_mean_what_people_expect() {
        let filter = Filter::new(["configmap/.*"], ["configmap/l1"]).unwrap();
        assert_eq!(selected(&filter), ["ConfigMap/l2"]);
        assert_eq!(selected(&Filter::new([""; 0], ["job/.*"]).unwrap()).len(), 3);
    }

    #[test]
    fn what_is_no_expression_is_quoted() {
        let err = Filter::targets(&["["]).unwrap_err().to_string();
        assert!(
            err.starts_with("`[` is not a regular expression: unclosed character class.\n"),
            "{err}"
        );
        let huge = Filter::targets(&["(a{1000}){1000}"]).unwrap_err().to_string();
        assert!(huge.contains("size limit"), "{huge}");
    }
}
