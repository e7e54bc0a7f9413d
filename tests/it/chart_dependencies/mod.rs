//! Dependencies of charts from repositories. A server on this machine stands in for the host.

mod real_helm;
mod refusals;

use crate::support::evaluation::program;
use crate::support::file_host::{FileHost, FileResponse};
use crate::support::packed_chart::{packed_chart, sha256};
use drydock::base::config::{ProgramSettings, SandboxSettings};
use drydock::base::model::{FileMode, FileVersion, RepoPath};
use drydock::rendering::helm::{ChartRepositories, Helm, PackMode, PackResult};
use drydock::state::download::DownloadObserver;
use drydock::state::workspace::{Directory, Tree};
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

const HOST: &str = "charts.example.com";
const REDIS: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n- name: redis\n  version: ^1\n  \
                     repository: https://charts.example.com/stable\n  alias: cache\n  condition: cache.enabled\n  \
                     tags: [storage]\n  import-values: [data]\n";

/// A repository with a chart `web`, a host with `redis`, and no helm.
struct ChartFixture {
    room: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    host: FileHost,
    helm: Option<std::path::PathBuf>,
}

impl ChartFixture {
    fn new(files: &[(&str, &str)]) -> Self {
        let world = Self {
            room: tempfile::tempdir().unwrap(),
            runtime: tokio::runtime::Runtime::new().unwrap(),
            host: FileHost::start(),
            helm: None,
        };
        std::fs::create_dir_all(world.root().join(".git")).unwrap();
        for (path, content) in files {
            world.write(path, content.as_bytes());
        }
        world.publish_redis(&["1.2.0", "1.10.0", "2.0.0", "1.11.0-rc.1"]);
        world
    }

    fn root(&self) -> std::path::PathBuf {
        self.room.path().join("work")
    }

    fn write(&self, path: &str, content: &[u8]) {
        let place = self.root().join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, content).unwrap();
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap()
    }

    /// Publishes `redis` in these versions on the host.
    fn publish_redis(&self, versions: &[&str]) {
        let mut index = "apiVersion: v1\nentries:\n  redis:\n".to_owned();
        for version in versions {
            let values = format!("at: {version}\n");
            let content = packed_chart("redis", version, &[("values.yaml", &values)]);
            index += &format!(
                "  - version: {version}\n    urls: [charts/redis-{version}.tgz]\n    digest: {}\n",
                sha256(&content)
            );
            self.host
                .serve_file(&format!("/stable/charts/redis-{version}.tgz"), content);
        }
        self.host.serve_file("/stable/index.yaml", index);
    }

    /// Publishes one version with this content.
    fn offer_content(&self, content: Vec<u8>, url: &str, digest: &str) {
        let index = format!(
            "apiVersion: v1\nentries:\n  redis:\n  - version: 1.0.0\n    urls: ['{url}']\n    digest: '{digest}'\n"
        );
        self.host.serve_file("/stable/index.yaml", index);
        self.host.serve_file("/stable/redis.tgz", content);
    }

    fn helm_of(&self, hosts: &[&str]) -> Helm {
        let settings = ProgramSettings {
            helm: Some(self.helm.clone().unwrap_or_else(|| "/nonexistent/helm".into())),
            scratch: self.room.path().join("scratch"),
            ..SandboxSettings::default().programs
        };
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let client = drydock::base::http_client::download_client().unwrap();
        let now = || "2026-01-02T03:04:05Z".parse().unwrap();
        let repositories = ChartRepositories::new(&hosts, client, self.runtime.handle().clone(), now)
            .with_host_override(HOST, &self.host.address)
            .unwrap();
        Helm::configured(program(), &settings)
            .unwrap()
            .with_repositories(repositories)
    }

    fn pack_watched(
        &self,
        helm: &Helm,
        how: PackMode,
        watch: &DownloadObserver,
    ) -> Result<PackResult, String> {
        let directory = Directory::open(&self.root()).unwrap();
        let chart = RepoPath::parse("charts/web").unwrap();
        let before = directory.files().unwrap();
        let packed = helm.pack(&directory, &chart, how, watch);
        // An operation changes nothing itself, whatever its result.
        assert_eq!(directory.files().unwrap(), before);
        packed.map_err(|error| error.to_string())
    }

    fn pack(&self, how: PackMode) -> Result<PackResult, String> {
        self.pack_watched(&self.helm_of(&[HOST]), how, &DownloadObserver::silent())
    }

    /// Packs the dependencies and applies the result. Returns the files that differ, with a `-` before deleted ones.
    fn placed(&self, how: PackMode) -> Vec<String> {
        let packed = self.pack(how).unwrap();
        let directory = Directory::open(&self.root()).unwrap();
        for (path, content) in &packed.changes {
            let after = content.clone().map(|content| FileVersion {
                content,
                mode: FileMode::Regular,
            });
            directory.put(path, after).unwrap();
        }
        let shown = packed.changes.iter().map(|(path, content)| match content {
            Some(_) => path.to_string(),
            None => format!("-{path}"),
        });
        shown.collect()
    }

    /// Returns the reason why an update does nothing.
    fn refused(&self) -> String {
        let refused = self.pack(PackMode::Update).unwrap_err();
        refused
            .strip_prefix("chart `charts/web`: dependency `redis`: ")
            .unwrap_or(&refused)
            .to_owned()
    }

    /// Returns the reason why a build does nothing.
    fn refused_build(&self) -> String {
        self.pack(PackMode::Build).unwrap_err()
    }
}

