//! Chart versions as helm compares them: semantic versions that may be incomplete.

use std::cmp::Ordering;

const VERSION_BYTES_MAX: usize = 256;

/// A version. Equal versions may have different texts, because build metadata is ignored.
#[derive(Clone, Debug)]
pub(super) struct ChartVersion {
    numbers: [u64; 3],
    prerelease: String,
    written: String,
}

impl ChartVersion {
    /// Parses `1.2.3-rc.1+build`, with or without `v`. The second and third numbers are optional.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() > VERSION_BYTES_MAX {
            return None;
        }
        let bare = text.strip_prefix('v').unwrap_or(text);
        let (bare, metadata) = match bare.split_once('+') {
            Some((bare, metadata)) => (bare, Some(metadata)),
            None => (bare, None),
        };
        let (bare, prerelease) = match bare.split_once('-') {
            Some((bare, prerelease)) => (bare, Some(prerelease)),
            None => (bare, None),
        };
        if metadata.is_some_and(|metadata| !metadata.split('.').all(is_identifier)) {
            return None;
        }
        let ordered = |part: &str| is_identifier(part) && !(is_number(part) && is_padded(part));
        if prerelease.is_some_and(|prerelease| !prerelease.split('.').all(ordered)) {
            return None;
        }
        let mut numbers = [0; 3];
        let mut parts = bare.split('.');
        for (position, number) in numbers.iter_mut().enumerate() {
            match parts.next() {
                Some(part) if is_number(part) => *number = part.parse().ok()?,
                None if position > 0 => {}
                Some(_) | None => return None,
            }
        }
        parts.next().is_none().then(|| Self {
            numbers,
            prerelease: prerelease.unwrap_or_default().to_owned(),
            written: text.to_owned(),
        })
    }

    /// Returns the original text of the version.
    pub(super) fn written(&self) -> &str {
        &self.written
    }

    pub(super) fn major(&self) -> u64 {
        self.numbers[0]
    }

    pub(super) fn minor(&self) -> u64 {
        self.numbers[1]
    }

    pub(super) fn patch(&self) -> u64 {
        self.numbers[2]
    }

    pub(super) fn is_prerelease(&self) -> bool {
        !self.prerelease.is_empty()
    }

    /// Compares two versions by precedence.
    pub(super) fn precedence(&self, other: &Self) -> Ordering {
        let numbers = self.numbers.cmp(&other.numbers);
        numbers.then_with(|| match (self.is_prerelease(), other.is_prerelease()) {
            (true, true) => self.prerelease_precedence(other),
            // A version is greater than its prereleases.
            (one, other) => other.cmp(&one),
        })
    }

    /// Compares two versions by their prerelease parts alone.
    pub(super) fn prerelease_precedence(&self, other: &Self) -> Ordering {
        let (mut one, mut other) = (self.prerelease.split('.'), other.prerelease.split('.'));
        loop {
            let order = match (one.next(), other.next()) {
                (None, None) => return Ordering::Equal,
                (one, other) => parts(one.unwrap_or_default(), other.unwrap_or_default()),
            };
            if order != Ordering::Equal {
                return order;
            }
        }
    }
}

/// Compares two prerelease parts. Numbers compare by value and are less than words. A missing part is less
/// than both. A number of more than 64 bits counts as a word.
fn parts(one: &str, other: &str) -> Ordering {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        _ if one.is_empty() || other.is_empty() => other.is_empty().cmp(&one.is_empty()),
        (Ok(one), Ok(other)) => one.cmp(&other),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => one.cmp(other),
    }
}

fn is_identifier(part: &str) -> bool {
    !part.is_empty()
        && part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_padded(part: &str) -> bool {
    part.len() > 1 && part.starts_with('0')
}
