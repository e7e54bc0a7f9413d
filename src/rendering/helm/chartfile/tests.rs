//! `chartfile.yaml`: required and present charts.

#![allow(clippy::unwrap_used)]

use super::{Chartfile, Drift, compare_vendored};
use crate::rendering::tanka::testing::ReadOnlyTree;

const GOOD: &str = "\
version: 1
repositories:
- name: stable
  url: https://charts.helm.sh/stable
requires:
- chart: stable/web
  version: 1.2.3
- chart: stable/db
  version: 2.0.0
  directory: data/db
- chart: stable/gone
  version: 1.0.0
";

fn invalid(text: &str) -> String {
    let tree = ReadOnlyTree::new(&[("chartfile.yaml", text)]);
    Chartfile::read(tree.as_ref(), "").unwrap_err().to_string()
}

#[test]
fn what_is_there_is_compared_with_what_is_asked_for() {
    let tree = ReadOnlyTree::new(&[
        ("app/chartfile.yaml", GOOD),
        ("app/charts/web/Chart.yaml", "name: web\nversion: 1.2.3\n"),
        (
            "app/charts/web/charts/inner/Chart.yaml",
            "name: inner\nversion: 9.0.0\n",
        ),
        ("app/charts/data/db/Chart.yaml", "name: db\nversion: 1.9.0\n"),
        ("app/charts/old/Chart.yaml", "name: old\nversion: 0.1.0\n"),
    ]);
    let chartfile = Chartfile::read(tree.as_ref(), "app").unwrap();
    let rows: Vec<_> = compare_vendored(tree.as_ref(), &chartfile)
        .unwrap()
        .into_iter()
        .map(|chart| (chart.directory, chart.wanted, chart.found, chart.drift))
        .collect();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        rows,
        [
            (
                "app/charts/data/db".to_owned(),
                text("2.0.0"),
                text("1.9.0"),
                Drift::OtherVersion
            ),
            ("app/charts/gone".to_owned(), text("1.0.0"), None, Drift::Missing),
            ("app/charts/old".to_owned(), None, text("0.1.0"), Drift::NotListed),
            (
                "app/charts/web".to_owned(),
                text("1.2.3"),
                text("1.2.3"),
                Drift::None
            ),
        ]
    );
}

#[test]
fn all_conflicts_of_a_chartfile_are_reported_at_once() {
    let text = "version: 1\nrepositories: [{name: r, url: 'https://x'}]\nrequires:\n\
                - {chart: web, version: 1.0.0}\n- {chart: r/a, version: 1.0.0}\n\
                - {chart: r/b, version: 2.0.0, directory: a}\n- {chart: s/c, version: 1.0.0}\n\
                - {chart: r/d, version: 1.0.0, directory: ../../d}\n";
    assert_eq!(
        invalid(text),
        "`chartfile.yaml`: validation errors:\n \
         - Chart name \"web\" is not valid. Expecting a repo/name format.\n \
         - output directory \"a\" is used twice, by charts \"r/a@1.0.0\" and \"r/b@2.0.0\"\n \
         - repository \"s\" not found for chart \"s/c\"\n \
         - directory \"../../d\" of chart \"r/d\" is outside the repository"
    );
    let name = "version: 1\nrepositories: [{name: 'a b', url: 'https://x'}]\n";
    assert!(invalid(name).contains("Repository name \"a b\" is not valid."));
    let directory = "version: 1\ndirectory: ../charts\n";
    assert!(invalid(directory).contains("directory \"../charts\" is outside the repository"));
}

#[test]
fn what_is_no_chartfile_is_refused() {
    for (text, why) in [
        ("version: 2\n", "version 2 is not known; 1 is"),
        ("version: 1\nrequire: []\n", "unknown field `require`"),
        (
            "version: 1\nrequires: [{chart: r/a}]\n",
            "missing field `version`",
        ),
        ("a: [", "yaml:"),
        ("", "it is not one document"),
    ] {
        let error = invalid(text);
        assert!(error.contains(why), "{text:?}: {error}");
    }
}
