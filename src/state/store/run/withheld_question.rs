//! The questions of runs in private chats. A person whose access was revoked gets nothing more of them, also no edit of a
//! message that they have.

use super::position;
use crate::base::model::{AskedPeople, RunId, RunQuestion, Sender, step_of_operation};
use crate::state::store::column::parse;
use crate::state::store::{QuestionPlace, StoreError, conversation, people};
use rusqlite::{OptionalExtension, Transaction, params};

/// The beginning of the names of all operations that show a question.
const NAME: &str = "question";
/// The reason why such an operation is not sent.
const REVOKED: &str = "the access of its person was revoked";

/// Returns the run and the step whose question an operation shows; `None` for another operation.
pub(in crate::state::store) fn question_of_operation(op: &str) -> Option<(RunId, i64)> {
    let (run, step, name) = step_of_operation(op)?;
    name.starts_with(NAME).then(|| (run, position(step)))
}

/// Returns the reason why nothing more of a question may be sent: its place is the private chat of the owner of its run or of
/// the person who is asked, and that person is not admitted any more.
pub(in crate::state::store) fn reason_to_withhold(
    tx: &Transaction<'_>,
    (run, step): (RunId, i64),
) -> Result<Option<&'static str>, StoreError> {
    let stored: Option<(String, String, String)> = tx
        .prepare_cached(
            "SELECT question.content, question.address, run.owner FROM run_question AS question
             JOIN run ON run.id = question.run WHERE question.run = ?1 AND question.step = ?2",
        )?
        .query_row(params![run.0, step], |row| row.try_into())
        .optional()?;
    let Some((content, address, owner)) = stored else {
        return Ok(None);
    };
    let question = parse::<RunQuestion>("question", &content);
    let shown = parse::<QuestionPlace>("question", &address);
    // The delivery of its thread does not stop at one that this version cannot read.
    let (Ok(question), Ok(shown)) = (question, shown) else {
        return Ok(None);
    };
    // Nor at an owner that is not readable. What is known about the person who is asked counts all the same.
    let mut accounts: Vec<Sender> = parse::<Sender>("sender", &owner).into_iter().collect();
    if let AskedPeople::Person { user, .. } = question.asked {
        accounts.extend(people::person(tx, user)?.senders);
    }
    for account in &accounts {
        let is_admitted = people::user_of(tx, account)?.is_some_and(|(_, is_revoked)| !is_revoked);
        if !is_admitted && conversation::is_private_chat(tx, account, &shown.place)? {
            return Ok(Some(REVOKED));
        }
    }
    Ok(None)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::REVOKED;
    use crate::base::model::{AskedPeople, Inbound, RunId, RunQuestion, UserId};
    use crate::state::store::fixture::{accept, at, fresh, new_run, person, post, says};
    use crate::state::store::people::{add_person, revoke};
    use crate::state::store::{
        DeadLetterFilter, NewRun, NewRunQuestion, QuestionPlace, RunAdvance, StepBegin, Store,
    };

    const RUN: RunId = RunId(1);
    const QUESTION: &str = "run-1-0/question";

    /// Returns a message in the private chat of a person.
    fn direct(user: &str) -> Inbound {
        let mut inbound = says(user, "hi", &[user]);
        inbound.direct = true;
        inbound.place.chat = format!("D-{user}");
        inbound
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
            ops: vec![post(QUESTION, None, "Go on?")],
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
                let op = format!("run-1-0/{name}");
                reasons.push(store.reason_to_withdraw(&op).await.unwrap());
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
        // Their next invite gives them the chat back.
        admit(&store, "U2").await;
        assert_eq!(reasons().await, [None; 4]);
        // The owner of the run does not read it.
        let revoked = store.write(|tx| revoke(tx, UserId(1), at(7))).await;
        assert!(revoked.is_ok_and(|tokens| tokens.is_some()));
        assert_eq!(reasons().await, [None; 4]);
    }

    #[tokio::test]
    async fn a_question_to_a_revoked_person_is_withheld_also_if_the_owner_of_its_run_is_not_readable() {
        let (_directory, store) = fresh();
        asking(&store).await;
        let odd = store.write(|tx| Ok(tx.execute("UPDATE run SET owner = 'odd'", [])?));
        assert_eq!(odd.await, Ok(1));
        assert_eq!(store.reason_to_withdraw(QUESTION).await, Ok(None));
        let revoked = store.write(|tx| revoke(tx, UserId(2), at(4))).await;
        assert_eq!(revoked, Ok(Some(Vec::new())));
        assert_eq!(store.reason_to_withdraw(QUESTION).await, Ok(Some(REVOKED)));
    }
}
