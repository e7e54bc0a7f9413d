//! Comparisons before the second engine was asked, and after it.

use super::{Bench, bench, repository, sides, standing, states, web};
use crate::compare::{Asked, Comparison};
use crate::model::CheckState;
use crate::review::{NotProven, Standing};

const NOT_YET: &str = "the second engine is asked before this counts as checked";

impl Bench {
    async fn at_first_sight(&self, before: &[(&str, &str)], after: &[(&str, &str)]) -> Comparison {
        let asked = Asked::all(sides(before, after), "").at_first_sight();
        self.compare(asked).await.unwrap()
    }
}

fn entrypoints(mark: &str) -> [String; 2] {
    ["dev", "prod"].map(|name| format!("environments/{name}/main.jsonnet{mark}"))
}

#[tokio::test]
async fn a_difference_is_there_before_the_second_engine_is_asked_and_then_it_alone_is() {
    let bench = bench();
    let (two, three) = (web(2), web(3));
    let base = repository(&[("lib/web.libsonnet", &two)]);
    let head = repository(&[("lib/web.libsonnet", &three)]);
    let first = bench.at_first_sight(&base, &head).await;
    assert_eq!(first.report.counts.affected, 2);
    assert_eq!(states(&first)[3], (CheckState::NotRun, NOT_YET));
    assert_eq!(
        (first.failing.len(), first.unknown.as_deref()),
        (0, Some(NOT_YET))
    );
    let mut both_sides = [entrypoints(""), entrypoints("")].concat();
    both_sides.sort();
    assert_eq!(bench.evaluated(), both_sides);

    let whole = bench.all(&base, &head).await;
    assert_eq!(whole.report, first.report);
    assert_eq!(states(&whole)[3], (CheckState::Pass, ""));
    assert_eq!(whole.unknown, None);
    assert_eq!(bench.evaluated(), entrypoints(" by the second"));

    // Its verdict is kept.
    bench.all(&base, &head).await;
    bench.at_first_sight(&base, &head).await;
    assert!(bench.evaluated().is_empty());
}

#[tokio::test]
async fn what_the_second_engine_says_later_is_not_overheard() {
    let bench = bench();
    let disputed = r#"{"web": {"apiVersion":"v1","kind":"DISPUTED","metadata":{"name":"x"}}}"#;
    let base = repository(&[("lib/web.libsonnet", "{}")]);
    let head = repository(&[
        ("lib/web.libsonnet", "{}"),
        ("environments/dev/main.jsonnet", disputed),
    ]);
    let first = bench.at_first_sight(&base, &head).await;
    assert_eq!(first.report.counts.affected, 1);
    bench.evaluated();
    let whole = bench.all(&base, &head).await;
    let reason = standing(&whole, "environments/dev");
    assert!(
        matches!(
            reason,
            Standing::NotProven {
                reason: NotProven::FailsInWorkspace { .. }
            }
        ),
        "{reason:?}"
    );
    assert_eq!(states(&whole)[3].0, CheckState::Fail);
    let [dev, _] = entrypoints("");
    // The last of them is about the base: the change is not blamed for what was there before.
    let asked = [" by the second", " by the second", " with opinion"].map(|mark| format!("{dev}{mark}"));
    assert_eq!(bench.evaluated(), asked);
}
