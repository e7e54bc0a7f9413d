//! Addresses of packages.

use crate::rendering::bundler::{PackageSource, Scheme, parse_uri};

/// Returns scheme, host, user, repo, directory and version, or the error.
fn parsed(text: &str) -> String {
    let dependency = match parse_uri(text) {
        Ok(dependency) => dependency,
        Err(err) => return err.to_string(),
    };
    let PackageSource::Git(git) = &dependency.source else {
        return "no address".to_owned();
    };
    let scheme = match git.scheme {
        Scheme::Https => "https",
        Scheme::Ssh => "ssh",
    };
    let place = [
        scheme,
        &git.host,
        &git.user,
        &git.repo,
        &git.subdir,
        &dependency.version,
    ];
    place.join(" ")
}

#[test]
fn an_address_is_host_user_repo_directory_and_version() {
    for (text, expected) in [
        ("github.com/org/c", "https github.com org c  master"),
        ("https://github.com/org/c", "https github.com org c  master"),
        ("http://github.com/org/c", "https github.com org c  master"),
        ("github.com/org/c@v1", "https github.com org c  v1"),
        ("github.com/org/c.git@v1", "https github.com org c  v1"),
        ("github.com/org/c/", "https github.com org c  master"),
        ("github.com/org/c/lib", "https github.com org c lib master"),
        (
            "github.com/org/c/lib/deep@v1.2",
            "https github.com org c lib/deep v1.2",
        ),
        ("github.com/org/c/a@b@c", "https github.com org c a@b c"),
        ("github.com/org/c@feature/x", "https github.com org c  feature/x"),
        ("github.com/org/c@", "https github.com org c  master"),
        ("github.com/my.org/c.lib", "https github.com my.org c.lib  master"),
        ("https://git.sr.ht/~me/c", "https git.sr.ht ~me c  master"),
        ("https://gitlab.com/a/b/c.git", "https gitlab.com a/b c  master"),
        (
            "https://gitlab.com/a/b/c.git/lib@v1",
            "https gitlab.com a/b c lib v1",
        ),
        // Without `.git`, a subgroup cannot be distinguished from a directory.
        ("https://gitlab.com/a/b/c", "https gitlab.com a b c master"),
        ("ssh://git@github.com/org/c.git", "ssh github.com org c  master"),
        (
            "ssh://git@github.com/org/c.git/lib@v1",
            "ssh github.com org c lib v1",
        ),
        ("git@github.com:org/c.git@v1", "ssh github.com org c  v1"),
        ("git@github.com:org/c.git/lib", "ssh github.com org c lib master"),
    ] {
        assert_eq!(parsed(text), expected, "{text}");
    }
}

#[test]
fn what_has_not_that_form_is_no_address() {
    for text in [
        "",
        "not a uri",
        "libs/x",
        "../libs/x",
        "github.com",
        "github.com/org",
        "localhost/org/c",
        "127.0.0.1/org/c",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/org/c",
        "https://github.com:8443/org/c",
        "https://github.com\\org\\c",
        "github.com/org/c\n.git",
        "github.com/org/c\u{202e}\u{7}",
        "https://gıthub.com/org/c",
    ] {
        assert_eq!(
            parsed(text),
            format!("Unable to parse package URI `{text}`"),
            "{text}"
        );
    }
    let long = format!("github.com/org/{}", "c".repeat(10_000));
    assert!(parsed(&long).starts_with("Unable to parse package URI `github.com/org/ccc"));
}
