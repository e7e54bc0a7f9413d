//! Comparisons before and after the cross-check.

use super::{CompareFixture, fixture, impact, repository, sides, states, web};
use crate::base::model::CheckState;
use crate::rendering::compare::{CompareRequest, Comparison};
use crate::rendering::review::{Impact, NotProven};

const NOT_YET: &str = "the second engine runs before this counts as checked";

impl CompareFixture {
    async fn with_deferred_cross_check(&self, before: &[(&str, &str)], after: &[(&str, &str)]) -> Comparison {
        let asked = CompareRequest::all(sides(before, after), "").defer_cross_check();
        self.compare(asked).await.unwrap()
    }
}

fn entrypoints(mark: &str) -> [String; 2] {
    ["dev", "prod"].map(|name| format!("environments/{name}/main.jsonnet{mark}"))
}

#[tokio::test]
async fn a_comparison_shows_its_diff_first_and_then_runs_only_the_second_engine() {
    let fixture = fixture();
    let (two, three) = (web(2), web(3));
    let base = repository(&[("lib/web.libsonnet", &two)]);
    let head = repository(&[("lib/web.libsonnet", &three)]);
    let first = fixture.with_deferred_cross_check(&base, &head).await;
    assert_eq!(first.report.counts.affected, 2);
    assert_eq!(states(&first)[3], (CheckState::NotRun, NOT_YET));
    assert_eq!(
        (first.failing.len(), first.unknown.as_deref()),
        (0, Some(NOT_YET))
    );
    let mut both_sides = [entrypoints(""), entrypoints("")].concat();
    both_sides.sort();
    assert_eq!(fixture.evaluated(), both_sides);

    let whole = fixture.all(&base, &head).await;
    assert_eq!(whole.report, first.report);
    assert_eq!(states(&whole)[3], (CheckState::Pass, ""));
    assert_eq!(whole.unknown, None);
    assert_eq!(fixture.evaluated(), entrypoints(" by the second"));

    // The verdict is cached.
    fixture.all(&base, &head).await;
    fixture.with_deferred_cross_check(&base, &head).await;
    assert!(fixture.evaluated().is_empty());
}

#[tokio::test]
async fn a_later_disagreement_of_the_second_engine_fails_the_environment() {
    let fixture = fixture();
    let disputed = r#"{"web": {"apiVersion":"v1","kind":"DISPUTED","metadata":{"name":"x"}}}"#;
    let base = repository(&[("lib/web.libsonnet", "{}")]);
    let head = repository(&[
        ("lib/web.libsonnet", "{}"),
        ("environments/dev/main.jsonnet", disputed),
    ]);
    let first = fixture.with_deferred_cross_check(&base, &head).await;
    assert_eq!(first.report.counts.affected, 1);
    fixture.evaluated();
    let whole = fixture.all(&base, &head).await;
    let reason = impact(&whole, "environments/dev");
    assert!(
        matches!(
            reason,
            Impact::NotProven {
                reason: NotProven::FailsInWorkspace { .. }
            }
        ),
        "{reason:?}"
    );
    assert_eq!(states(&whole)[3].0, CheckState::Fail);
    let [dev, _] = entrypoints("");
    // The last one is for the base, so that an existing disagreement is not attributed to the change.
    let asked = [" by the second", " by the second", " cross-checked"].map(|mark| format!("{dev}{mark}"));
    assert_eq!(fixture.evaluated(), asked);
}
