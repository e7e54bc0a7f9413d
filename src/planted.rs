//! Defects that `drydock-torture` has to find, to show that it finds them: only in a build with the feature
//! `planted-bugs`, which is none for use. `DRYDOCK_BUG=A1` turns one on; docs/reliability.md lists them.

/// True if this defect is turned on.
#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn is(_bug: &str) -> bool {
    false
}

/// True if this defect is turned on.
#[cfg(feature = "planted-bugs")]
pub(crate) fn is(bug: &str) -> bool {
    static BUG: std::sync::LazyLock<Option<String>> = std::sync::LazyLock::new(|| {
        #[allow(clippy::disallowed_methods, reason = "a build that is none for use")]
        std::env::var("DRYDOCK_BUG").ok()
    });
    BUG.as_deref() == Some(bug)
}
