//! The people whom the steps of runs ask. Nothing more of a question is sent to the private chat of one whose access was revoked,
//! also no edit of a message that they have.

use super::position;
use crate::base::model::{AskedPeople, RunQuestion, Sender, step_of_operation};
use crate::state::store::column::parse;
use crate::state::store::{StoreError, people};
use rusqlite::{OptionalExtension, Transaction, params};

/// The beginning of the names of all operations that show a question.
const NAME: &str = "question";

/// Returns the accounts of the person who is asked by the question that an operation shows. There are none for a question to
/// those with a role, and for another operation.
pub(in crate::state::store) fn asked_accounts(
    tx: &Transaction<'_>,
    op: &str,
) -> Result<Vec<Sender>, StoreError> {
    let question = step_of_operation(op).filter(|(.., name)| name.starts_with(NAME));
    let Some((run, step, _)) = question else {
        return Ok(Vec::new());
    };
    let content: Option<String> = tx
        .prepare_cached("SELECT content FROM run_question WHERE run = ?1 AND step = ?2")?
        .query_row(params![run.0, position(step)], |row| row.get(0))
        .optional()?;
    // The delivery of its thread does not stop at a question that this version cannot read.
    let question = content.and_then(|content| parse::<RunQuestion>("question", &content).ok());
    match question.map(|question| question.asked) {
        Some(AskedPeople::Person { user, .. }) => people::accounts(tx, user),
        Some(AskedPeople::Role(_)) | None => Ok(Vec::new()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::base::model::{AskedPeople, Inbound, Op, RunId, RunQuestion, UserId};
    use crate::state::store::fixture::{accept, at, fresh, new_run, person, post, says};
    use crate::state::store::people::{add_person, revoke};
    use crate::state::store::{
        DeadLetterFilter, NewRun, NewRunQuestion, QuestionPlace, RunAdvance, StepBegin, Store,
    };

    const RUN: RunId = RunId(1);
    const QUESTION: &str = "run-1-0/question";
    const REVOKED: &str = "the access of its person was revoked";

    /// Returns a message in the private chat of a person.
    fn direct(user: &str) -> Inbound {
        let mut inbound = says(user, "hi", &[user]);
        inbound.direct = true;
        inbound.place.chat = format!("D-{user}");
        inbound
    }

    /// Returns an operation of the step in the private chat of the second user.
    fn shown(name: &str) -> Op {
        Op {
            place: direct("U2").place,
            ..post(&format!("run-1-0/{name}"), None, "Go on?")
        }
    }

    async fn admit(store: &Store, user: &'static str) {
        let grant = ("editor".into(), "*".into(), Vec::new());
        let admitted = store.write(move |tx| add_person(tx, user, "operator", &person(user), &grant, at(0)));
        admitted.await.unwrap();
    }

    fn run_of(user: &str) -> NewRun {
        NewRun {
            pipeline: "release".to_owned(),
            owner: person(user),
            ..new_run(&[("approve", "ask")])
        }
    }

    /// Returns the question to the second user, in the private chat of an account.
    fn question_in(user: &str) -> NewRunQuestion {
        NewRunQuestion {
            question: RunQuestion {
                run: RUN,
                pipeline: "release".to_owned(),
                repository: "infra".to_owned(),
                asked: AskedPeople::Person {
                    user: UserId(2),
                    name: "U2".to_owned(),
                },
                text: "Go on?".to_owned(),
                values: Vec::new(),
                choices: vec!["yes".to_owned()],
                default: None,
                seconds: 60,
            },
            shown: QuestionPlace {
                post: QUESTION.to_owned(),
                channel: "slack".to_owned(),
                place: direct(user).place,
            },
            tokens: vec![[1; 32]],
            ops: vec![shown("question")],
            deadline: at(60),
        }
    }

    /// A run of the first user asks the second one in their private chat.
    async fn asking(store: &Store) {
        for (user, second) in [("U1", 0), ("U2", 1)] {
            admit(store, user).await;
            accept(store, &direct(user), second).await;
        }
        store.create_run(run_of("U1"), None, at(2)).await.unwrap();
        let version = store.run(RUN).await.unwrap().unwrap().version;
        let moves = RunAdvance {
            begin: vec![(0, StepBegin::Question(Box::new(question_in("U2"))))],
            ..RunAdvance::default()
        };
        let moved = store.advance_run(RUN, version, moves, at(3)).await;
        assert!(moved.unwrap().is_some());
    }

    #[tokio::test]
    async fn nothing_more_of_a_question_is_sent_to_a_private_chat_after_a_revocation() {
        let (_directory, store) = fresh();
        asking(&store).await;
        let reasons = async || {
            let mut reasons = Vec::new();
            for name in ["question", "question/fill", "question/closed", "reply-1"] {
                reasons.push(store.reason_to_withdraw(&shown(name)).await.unwrap());
            }
            reasons
        };
        assert_eq!(reasons().await, [None; 4]);
        store
            .record_failed(QUESTION, "refused", None, at(4))
            .await
            .unwrap();
        let revoked = store.write(|tx| revoke(tx, UserId(2), at(5))).await;
        assert_eq!(revoked, Ok(Some(Vec::new())));
        let withheld = Some(REVOKED);
        assert_eq!(reasons().await, [withheld, withheld, withheld, None]);
        let again = DeadLetterFilter::Op(QUESTION.to_owned());
        let again = store.send_again(again, "operator", at(6)).await.unwrap();
        assert_eq!((again.queued.len(), again.withdrawn.len()), (0, 1));
        // Their next invite gives them the chat back, without what they were not sent.
        admit(&store, "U2").await;
        assert_eq!(reasons().await, [withheld, None, None, None]);
        // The owner of the run does not read it.
        let revoked = store.write(|tx| revoke(tx, UserId(1), at(7))).await;
        assert!(revoked.is_ok_and(|tokens| tokens.is_some()));
        assert_eq!(reasons().await, [withheld, None, None, None]);
    }

    #[tokio::test]
    async fn a_question_to_a_revoked_person_is_withheld_also_if_the_owner_of_its_run_is_not_readable() {
        let (_directory, store) = fresh();
        asking(&store).await;
        let odd = store.write(|tx| Ok(tx.execute("UPDATE run SET owner = 'odd'", [])?));
        assert_eq!(odd.await, Ok(1));
        let closed = shown("question/closed");
        assert_eq!(store.reason_to_withdraw(&closed).await, Ok(None));
        let revoked = store.write(|tx| revoke(tx, UserId(2), at(4))).await;
        assert_eq!(revoked, Ok(Some(Vec::new())));
        assert_eq!(store.reason_to_withdraw(&closed).await, Ok(Some(REVOKED)));
    }
}
