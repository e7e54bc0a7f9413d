//! Tests of the errors that the outbox gets for failed calls; no error contains the token.

use super::super::TelegramFault;
use super::*;
use crate::interfaces::channel::NoPollMemory;
use std::io::Write;
use std::sync::Mutex;

fn not_sent(why: &str, seconds: Option<u64>) -> Result<(), SendError> {
    Err(SendError::NotSent {
        why: why.to_owned(),
        retry_after: seconds.map(Duration::from_secs),
    })
}

fn limited(seconds: u64) -> Result<(), SendError> {
    Err(SendError::Limited {
        why: "telegram limits the rate of calls".to_owned(),
        retry_after: Some(Duration::from_secs(seconds)),
    })
}

/// R17: the class of a failure decides whether a post may be repeated.
#[tokio::test]
async fn failures_are_classified_by_whether_they_may_be_retried() {
    let setup = Setup::new().await;
    let message = setup
        .post(&Reply::text("Working."))
        .await
        .unwrap()
        .message
        .unwrap();
    let ambiguous = || Err(SendError::Ambiguous("the connection broke".to_owned()));
    let refused = |why: &str| Err(SendError::Refused(why.to_owned()));
    let broke = || not_sent("the connection broke", None);
    for (fault, post, edit) in [
        (TelegramFault::TooMany(7), limited(7), limited(7)),
        (
            TelegramFault::Status(502),
            Err(SendError::Ambiguous("telegram answered 502".to_owned())),
            not_sent("telegram answered 502", None),
        ),
        (
            TelegramFault::Status(404),
            refused("404 without a reason"),
            refused("404 without a reason"),
        ),
        (
            TelegramFault::Refused(401, "Unauthorized".to_owned()),
            Err(SendError::Unauthorised("telegram answered 401".to_owned())),
            Err(SendError::Unauthorised("telegram answered 401".to_owned())),
        ),
        (
            TelegramFault::Refused(403, "Forbidden".to_owned()),
            refused("403 Forbidden"),
            refused("403 Forbidden"),
        ),
        (TelegramFault::Reset, ambiguous(), broke()),
        (TelegramFault::ResetAfterEffect, ambiguous(), broke()),
    ] {
        setup.telegram.fail("sendMessage", 1, fault.clone());
        setup.telegram.fail("editMessageText", 1, fault.clone());
        let posted = setup.post(&Reply::text("Hello.")).await.map(|_| ());
        assert_eq!(posted, post, "{fault:?}");
        let reply = Reply::text(format!("Now {fault:?}"));
        let action = Action::Edit {
            message: message.clone(),
            reply,
        };
        assert_eq!(
            setup.deliver(place(ALICE, None), action).await.map(|_| ()),
            edit,
            "{fault:?}"
        );
    }
    // Only the last post took effect, and its answer was lost.
    assert_eq!(setup.telegram.messages(ALICE).len(), 2);
}

/// R17: an edit whose answer was lost is repeated, and is visible once.
#[tokio::test]
async fn an_edit_may_be_repeated_after_its_answer_was_lost() {
    let setup = Setup::new().await;
    let message = setup
        .post(&Reply::text("Working."))
        .await
        .unwrap()
        .message
        .unwrap();
    setup
        .telegram
        .fail("editMessageText", 1, TelegramFault::ResetAfterEffect);
    let action = Action::Edit {
        message,
        reply: Reply::text("Done."),
    };
    assert!(setup.deliver(place(ALICE, None), action.clone()).await.is_err());
    assert_eq!(
        setup.deliver(place(ALICE, None), action).await,
        Ok(Delivered::default())
    );
    let messages = setup.telegram.messages(ALICE);
    assert_eq!(
        (messages.len(), messages[0].text.as_str(), messages[0].edits),
        (1, "Done.", 1)
    );
}

