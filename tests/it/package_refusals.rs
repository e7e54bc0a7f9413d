//! Packages of Jsonnet that are refused: archives and objects that are too large, and addresses that are not allowed.

use crate::packages::{GITHUB, RemotePackageFixture, c, commit_of, content};
use crate::support::git_server::GitServer;
use drydock::rendering::bundler::{ArchiveLimits, Fetch, FetchMethod, NetworkFetcher};
use drydock::state::download::DownloadObserver;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

/// T52
#[test]
fn a_package_with_an_object_that_unpacks_to_very_much_is_refused_before_it_is_unpacked() {
    let world = RemotePackageFixture::new();
    let Some(server) = GitServer::start(&world.remotes()) else {
        return;
    };
    let git = world.remotes().join("org/c.git");
    let objects: gix::Repository = gix::ThreadSafeRepository::open_opts(&git, gix::open::Options::isolated())
        .unwrap()
        .into();
    let zeros = "\0".repeat(101 << 20);
    // The large file is not even in the package, which is another directory of the repository.
    let commit = commit_of(&objects, 9, &[("lib/a", "1"), ("zeros", &zeros)]);
    std::fs::write(git.join("refs/heads/master"), format!("{commit}\n")).unwrap();
    let mut lib = c();
    lib.subdir = "lib".to_owned();
    let network = world.network(&server.address);
    let layer = network.fetch(
        &lib,
        &commit.to_string(),
        FetchMethod::Preferred,
        &DownloadObserver::silent(),
    );
    assert_eq!(
        layer.map(|_| ()).map_err(|err| err.to_string()),
        Err("the repository has an object that unpacks to more than 100 MiB".to_owned())
    );
}

/// T52
#[test]
fn an_archive_that_is_too_large_or_no_archive_is_refused() {
    let world = RemotePackageFixture::new();
    let Some(server) = GitServer::start(&world.remotes()) else {
        return;
    };
    world.archive(world.commits[0], &"x".repeat(5_000_000));
    let bounded = |limits| {
        content(
            &world.network(&server.address).with_limits(limits),
            world.commits[0],
            FetchMethod::Preferred,
        )
    };
    let usual = ArchiveLimits::default();
    assert_eq!(
        bounded(usual),
        Err("archive unpacks to more than 100 times its size".to_owned())
    );
    let roomy = ArchiveLimits {
        ratio_max: 10_000,
        ..usual
    };
    assert_eq!(bounded(roomy).map(|content| content.len()), Ok(5_000_000));
    let small = ArchiveLimits {
        bytes_max: 1_000_000,
        ..roomy
    };
    assert_eq!(
        bounded(small),
        Err("archive has more than 1000000 bytes".to_owned())
    );
    let none_sent = ArchiveLimits {
        sent_bytes_max: 100,
        ..roomy
    };
    // Too much was sent. Git provides it in another way.
    assert_eq!(bounded(none_sent), Ok("git 1".to_owned()));
}

/// T44
#[test]
fn a_redirect_is_checked_like_an_address() {
    let world = RemotePackageFixture::new();
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    target.set_nonblocking(true).unwrap();
    let elsewhere = format!("http://{}/x", target.local_addr().unwrap());
    for (location, why) in [
        (elsewhere.as_str(), "redirect with scheme http"),
        (
            "http://169.254.169.254/latest/meta-data",
            "redirect with scheme http",
        ),
        ("file:///etc/passwd", "redirect with scheme file"),
        (
            "https://internal.example.com/x",
            "host internal.example.com is not in `[bundler] hosts_allowed`",
        ),
        (
            "https://codeload.github.com.example.com/x",
            "host codeload.github.com.example.com is not in `[bundler] hosts_allowed`",
        ),
        (
            "https://127.0.0.1/x",
            "host 127.0.0.1 is not in `[bundler] hosts_allowed`",
        ),
        (
            "https://me:s3cret@github.com/x",
            "redirect with a user or password",
        ),
        ("https://github.com:8443/x", "redirect with a port"),
        ("/again", "more than 5 redirects"),
    ] {
        let network = world.network(&redirecting(location));
        let refused = content(&network, world.commits[0], FetchMethod::Preferred);
        assert_eq!(refused, Err(format!("remote not allowed: {why}")), "{location}");
    }
    assert!(
        target.accept().is_err(),
        "no connection was made to the other host"
    );
}

/// Starts a server that redirects all requests.
fn redirecting(location: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let location = location.to_owned();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut head = [0; 4_096];
            let _ = stream.read(&mut head);
            let _ = write!(
                stream,
                "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
    });
    address
}

#[test]
fn only_a_loopback_address_can_override_a_host() {
    let world = RemotePackageFixture::new();
    for address in [
        "https://127.0.0.1/",
        "http://127.0.0.2.example.com/",
        "http://10.0.0.1/",
        "nonsense",
    ] {
        let client = drydock::base::http_client::api_client().unwrap();
        let network = NetworkFetcher::new(&[], client, world.runtime.handle().clone(), world.remotes());
        let why = network
            .with_host_override(GITHUB, address)
            .unwrap_err()
            .to_string();
        assert_eq!(why, format!("`{address}` is not an address of this machine"));
    }
}