#[test]
fn an_update_fetches_the_newest_that_fits_and_locks_it() {
    let world = ChartFixture::new(&[
        ("charts/web/Chart.yaml", REDIS),
        ("charts/web/charts/README.md", "ours"),
    ]);
    world.write(
        "charts/web/charts/old-1.0.0.tgz",
        &packed_chart("old", "1.0.0", &[]),
    );
    let packed = world.pack(PackMode::Update).unwrap();
    assert_eq!(
        packed.output,
        "redis: 1.10.0 from https://charts.example.com/stable"
    );
    assert_eq!(
        world.host.take_requests(),
        ["/stable/index.yaml", "/stable/charts/redis-1.10.0.tgz"]
    );
    let lock = "charts/web/Chart.lock";
    let archive = "charts/web/charts/redis-1.10.0.tgz";
    assert_eq!(
        world.placed(PackMode::Update),
        [lock, "-charts/web/charts/old-1.0.0.tgz", archive]
    );
    assert_eq!(
        world.text(lock),
        "dependencies:\n- name: redis\n  repository: https://charts.example.com/stable\n  version: 1.10.0\n\
         digest: sha256:6d5d37fe1dd2cefb285ad2a8a93a0caeb1b9957904308ab4aefa4f2eb29c2853\n\
         generated: \"2026-01-02T03:04:05Z\"\n"
    );
    assert_eq!(
        world.placed(PackMode::Update),
        [""; 0],
        "what is in place is no change"
    );
    assert_eq!(world.placed(PackMode::Build), [""; 0]);

    // A build keeps the locked versions, whatever the host has now.
    world.publish_redis(&["1.10.0", "1.12.0"]);
    std::fs::remove_file(world.root().join(archive)).unwrap();
    assert_eq!(world.placed(PackMode::Build), [archive]);
    let newer = "charts/web/charts/redis-1.12.0.tgz";
    assert_eq!(
        world.placed(PackMode::Update),
        [lock, &format!("-{archive}"), newer]
    );
}

#[test]
fn a_build_goes_by_the_lock_or_is_an_update() {
    let world = ChartFixture::new(&[("charts/web/Chart.yaml", REDIS)]);
    let files = ["charts/web/Chart.lock", "charts/web/charts/redis-1.10.0.tgz"];
    assert_eq!(world.placed(PackMode::Build), files);
    world.write("charts/web/Chart.yaml", REDIS.replace("^1", "^2").as_bytes());
    assert_eq!(
        world.refused_build(),
        "chart `charts/web`: `Chart.lock` is out of sync with the dependencies in `Chart.yaml`; update the \
         dependencies"
    );
    assert_eq!(world.placed(PackMode::Update).len(), 3);
    world.publish_redis(&["1.10.0"]);
    assert_eq!(
        world.refused_build(),
        "chart `charts/web`: dependency `redis`: `https://charts.example.com/stable` has no version of it that \
         fits `2.0.0`; the newest are 1.10.0"
    );
}