/// R17, scaled: a placeholder, and then an edit that is repeated until it is confirmed.
#[tokio::test]
async fn two_hundred_answers_over_a_bad_line_show_once_each() {
    let setup = Setup::new().await;
    let faults = [
        TelegramFault::ResetAfterEffect,
        TelegramFault::Status(502),
        TelegramFault::Reset,
        TelegramFault::TooMany(1),
    ];
    for (number, fault) in (0..200).zip(faults.iter().cycle()) {
        let message = setup
            .post(&Reply::text("Working."))
            .await
            .unwrap()
            .message
            .unwrap();
        setup.telegram.fail("editMessageText", number % 4, fault.clone());
        let reply = Reply::text(format!("Answer {number}"));
        let action = Action::Edit { message, reply };
        let mut attempts = 0;
        while let Err(err) = setup.deliver(place(ALICE, None), action.clone()).await {
            assert!(
                matches!(err, SendError::NotSent { .. } | SendError::Limited { .. }),
                "{err}"
            );
            attempts += 1;
            assert!(attempts <= 3);
        }
    }
    let shown: Vec<String> = setup
        .telegram
        .messages(ALICE)
        .into_iter()
        .map(|posted| posted.text)
        .collect();
    let expected: Vec<String> = (0..200).map(|number| format!("Answer {number}")).collect();
    assert_eq!(shown, expected);
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_message_that_telegram_cannot_read_is_sent_plain() {
    let setup = Setup::new().await;
    let why = "Bad Request: can't parse entities: unsupported".to_owned();
    setup
        .telegram
        .fail("sendMessage", 1, TelegramFault::Refused(400, why.clone()));
    setup.post(&Reply::text("See `web`.")).await.unwrap();
    let posted = setup.telegram.messages(ALICE).remove(0);
    assert_eq!((posted.text.as_str(), posted.entities.len()), ("See web.", 0));
    setup
        .telegram
        .fail("sendMessage", 9, TelegramFault::Refused(400, why));
    let calls = setup.telegram.calls().len();
    assert!(matches!(
        setup.post(&Reply::text("x")).await,
        Err(SendError::Refused(_))
    ));
    assert_eq!(setup.telegram.calls().len() - calls, 2);
}

#[tokio::test]
async fn a_reply_to_a_deleted_message_is_still_sent() {
    let setup = Setup::new().await;
    setup.telegram.delete(ALICE, setup.asked.id.parse().unwrap());
    let action = Action::Post {
        reply: Reply::text("Done."),
        reply_to: Some(setup.asked.clone()),
        placeholder: false,
    };
    setup.deliver(place(ALICE, None), action.clone()).await.unwrap();
    let why = "Bad Request: message to be replied not found".to_owned();
    setup
        .telegram
        .fail("sendMessage", 1, TelegramFault::Refused(400, why));
    setup.deliver(place(ALICE, None), action).await.unwrap();
    assert_eq!(setup.telegram.messages(ALICE).len(), 2);
}

#[tokio::test]
async fn rates_are_answered_with_how_long_to_wait() {
    let setup = Setup::new().await;
    setup.telegram.limit_rates();
    for text in ["one", "two", "three"] {
        setup.post(&Reply::text(text)).await.unwrap();
    }
    let message = setup.post(&Reply::text("four")).await.unwrap();
    let fifth = setup.post(&Reply::text("five")).await.map(|_| ());
    assert_eq!(fifth, limited(1));
    // Edits count like messages.
    let edit = Action::Edit {
        message: message.message.unwrap(),
        reply: Reply::text("fifth"),
    };
    let edited = setup.deliver(place(ALICE, None), edit).await.map(|_| ());
    assert_eq!(edited, limited(1));
    assert_eq!(setup.telegram.rate_violations(), 2);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// T86
#[tokio::test]
async fn no_failure_ever_shows_the_token() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let setup = Setup::new().await;
    let mut errors = Vec::new();
    for fault in [
        TelegramFault::Reset,
        TelegramFault::ResetAfterEffect,
        TelegramFault::Status(500),
        TelegramFault::Status(302),
        TelegramFault::Refused(404, format!("no such path /bot{TOKEN}/sendMessage")),
        TelegramFault::Refused(400, "AAsecret-part_of-the-token".to_owned()),
    ] {
        setup.telegram.fail("sendMessage", 1, fault.clone());
        setup.telegram.fail("getUpdates", 1, fault);
        errors.push(setup.post(&Reply::text("x")).await.map(|_| ()).unwrap_err());
    }
    let plain = setup.telegram.api_base_url();
    for base in [
        plain.replace("http://", "https://"),
        "http://127.0.0.1:1".to_owned(),
        "not an address".to_owned(),
        "http://[::bad".to_owned(),
    ] {
        let settings = settings(&base, TelegramMode::Polling);
        errors.push(
            connect("telegram", &settings, &server(), &client())
                .await
                .map(|_| ())
                .unwrap_err(),
        );
    }
    let impatient = reqwest::Client::builder()
        .no_proxy()
        .read_timeout(Duration::from_millis(50))
        .build()
        .unwrap();
    setup.telegram.fail("getMe", 1, TelegramFault::Silence);
    let polling = settings(&plain, TelegramMode::Polling);
    errors.push(
        connect("telegram", &polling, &server(), &impatient)
            .await
            .map(|_| ())
            .unwrap_err(),
    );
    let polling = Arc::clone(&setup.channel);
    let (inbox, _updates) = tokio::sync::mpsc::channel(1);
    let cancel = tokio_util::sync::CancellationToken::new();
    let task = tokio::spawn({
        let cancel = cancel.clone();
        async move {
            polling
                .poll(inbox, &NoPollMemory, || jiff::Timestamp::UNIX_EPOCH, cancel)
                .await;
        }
    });
    let polls =
        |telegram: &TelegramEmulator| telegram.calls().iter().any(|(method, _)| method == "getUpdates");
    assert!(setup.telegram.wait_until(SOON, polls).await);
    cancel.cancel();
    task.await.unwrap();
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(!logged.is_empty());
    let shown = format!(
        "{errors:?} {} {logged}",
        errors.iter().map(ToString::to_string).collect::<String>()
    );
    assert!(!shown.contains("AAsecret"), "{shown}");
}
