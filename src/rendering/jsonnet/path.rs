//! Paths of imports, resolved by name only: no symbolic link is followed and no disk is accessed.

/// Resolves `path` in `directory`, both relative to the root, which is `""`. Returns `None` if the path is absolute or
/// leaves the root.
pub(crate) fn clean(directory: &str, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut components: Vec<&str> = Vec::new();
    for component in directory.split('/').chain(path.split('/')) {
        match component {
            "" | "." => {}
            ".." => {
                components.pop()?;
            }
            _ => components.push(component),
        }
    }
    Some(components.join("/"))
}

#[cfg(test)]
mod tests {
    use super::clean;

    /// T45
    #[test]
    fn what_leaves_the_root_is_no_path() {
        let inside = |text: &str| Some(text.to_owned());
        assert_eq!(clean("a/b", "c.libsonnet"), inside("a/b/c.libsonnet"));
        assert_eq!(clean("a/b", "../c"), inside("a/c"));
        assert_eq!(clean("a/b", "./../../c//d/"), inside("c/d"));
        assert_eq!(clean("", "c"), inside("c"));
        assert_eq!(clean("a", ".."), inside(""));
        for path in ["/etc/passwd", "../../x", "c/../../../x", "//x"] {
            assert_eq!(clean("a", path), None, "{path}");
        }
        assert_eq!(clean("", "../x"), None);
    }
}