#[test]
fn a_pre_helm_3_chart_is_locked_in_requirements_lock() {
    let requirements =
        "dependencies:\n- {name: redis, version: ~1.2, repository: 'https://charts.example.com/stable/'}\n";
    let world = ChartFixture::new(&[
        ("charts/web/Chart.yaml", "name: web\nversion: 1.0.0\n"),
        ("charts/web/requirements.yaml", requirements),
    ]);
    let lock = "charts/web/requirements.lock";
    assert_eq!(
        world.placed(PackMode::Update),
        ["charts/web/charts/redis-1.2.0.tgz", lock]
    );
    assert_eq!(world.placed(PackMode::Build), [""; 0]);
    world.write(
        "charts/web/requirements.yaml",
        requirements.replace("~1.2", "1").as_bytes(),
    );
    assert_eq!(
        world.refused_build(),
        "chart `charts/web`: `requirements.lock` is out of sync with the dependencies in `requirements.yaml`; \
         update the dependencies"
    );
}

#[test]
fn addresses_are_joined_as_helm_joins_them() {
    for (repository, index, url, archive) in [
        ("/stable", "/stable/index.yaml", "a/x.tgz", "/stable/a/x.tgz"),
        ("/stable/", "/stable/index.yaml", "../x.tgz", "/x.tgz"),
        ("", "/index.yaml", "/x.tgz", "/x.tgz"),
        (
            "/s?key=1",
            "/s/index.yaml?key=1",
            "x.tgz?other=2",
            "/s/x.tgz?key=1",
        ),
        (
            "/s?key=1",
            "/s/index.yaml?key=1",
            "https://charts.example.com/x.tgz?b=2",
            "/x.tgz?b=2",
        ),
    ] {
        let chart = REDIS.replace("/stable", repository);
        let world = ChartFixture::new(&[("charts/web/Chart.yaml", &chart)]);
        let text = format!("apiVersion: v1\nentries: {{redis: [{{version: v1.0.0, urls: ['{url}']}}]}}\n");
        world.host.serve_file(index, text);
        world
            .host
            .serve_file(archive, packed_chart("redis", "1.0.0", &[]));
        let packed = world.pack(PackMode::Update).unwrap();
        let paths: Vec<&str> = packed.changes.keys().map(RepoPath::as_str).collect();
        assert_eq!(
            paths,
            ["charts/web/Chart.lock", "charts/web/charts/redis-v1.0.0.tgz"]
        );
        // Without a digest there is nothing to compare, and the output says so.
        assert!(packed.output.contains("states no digest"), "{}", packed.output);
    }
}

#[test]
fn a_redirect_to_an_allowed_host_is_followed() {
    let world = ChartFixture::new(&[("charts/web/Chart.yaml", REDIS)]);
    let content = packed_chart("redis", "1.0.0", &[]);
    for location in [
        "redis.tgz",
        "/stable/redis.tgz",
        "https://charts.example.com/stable/redis.tgz",
    ] {
        world.offer_content(content.clone(), "moved.tgz", &sha256(&content));
        world
            .host
            .serve_response("/stable/moved.tgz", FileResponse::Redirect(location.to_owned()));
        assert_eq!(
            world.pack(PackMode::Update).unwrap().changes.len(),
            2,
            "{location}"
        );
    }
}

#[test]
fn an_archive_that_is_called_a_compressed_page_stays_an_archive() {
    let world = ChartFixture::new(&[("charts/web/Chart.yaml", REDIS)]);
    let content = packed_chart("redis", "1.0.0", &[]);
    world.offer_content(content.clone(), "redis.tgz", &sha256(&content));
    world
        .host
        .serve_response("/stable/redis.tgz", FileResponse::EncodedFile(content));
    assert_eq!(world.placed(PackMode::Update).len(), 2);
}

