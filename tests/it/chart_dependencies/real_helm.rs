//! The same dependencies, handled by the real helm, if it is installed.

use super::{ChartFixture, REDIS};
use crate::support::require::component;
use drydock::rendering::helm::PackMode;
use std::path::Path;
use std::process::Command;

/// Runs the real helm in a directory, with the host among its repositories and a current index.
fn real_helm(helm: &Path, world: &ChartFixture, work: &Path, arguments: &[&str]) -> String {
    let home = world.room.path().join("home");
    let cache = home.join("cache/repository");
    std::fs::create_dir_all(&cache).unwrap();
    std::fs::create_dir_all(home.join("config")).unwrap();
    let known =
        "apiVersion: \"\"\nrepositories:\n- {name: stable, url: 'https://charts.example.com/stable'}\n";
    std::fs::write(home.join("config/repositories.yaml"), known).unwrap();
    let mut index = "apiVersion: v1\nentries:\n  redis:\n".to_owned();
    for version in ["1.2.0", "1.10.0", "2.0.0", "1.11.0-rc.1"] {
        let address = &world.host.address;
        index += &format!(
            "  - {{name: redis, version: {version}, urls: ['{address}stable/charts/redis-{version}.tgz']}}\n"
        );
    }
    std::fs::write(cache.join("stable-index.yaml"), index).unwrap();
    let ran = Command::new(helm)
        .args(arguments)
        .current_dir(work)
        .env_clear()
        .env("HOME", &home)
        .env("HELM_CACHE_HOME", home.join("cache"))
        .env("HELM_CONFIG_HOME", home.join("config"))
        .env("HELM_DATA_HOME", home.join("data"))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{arguments:?}: {ran:?}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &place),
            false => drop(std::fs::copy(entry.path(), place).unwrap()),
        }
    }
}

/// TK-49
#[test]
fn the_real_helm_chooses_and_locks_the_same() {
    let Some(helm) = component("helm") else { return };
    let others = "- {name: common, version: 0.x, repository: file://../common, alias: base}\n\
                  - {name: own, version: '>=0.1'}\n";
    let web = [
        ("apiVersion: v2\n", "Chart.yaml", "Chart.lock"),
        ("", "requirements.yaml", "requirements.lock"),
    ];
    for (version, declaration, lock) in web {
        let head = format!("{version}name: web\nversion: 1.0.0\n");
        let dependencies = REDIS.split_once("dependencies:").unwrap().1;
        let dependencies = format!("dependencies:{dependencies}{others}");
        let mut world = ChartFixture::new(&[
            ("charts/web/Chart.yaml", &head),
            ("charts/web/values.yaml", "cache: {enabled: true}\n"),
            (
                "charts/web/charts/own/Chart.yaml",
                "apiVersion: v2\nname: own\nversion: 0.3.0\n",
            ),
            (
                "charts/common/Chart.yaml",
                "apiVersion: v2\nname: common\nversion: 0.4.2\n",
            ),
            (
                "charts/common/templates/a.yaml",
                "kind: ConfigMap\nmetadata: {name: base}\n",
            ),
        ]);
        world.helm = Some(helm.place());
        let declared = match declaration {
            "Chart.yaml" => format!("{head}{dependencies}"),
            _ => dependencies,
        };
        world.write(&format!("charts/web/{declaration}"), declared.as_bytes());
        let theirs = world.room.path().join("theirs");
        copy(&world.root(), &theirs);

        let mut expected = vec![
            format!("charts/web/{lock}"),
            "charts/web/charts/common-0.4.2.tgz".to_owned(),
            "charts/web/charts/redis-1.10.0.tgz".to_owned(),
        ];
        expected.sort();
        assert_eq!(world.placed(PackMode::Update), expected);
        let update = ["dependency", "update", "--skip-refresh", "charts/web"];
        real_helm(&helm.place(), &world, &theirs, &update);
        let without_time = |text: String| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.starts_with("generated: "));
            lines.map(str::to_owned).collect()
        };
        let their_lock = std::fs::read_to_string(theirs.join("charts/web").join(lock)).unwrap();
        assert_eq!(
            without_time(world.text(&format!("charts/web/{lock}"))),
            without_time(their_lock.clone())
        );
        // Each builds from the lock of the other.
        real_helm(
            &helm.place(),
            &world,
            &world.root(),
            &["dependency", "build", "--skip-refresh", "charts/web"],
        );
        world.write(&format!("charts/web/{lock}"), their_lock.as_bytes());
        assert_eq!(world.placed(PackMode::Build), [""; 0]);
        let list = real_helm(
            &helm.place(),
            &world,
            &world.root(),
            &["dependency", "list", "charts/web"],
        );
        assert_eq!(
            list.matches("ok").count() + list.matches("unpacked").count(),
            3,
            "{list}"
        );
        let rendered = real_helm(&helm.place(), &world, &world.root(), &["template", "charts/web"]);
        assert!(rendered.contains("name: base"), "{rendered}");
    }
}
