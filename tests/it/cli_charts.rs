//! `drydock tanka charts`: the vendored charts, and the output of the real helm for charts, beside the tools of a
//! model.

use crate::support::require::component;
use crate::support::shell::Shell;
use serde_json::json;

const CHARTFILE: &str = "version: 1\nrepositories: [{name: stable, url: 'https://charts.helm.sh/stable'}]\n\
                         requires:\n- {chart: stable/web, version: 1.0.0}\n- {chart: stable/db, version: 2.0.0}\n";

const WEB: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n\
                   - {name: common, version: 0.1.0, repository: 'file://../common'}\n";

fn shell() -> Shell {
    Shell::with_repository(&[
        ("chartfile.yaml", CHARTFILE),
        ("charts/web/Chart.yaml", WEB),
        (
            "charts/web/templates/a.yaml",
            "kind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n",
        ),
        (
            "charts/common/Chart.yaml",
            "apiVersion: v2\nname: common\nversion: 0.1.0\ntype: library\n",
        ),
        (
            "charts/bad/Chart.yaml",
            "apiVersion: v2\nname: bad\nversion: 1.0.0\n",
        ),
        ("charts/bad/templates/a.yaml", "a: {{ .Values.x.y }\n"),
        (
            "charts/far/Chart.yaml",
            "apiVersion: v2\nname: far\nversion: 1.0.0\ndependencies:\n\
             - {name: redis, version: 1.0.0, repository: 'https://charts.example.com'}\n",
        ),
    ])
}

#[test]
fn a_chartfile_is_compared_with_what_is_there() {
    let shell = shell();
    let list = shell.run(&["tanka", "charts", "list", "--json"]);
    let row = |directory: &str,
               chart: Option<&str>,
               wanted: Option<&str>,
               found: Option<&str>,
               drift: &str| {
        json!({ "directory": directory, "chart": chart, "wanted": wanted, "found": found, "drift": drift })
    };
    let not_listed = |name: &str, version: &str| row(name, None, None, Some(version), "not_listed");
    let different = [
        not_listed("charts/bad", "1.0.0"),
        not_listed("charts/common", "0.1.0"),
        row("charts/db", Some("stable/db"), Some("2.0.0"), None, "missing"),
        not_listed("charts/far", "1.0.0"),
    ];
    let same = row(
        "charts/web",
        Some("stable/web"),
        Some("1.0.0"),
        Some("1.0.0"),
        "none",
    );
    let all = [different.as_slice(), &[same]].concat();
    assert_eq!(
        (list.code, list.json()),
        (Some(0), json!({ "charts": all })),
        "{list:?}"
    );
    let diff = shell.run(&["tanka", "charts", "diff", "--json"]);
    assert_eq!(
        (diff.code, diff.json()),
        (Some(16), json!({ "charts": different })),
        "{diff:?}"
    );
    assert!(diff.err.contains("4 of 5 charts differ"), "{diff:?}");
    let missing = shell.run(&["tanka", "charts", "list", "--path", "charts"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(
        missing.err.contains("no file `charts/chartfile.yaml`"),
        "{missing:?}"
    );
}

#[test]
fn without_a_helm_the_key_to_set_is_named() {
    let shell = shell();
    let lint = shell.run(&["tanka", "charts", "lint", "charts/web"]);
    assert_eq!(lint.code, Some(1), "{lint:?}");
    assert!(lint.err.contains("name it with `[helm] program`"), "{lint:?}");
}

/// TK-49
#[test]
fn the_real_helm_lints_lists_and_packs() {
    let Some(helm) = component("helm") else { return };
    let shell = shell();
    let set = format!("helm.program={}", helm.place().display());
    let run = |arguments: &[&str]| {
        let all = [&["tanka", "charts"], arguments, &["--set", &set]].concat();
        shell.run(&all)
    };
    let bad = run(&["lint", "charts/bad"]);
    assert_eq!(bad.code, Some(0), "{bad:?}");
    assert!(bad.out.contains("[ERROR] templates/"), "{bad:?}");
    let list = run(&["dependencies", "charts/web"]);
    assert!(
        list.out.contains("file://../common") && list.out.contains("missing"),
        "{list:?}"
    );

    let update = run(&["update", "charts/web"]);
    assert_eq!(update.code, Some(0), "{update:?}");
    assert_eq!(
        update.out,
        "charts/web/Chart.lock\ncharts/web/charts/common-0.1.0.tgz\n"
    );
    assert!(shell.get("charts/web/Chart.lock").contains("name: common"));
    let list = run(&["dependencies", "charts/web"]);
    assert!(list.out.contains("ok"), "{list:?}");
    // A second archive has another timestamp and the same files.
    let again = run(&["build", "charts/web"]);
    assert_eq!((again.code, again.out.as_str()), (Some(0), ""), "{again:?}");

    let far = run(&["update", "charts/far"]);
    assert_eq!(far.code, Some(1), "{far:?}");
    assert!(
        far.err
            .contains("an operator allows hosts with `[helm] hosts_allowed`"),
        "{far:?}"
    );
    let outside = run(&["lint", "../x"]);
    assert!(outside.err.contains("outside of the repository"), "{outside:?}");
    let none = run(&["lint", "charts"]);
    assert!(none.err.contains("there is no `charts/Chart.yaml`"), "{none:?}");
}

/// T50
#[test]
fn a_check_says_which_helm_runs_in_the_sandbox() {
    let Some(helm) = component("helm") else { return };
    let shell = shell().set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
    let set = format!("helm.program={}", helm.place().display());
    let check = shell.run(&["check", "--json", "--set", &set]);
    let findings = check.json();
    let findings = findings["findings"].as_array().expect("findings").clone();
    let found = findings
        .iter()
        .find(|finding| finding["what"] == "helm")
        .expect("helm");
    assert_eq!(found["ok"], true, "{found}");
    assert!(
        found["detail"]
            .as_str()
            .is_some_and(|detail| detail.starts_with("v3.")),
        "{found}"
    );
}
