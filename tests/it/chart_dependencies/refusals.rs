//! Dependencies that are refused or missing: what is not what it should be, and hosts that are not allowed.

use super::{ChartFixture, REDIS};
use crate::support::file_host::FileResponse;
use crate::support::packed_chart::{packed_chart, sha256};
use drydock::rendering::helm::PackMode;
use drydock::state::download::DownloadObserver;

/// T44, T52
#[test]
fn what_is_not_what_it_should_be_is_refused_and_changes_nothing() {
    let world = ChartFixture::new(&[("charts/web/Chart.yaml", REDIS)]);
    let good = packed_chart("redis", "1.0.0", &[]);
    let of = |content: &[u8], url: &str| {
        world.offer_content(content.to_vec(), url, &sha256(content));
        world.refused()
    };
    world.offer_content(good.clone(), "redis.tgz", &"0".repeat(64));
    assert_eq!(
        world.refused(),
        format!(
            "checksum mismatch: the index states {}, and the download has {}",
            "0".repeat(64),
            sha256(&good)
        )
    );
    assert_eq!(
        of(b"no archive", "redis.tgz"),
        "archive cannot be read: invalid gzip header"
    );
    assert_eq!(
        of(&packed_chart("other", "1.0.0", &[]), "redis.tgz"),
        "the downloaded archive is chart `other` 1.0.0"
    );
    assert_eq!(
        of(&packed_chart("redis", "1.0.1", &[]), "redis.tgz"),
        "the downloaded archive is chart `redis` 1.0.1"
    );
    let bomb = packed_chart("redis", "1.0.0", &[("bomb", &"x".repeat(5_000_000))]);
    assert_eq!(
        of(&bomb, "redis.tgz"),
        "archive unpacks to more than 100 times its size"
    );
    assert_eq!(
        of(&good, "gone.tgz"),
        "the repository names an archive that does not exist"
    );
    for (url, why) in [
        ("http://charts.example.com/redis.tgz", "address with scheme http"),
        ("file:///etc/passwd", "address with scheme file"),
        (
            "https://evil.example/redis.tgz",
            "host evil.example is not in `[helm] hosts_allowed`",
        ),
        (
            "//evil.example/redis.tgz",
            "host evil.example is not in `[helm] hosts_allowed`",
        ),
        (
            "https://me:s3cret@charts.example.com/x",
            "address with a user or password",
        ),
    ] {
        assert_eq!(of(&good, url), format!("remote not allowed: {why}"));
    }
    for (location, why) in [
        ("http://169.254.169.254/latest", "redirect with scheme http"),
        (
            "https://evil.example/x",
            "host evil.example is not in `[helm] hosts_allowed`",
        ),
        ("/stable/moved.tgz", "more than 5 redirects"),
    ] {
        world
            .host
            .serve_response("/stable/moved.tgz", FileResponse::Redirect(location.to_owned()));
        assert_eq!(of(&good, "moved.tgz"), format!("remote not allowed: {why}"));
    }
    world
        .host
        .serve_response("/stable/large.tgz", FileResponse::Truncated(1 << 30, Vec::new()));
    assert_eq!(
        of(&good, "large.tgz"),
        format!("the chart has more than {} bytes", 16 << 20)
    );
    world
        .host
        .serve_response("/stable/index.yaml", FileResponse::Truncated(1 << 30, Vec::new()));
    assert_eq!(
        world.refused(),
        format!("the index has more than {} bytes", 48 << 20)
    );
}

#[test]
fn a_chart_missing_from_its_repository_is_reported() {
    let world = ChartFixture::new(&[("charts/web/Chart.yaml", &REDIS.replace("^1", "^3"))]);
    world.publish_redis(&["0.1.0", "0.2.0", "1.0.0", "2.0.0", "2.1.0", "2.1.1", "3.0.0-rc.1"]);
    assert_eq!(
        world.refused(),
        "`https://charts.example.com/stable` has no version of it that fits `^3`; the newest are 3.0.0-rc.1, \
         2.1.1, 2.1.0, 2.0.0, 1.0.0"
    );
    world
        .host
        .serve_file("/stable/index.yaml", "apiVersion: v1\nentries: {other: []}\n");
    assert_eq!(
        world.refused(),
        "`https://charts.example.com/stable` has no chart of that name"
    );
    world
        .host
        .serve_file("/stable/index.yaml", "apiVersion: v1\nentries: {redis: [{\n");
    let damaged = world.refused();
    assert!(
        damaged.starts_with("`https://charts.example.com/stable`: its `index.yaml` cannot be read: "),
        "{damaged}"
    );
    world
        .host
        .serve_file("/stable/index.yaml", "<!doctype html>\n<p>x</p>\n");
    assert!(world.refused().contains("cannot be read"));
    let elsewhere = ChartFixture::new(&[("charts/web/Chart.yaml", &REDIS.replace("/stable", "/no"))]);
    assert_eq!(
        elsewhere.refused(),
        "`https://charts.example.com/no` is not a repository of charts: it has no `index.yaml`"
    );
}

/// T44
#[test]
fn a_chart_repository_that_is_not_allowed_is_not_contacted() {
    let refused = |repository: &str| {
        let chart = REDIS.replace("https://charts.example.com/stable", repository);
        let world = ChartFixture::new(&[("charts/web/Chart.yaml", &chart)]);
        let refused = world.refused();
        assert_eq!(world.host.take_requests(), [""; 0]);
        refused
    };
    for (repository, why) in [
        ("http://charts.example.com", "address with scheme http"),
        (
            "https://me:s3cret@charts.example.com",
            "address with a user or password",
        ),
        ("https://charts.example.com:8443", "address with a port"),
        (
            "https://127.0.0.1",
            "host 127.0.0.1 is not in `[helm] hosts_allowed`",
        ),
        (
            "https://other.example.com",
            "host other.example.com is not in `[helm] hosts_allowed`",
        ),
        ("ext::sh -c id", "address with scheme ext"),
    ] {
        assert_eq!(refused(repository), format!("remote not allowed: {why}"));
    }
    assert_eq!(refused("stable"), "its repository is not a valid address");
    assert!(refused("'@stable'").starts_with("`@stable` is an alias from a local helm configuration"));
    assert!(refused("oci://charts.example.com/x").starts_with("charts of registries (`oci://`)"));
    let world = ChartFixture::new(&[("charts/web/Chart.yaml", REDIS)]);
    let off = world.pack_watched(&world.helm_of(&[]), PackMode::Update, &DownloadObserver::silent());
    assert_eq!(
        off.unwrap_err(),
        "chart `charts/web`: dependency `redis`: downloads of charts are disabled; an operator allows hosts with \
         `[helm] hosts_allowed`, such as [\"charts.example.com\"]"
    );
}
