//! Checks that the implemented Tanka version satisfies the version constraint of an environment.

use super::TankaError;

/// The Tanka version that is implemented here.
pub(super) const VERSION: &str = "0.38.0";

type Version = [u64; 3];

/// Checks a constraint such as `>=0.20.0 <1.0 || ~0.38`. An empty constraint is always satisfied.
pub(super) fn check(constraint: &str) -> Result<(), TankaError> {
    if constraint.is_empty() {
        return Ok(());
    }
    match is_met(constraint, [0, 38, 0]) {
        Some(true) => Ok(()),
        Some(false) => Err(TankaError::Version {
            current: VERSION,
            expected: constraint.to_owned(),
        }),
        None => Err(TankaError::VersionConstraint(constraint.to_owned())),
    }
}

/// True if the version satisfies the constraint; `None` for an invalid constraint.
fn is_met(constraint: &str, version: Version) -> Option<bool> {
    let mut any = false;
    for alternative in constraint.split("||") {
        any |= all_met(alternative, version)?;
    }
    Some(any)
}

fn all_met(constraint: &str, version: Version) -> Option<bool> {
    if let Some((low, high)) = constraint.split_once(" - ") {
        let low = Range::parse(low.trim())?;
        let high = Range::parse(high.trim())?;
        return Some(version >= low.first && version < high.end);
    }
    let mut all = true;
    let mut rest = constraint.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let operator_end = rest
            .find(|next: char| !"<>=!~^".contains(next))
            .unwrap_or(rest.len());
        let (operator, behind) = rest.split_at(operator_end);
        let behind = behind.trim_start();
        let end = behind
            .find(|next: char| next.is_whitespace() || next == ',')
            .unwrap_or(behind.len());
        let (text, behind) = behind.split_at(end);
        all &= holds(operator, &Range::parse(text)?, version)?;
        rest = behind.trim_start_matches(|next: char| next.is_whitespace() || next == ',');
    }
    Some(all)
}

fn holds(operator: &str, range: &Range, version: Version) -> Option<bool> {
    let is_in = |end: Version| version >= range.first && version < end;
    Some(match operator {
        "" | "=" | "==" => is_in(range.end),
        "!=" => !is_in(range.end),
        ">" => version >= range.end,
        ">=" | "=>" => version >= range.first,
        "<" => version < range.first,
        "<=" | "=<" => version < range.end,
        "~" | "~>" => is_in(range.end_of_minor()),
        "^" => is_in(range.end_of_compatible()),
        _ => return None,
    })
}

/// The versions that one to three numbers stand for: `1.2` is all of 1.2.x.
struct Range {
    first: Version,
    end: Version,
    parts: usize,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split(['-', '+']).next().unwrap_or(text);
        let mut first = [0; 3];
        let mut parts = 0;
        let mut is_wild = false;
        for part in text.split('.') {
            if parts == 3 || part.is_empty() {
                return None;
            }
            if matches!(part, "x" | "X" | "*") {
                is_wild = true;
                continue;
            }
            if is_wild {
                return None;
            }
            *first.get_mut(parts)? = part.parse().ok()?;
            parts += 1;
        }
        let end = match parts {
            0 => [u64::MAX; 3],
            parts => after(first, parts - 1)?,
        };
        Some(Self { first, end, parts })
    }

    fn end_of_minor(&self) -> Version {
        match self.parts {
            0 => self.end,
            1 => after(self.first, 0).unwrap_or(self.end),
            _ => after(self.first, 1).unwrap_or(self.end),
        }
    }

    fn end_of_compatible(&self) -> Version {
        let place = self.first.iter().position(|part| *part > 0);
        let place = place.unwrap_or(self.parts.saturating_sub(1));
        match self.parts {
            0 => self.end,
            parts => after(self.first, place.min(parts - 1)).unwrap_or(self.end),
        }
    }
}

/// Returns the first version in which the number at `place` is larger.
fn after(version: Version, place: usize) -> Option<Version> {
    let mut next = [0; 3];
    for (position, (target, part)) in next.iter_mut().zip(version).enumerate() {
        match position.cmp(&place) {
            std::cmp::Ordering::Less => *target = part,
            std::cmp::Ordering::Equal => *target = part.checked_add(1)?,
            std::cmp::Ordering::Greater => {}
        }
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::{VERSION, check, is_met};

    #[test]
    fn constraints_are_met_as_semantic_versions_are() {
        for (constraint, expected) in [
            (">=0.1.0", true),
            (">=9.0.0", false),
            ("0.38", true),
            ("0.38.1", false),
            ("=0.38.0", true),
            ("!=0.38.0", false),
            (">0.37, <0.39", true),
            (">0.38", false),
            (">= 0.20.0 < 1.0.0", true),
            ("<0.38 || >=0.38", true),
            ("~0.38.0", true),
            ("~0.37", false),
            ("^0.38", true),
            ("^0.37.0", false),
            ("0.x", true),
            ("*", true),
            ("v0.38.0", true),
            ("0.30 - 0.38", true),
            ("0.30 - 0.37", false),
        ] {
            assert_eq!(is_met(constraint, [0, 38, 0]), Some(expected), "{constraint}");
        }
    }

    #[test]
    fn what_is_no_constraint_says_so() {
        for constraint in [
            " ",
            "latest",
            ">>1",
            "1.2.3.4",
            "1..2",
            "x.1",
            "||",
            "18446744073709551615",
        ] {
            let err = check(constraint).map_err(|err| err.to_string());
            let expected =
                format!("parsing version constraint: '{constraint}' is not a constraint such as `>=0.20.0`");
            assert_eq!(err, Err(expected));
        }
        assert!(check("").is_ok());
        assert!(check(&format!("={VERSION}")).is_ok());
    }
}
