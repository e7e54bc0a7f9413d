//! Deliberate defects that `drydock-torture` must find, as proof that it finds defects. They exist only in builds with
//! the feature `planted-bugs`, which are not for production. `DRYDOCK_BUG=A1` turns one on; docs/reliability.md lists
//! them.

/// True if the defect is turned on.
#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn is(_bug: &str) -> bool {
    false
}

/// True if the defect is turned on.
#[cfg(feature = "planted-bugs")]
pub(crate) fn is(bug: &str) -> bool {
    static BUG: std::sync::LazyLock<Option<String>> = std::sync::LazyLock::new(|| {
        #[allow(clippy::disallowed_methods, reason = "a build that is none for use")]
        std::env::var("DRYDOCK_BUG").ok()
    });
    BUG.as_deref() == Some(bug)
}
