//! Tests of quiet runs: the driver looks at one that has succeeded again when a reply of it is lost, and its message is known
//! from then on.

use super::{advance, count, created, due, ends_with, new};
use crate::base::model::{RunStatus, StepEnd};
use crate::state::store::fixture::{at, fresh, placeholder, post};
use crate::state::store::{NewRun, RunAdvance};

const REPLY: &str = "run-1-2/reply-1";

#[tokio::test]
async fn a_lost_reply_makes_the_driver_look_at_a_quiet_run_that_has_succeeded() {
    for (inputs, is_due) in [
        (r#"{"quiet":true}"#, true),
        (r#"{"quiet":false}"#, false),
        ("{}", false),
        ("odd", false),
    ] {
        let (_directory, store) = fresh();
        let quiet = NewRun {
            inputs: inputs.to_owned(),
            ..new(&[])
        };
        let id = created(&store, quiet, 0).await.head.id;
        let replied = RunAdvance {
            end: vec![(2, StepEnd::succeeded("done"))],
            ops: vec![post(REPLY, None, "a")],
            ..ends_with(RunStatus::Succeeded)
        };
        assert!(advance(&store, id, replied, 1).await.is_some());
        assert_eq!(due(&store, 1).await, Vec::<i64>::new());
        store.record_failed(REPLY, "refused", None, at(2)).await.unwrap();
        assert_eq!(due(&store, 2).await.len(), usize::from(is_due), "{inputs}");
        assert_eq!(store.has_run_message(id).await, Ok(false));
        if !is_due {
            continue;
        }
        for second in [3, 4] {
            let shown = RunAdvance {
                ops: vec![placeholder("run-1/message", None, "begins")],
                ..RunAdvance::default()
            };
            assert!(advance(&store, id, shown, second).await.is_some());
        }
        assert_eq!(due(&store, 4).await, Vec::<i64>::new());
        assert_eq!(store.has_run_message(id).await, Ok(true));
        let posts = "SELECT COUNT(*) FROM outbox WHERE op = 'run-1/message'";
        assert_eq!(count(&store, posts).await, 1);
    }
}
