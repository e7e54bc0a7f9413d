//! The cross-check of a value with the second engine, which evaluated the program in a separate process.

use super::canonical::difference;
use super::contract::{CrossCheckResult, EvalError, Evaluation, KnownDifference};

/// Combines the first engine's value with the cross-check by the second. The result depends on everything that either
/// engine read.
pub(super) fn with_cross_check(first: Evaluation, second: Result<Evaluation, EvalError>) -> Evaluation {
    let second = match second {
        Ok(second) => second,
        Err(error) => {
            return Evaluation {
                cross_check: CrossCheckResult::Failed(Box::new(error)),
                ..first
            };
        }
    };
    let mut imports = [first.imports, second.imports].concat();
    imports.sort();
    imports.dedup();
    Evaluation {
        cross_check: compare_values(&first.json, &second.json),
        json: first.json,
        imports: imports.into(),
    }
}

fn compare_values(first: &[u8], second: &[u8]) -> CrossCheckResult {
    if first == second {
        return CrossCheckResult::Agrees;
    }
    let texts = (std::str::from_utf8(first), std::str::from_utf8(second));
    let (Ok(first), Ok(second)) = texts else {
        let error = EvalError::Sandbox("a value is not UTF-8".to_owned());
        return CrossCheckResult::Failed(Box::new(error));
    };
    match difference(first, second) {
        None => CrossCheckResult::Agrees,
        Some(difference) => CrossCheckResult::Differs {
            path: difference.path,
            first: difference.first,
            second: difference.second,
            known: KnownDifference::between(first, second),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::with_cross_check;
    use crate::base::model::RepoPath;
    use crate::rendering::jsonnet::{CrossCheckResult, EvalError, Evaluation, Import, KnownDifference};
    use bytes::Bytes;

    fn evaluated(json: &'static str, absent: &[&str]) -> Evaluation {
        let absent = absent.iter().map(|path| RepoPath::parse(path).unwrap());
        Evaluation {
            json: Bytes::from_static(json.as_bytes()),
            imports: absent.map(|path| Import::Absent { path }).collect(),
            cross_check: CrossCheckResult::NotRun,
        }
    }

    #[test]
    fn a_value_has_the_imports_of_both_engines() {
        let both = with_cross_check(evaluated("{}", &["a", "c"]), Ok(evaluated("{}", &["b", "c"])));
        assert_eq!(
            both,
            Evaluation {
                cross_check: CrossCheckResult::Agrees,
                ..evaluated("{}", &["a", "b", "c"])
            }
        );
    }

    #[test]
    fn values_that_differ_only_in_digits_are_a_known_difference() {
        let differs = with_cross_check(
            evaluated("[\"0.7\"]", &[]),
            Ok(evaluated("[\"0.69999999999999996\"]", &[])),
        );
        let expected = CrossCheckResult::Differs {
            path: "$[0]".to_owned(),
            first: "\"0.7\"".to_owned(),
            second: "\"0.69999999999999996\"".to_owned(),
            known: Some(KnownDifference::Digits),
        };
        assert_eq!(differs.cross_check, expected);
    }

    #[test]
    fn a_different_value_or_a_failure_of_the_second_engine_is_reported() {
        let differs = with_cross_check(evaluated("[1]", &[]), Ok(evaluated("[2]", &[])));
        let expected = CrossCheckResult::Differs {
            path: "$[0]".to_owned(),
            first: "1".to_owned(),
            second: "2".to_owned(),
            known: None,
        };
        assert_eq!(differs.cross_check, expected);
        let time = EvalError::Time { seconds: 1 };
        let failed = with_cross_check(evaluated("1", &[]), Err(time.clone()));
        assert_eq!(failed.cross_check, CrossCheckResult::Failed(Box::new(time)));
    }
}
