//! The cross-check of a value with the second engine, which evaluated the program in a process of its own.

use super::canonical::difference;
use super::contract::{EvalError, Evaluated, KnownDifference, SecondOpinion};

/// The first engine's value with the cross-check by the second one. It depends on everything that either read.
pub(super) fn joined(first: Evaluated, second: Result<Evaluated, EvalError>) -> Evaluated {
    let second = match second {
        Ok(second) => second,
        Err(error) => {
            return Evaluated {
                second_opinion: SecondOpinion::Failed(Box::new(error)),
                ..first
            };
        }
    };
    let mut imports = [first.imports, second.imports].concat();
    imports.sort();
    imports.dedup();
    Evaluated {
        second_opinion: opinion(&first.json, &second.json),
        json: first.json,
        imports: imports.into(),
    }
}

fn opinion(first: &[u8], second: &[u8]) -> SecondOpinion {
    if first == second {
        return SecondOpinion::Agrees;
    }
    let texts = (std::str::from_utf8(first), std::str::from_utf8(second));
    let (Ok(first), Ok(second)) = texts else {
        let error = EvalError::Jail("a value is not UTF-8".to_owned());
        return SecondOpinion::Failed(Box::new(error));
    };
    match difference(first, second) {
        None => SecondOpinion::Agrees,
        Some(difference) => SecondOpinion::Differs {
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

    use super::joined;
    use crate::jsonnet::{EvalError, Evaluated, Import, KnownDifference, SecondOpinion};
    use crate::model::RepoPath;
    use bytes::Bytes;

    fn evaluated(json: &'static str, absent: &[&str]) -> Evaluated {
        let absent = absent.iter().map(|path| RepoPath::parse(path).unwrap());
        Evaluated {
            json: Bytes::from_static(json.as_bytes()),
            imports: absent.map(|path| Import::Absent { path }).collect(),
            second_opinion: SecondOpinion::NotAsked,
        }
    }

    #[test]
    fn a_value_has_the_imports_of_both_engines() {
        let both = joined(evaluated("{}", &["a", "c"]), Ok(evaluated("{}", &["b", "c"])));
        assert_eq!(
            both,
            Evaluated {
                second_opinion: SecondOpinion::Agrees,
                ..evaluated("{}", &["a", "b", "c"])
            }
        );
    }

    #[test]
    fn values_that_differ_in_digits_only_are_told_as_that() {
        let differs = joined(
            evaluated("[\"0.7\"]", &[]),
            Ok(evaluated("[\"0.69999999999999996\"]", &[])),
        );
        let expected = SecondOpinion::Differs {
            path: "$[0]".to_owned(),
            first: "\"0.7\"".to_owned(),
            second: "\"0.69999999999999996\"".to_owned(),
            known: Some(KnownDifference::Digits),
        };
        assert_eq!(differs.second_opinion, expected);
    }

    #[test]
    fn another_value_and_none_are_told() {
        let differs = joined(evaluated("[1]", &[]), Ok(evaluated("[2]", &[])));
        let expected = SecondOpinion::Differs {
            path: "$[0]".to_owned(),
            first: "1".to_owned(),
            second: "2".to_owned(),
            known: None,
        };
        assert_eq!(differs.second_opinion, expected);
        let time = EvalError::Time { seconds: 1 };
        let failed = joined(evaluated("1", &[]), Err(time.clone()));
        assert_eq!(failed.second_opinion, SecondOpinion::Failed(Box::new(time)));
    }
}
