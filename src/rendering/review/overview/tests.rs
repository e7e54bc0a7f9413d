//! Overviews of whole reviews.
#![allow(clippy::unwrap_used)]

use crate::base::model::ChangeOverview;
use crate::rendering::review::tests::{reviewed, scaled, unchanged};
use crate::rendering::review::{ChangedFile, ReviewInput, ReviewedEnvironment};

fn overview(environments: Vec<ReviewedEnvironment>, request: &str) -> ChangeOverview {
    let report = reviewed(ReviewInput {
        environments,
        files: vec![ChangedFile {
            path: "environments/dev/main.jsonnet".to_owned(),
            added: 2,
            removed: 2,
        }],
        request: request.to_owned(),
        ..ReviewInput::default()
    });
    report.overview()
}

#[test]
fn one_environment_is_named_with_short_names_of_fields() {
    let environments = vec![
        scaled("environments/dev", 2, 4),
        unchanged("environments/staging"),
        unchanged("environments/prod"),
    ];
    let shown = overview(environments, "");
    assert_eq!(shown.scope, "dev");
    assert_eq!(shown.headline, "1 of 3 environments changes, 1 object");
    assert_eq!(shown.unchanged, 2);
    let titles: Vec<&str> = shown.objects.iter().map(|object| object.title.as_str()).collect();
    assert_eq!(titles, ["dev · Deployment web"]);
    let fields = [("replicas", "2 -> 4"), ("web: image", "web:1.0.0 -> web:1.1.0")];
    let fields = fields.map(|(name, values)| (name.to_owned(), values.to_owned()));
    assert_eq!(shown.objects[0].fields, fields);
    assert!(shown.rest.is_empty() && shown.warnings.is_empty(), "{shown:?}");
}

#[test]
fn many_environments_are_groups_with_counts() {
    let mut environments: Vec<_> = (0..30)
        .map(|number| scaled(&format!("environments/prod-{number:02}"), 2, 4))
        .collect();
    environments.push(scaled("environments/staging", 2, 3));
    let shown = overview(environments, "");
    assert_eq!(shown.scope, "31 environments");
    assert_eq!(shown.headline, "31 of 31 environments change, in 2 groups");
    let titles: Vec<&str> = shown.objects.iter().map(|object| object.title.as_str()).collect();
    assert_eq!(
        titles,
        ["30 like prod-00 · Deployment web", "staging · the same, except:"]
    );
    let differs = ("apps/Deployment web replicas".to_owned(), "2 -> 3".to_owned());
    assert_eq!(shown.objects[1].fields, [differs]);
}

#[test]
fn what_nobody_asked_for_comes_first_and_what_is_too_long_is_counted() {
    let environments = vec![
        scaled("environments/dev", 2, 4),
        scaled("environments/prod", 2, 4),
    ];
    let shown = overview(environments, "web in dev");
    assert_eq!(
        shown.warnings,
        ["⚠ Not requested: environment `environments/prod`."]
    );
    let many: Vec<_> = (0..9)
        .map(|number| scaled(&format!("environments/e{number}"), number, 20 + 7 * number))
        .collect();
    let shown = overview(many, "");
    assert_eq!(shown.objects.len(), 5);
    assert_eq!(shown.rest, "and 4 more below");
    assert!(shown.risks.len() <= 3, "{:?}", shown.risks);
}