#[test]
fn a_download_is_stopped_in_the_middle() {
    let world = ChartFixture::new(&[("charts/web/Chart.yaml", REDIS)]);
    let content = packed_chart("redis", "1.0.0", &[]);
    world.offer_content(content.clone(), "slow.tgz", &sha256(&content));
    world.host.serve_response(
        "/stable/slow.tgz",
        FileResponse::Truncated(1_000, content[..20].to_vec()),
    );
    let turn = CancellationToken::new();
    let stop = turn.clone();
    let reported = Arc::new(OnceLock::new());
    let seen = Arc::clone(&reported);
    let progress = move |step: drydock::state::workspace::FetchProgress| {
        if step.what == "chart" {
            seen.get_or_init(|| (step.done, step.total));
            stop.cancel();
        }
    };
    let watch = DownloadObserver::new(Arc::new(progress), &turn);
    let stopped = world.pack_watched(&world.helm_of(&[HOST]), PackMode::Update, &watch);
    assert_eq!(
        stopped.unwrap_err(),
        "chart `charts/web`: dependency `redis`: the download was stopped"
    );
    assert_eq!(reported.get(), Some(&(20, Some(1_000))));
}

#[test]
fn a_chart_that_is_there_needs_no_repository() {
    let inside = "- {name: own, version: ~0.1}\n";
    let world = ChartFixture::new(&[("charts/web/Chart.yaml", &format!("{REDIS}{inside}"))]);
    let refused = world.pack(PackMode::Update).unwrap_err();
    assert_eq!(
        refused,
        "chart `charts/web`: dependency `own`: it names no repository, and there is no \
         `charts/web/charts/own/Chart.yaml`"
    );
    world.write("charts/web/charts/own/Chart.yaml", b"name: own\nversion: 0.2.0\n");
    let refused = world.pack(PackMode::Update).unwrap_err();
    assert_eq!(
        refused,
        "chart `charts/web`: dependency `own`: `charts/own` is version 0.2.0, which does not fit `~0.1`"
    );
    world.write("charts/web/charts/own/Chart.yaml", b"name: own\nversion: 0.1.9\n");
    world.write(
        "charts/web/charts/own-0.1.0.tgz",
        &packed_chart("own", "0.1.0", &[]),
    );
    assert_eq!(
        world.placed(PackMode::Update),
        ["charts/web/Chart.lock", "charts/web/charts/redis-1.10.0.tgz"]
    );
    assert!(
        world
            .text("charts/web/Chart.lock")
            .contains("- name: own\n  repository: \"\"\n  version: ~0.1\n")
    );
}

#[test]
fn one_chart_under_two_names_is_fetched_once_and_a_duplicate_name_is_reported() {
    let twice =
        "- {name: redis, version: 1.2.0, repository: 'https://charts.example.com/stable', alias: b}\n";
    let world = ChartFixture::new(&[("charts/web/Chart.yaml", &format!("{REDIS}{twice}"))]);
    assert_eq!(
        world.placed(PackMode::Update),
        [
            "charts/web/Chart.lock",
            "charts/web/charts/redis-1.10.0.tgz",
            "charts/web/charts/redis-1.2.0.tgz"
        ]
    );
    let same = twice.replace("1.2.0", "1.10.0");
    world.write("charts/web/Chart.yaml", format!("{REDIS}{same}").as_bytes());
    world.host.take_requests();
    assert_eq!(
        world.placed(PackMode::Update),
        ["charts/web/Chart.lock", "-charts/web/charts/redis-1.2.0.tgz"]
    );
    assert_eq!(
        world.host.take_requests(),
        ["/stable/index.yaml", "/stable/charts/redis-1.10.0.tgz"]
    );
    let other = same.replace("/stable", "/other");
    world.write("charts/web/Chart.yaml", format!("{REDIS}{other}").as_bytes());
    let index = "apiVersion: v1\nentries: {redis: [{version: 1.10.0, urls: [x.tgz]}]}\n";
    world.host.serve_file("/other/index.yaml", index);
    world
        .host
        .serve_file("/other/x.tgz", packed_chart("redis", "1.10.0", &[("a", "b")]));
    assert_eq!(
        world.refused(),
        "two dependencies would be `redis-1.10.0.tgz`; they need different versions"
    );
}
