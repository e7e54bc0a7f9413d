//! Runs in a chat. What somebody may not see is answered like what does not exist, and a person without access gets no answer
//! and stores nothing.

use super::{
    ABSENT, ADMINISTRATOR, EDITOR, ELSEWHERE, OWNER, REVOKED, RunMatrix, TARGETS, Target, UNADMITTED, VERBS,
    VIEWER, Verb,
};
use crate::support::app::visible_text;

/// The answer that a role gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// None, and the message is not even stored.
    Silence,
    /// That about what does not exist.
    Unknown,
    /// These words, without an effect.
    Told(&'static str),
    /// These words, with an effect.
    Done(&'static str),
}

use Expected::{Done, Silence, Told, Unknown};

/// The answers to `show`, `cancel`, `retry` and `answer`.
type Answers = [Expected; 4];

/// The row of a role.
struct Row {
    user: &'static str,
    own: Answers,
    service: Answers,
    /// The pipelines whose runs are listed, of `decide` and `deploy`; `None` without an answer.
    listed: Option<&'static [&'static str]>,
    /// The answers to `run look` and `run change`.
    starts: [Expected; 2],
}

const NOT_ASKED: Expected = Told("this question is for an editor of infra");
const OF_SERVICE: Expected = Told("is of a service");
const STARTS: [Expected; 2] = [Done("look on infra"), Done("change on infra")];
const OF_EDITORS: Answers = [
    Told("deploy on infra"),
    Done("is cancelled"),
    OF_SERVICE,
    Done("Your answer: yes"),
];
const OF_OTHER_EDITORS: Answers = [Unknown, Unknown, Unknown, Done("Your answer: yes")];

const TABLE: [Row; 7] = [
    Row {
        user: UNADMITTED,
        own: [Silence; 4],
        service: [Silence; 4],
        listed: None,
        starts: [Silence; 2],
    },
    Row {
        user: ELSEWHERE,
        own: [Unknown; 4],
        service: [Unknown; 4],
        listed: Some(&[]),
        starts: [Unknown; 2],
    },
    Row {
        user: VIEWER,
        own: [Unknown; 4],
        service: [
            Told("deploy on infra"),
            Told("only an editor of infra may cancel it"),
            OF_SERVICE,
            NOT_ASKED,
        ],
        listed: Some(&["deploy"]),
        starts: [
            Done("look on infra"),
            Told("it may change files, and the role in infra is viewer"),
        ],
    },
    Row {
        user: EDITOR,
        own: OF_OTHER_EDITORS,
        service: OF_EDITORS,
        listed: Some(&["deploy"]),
        starts: STARTS,
    },
    Row {
        user: ADMINISTRATOR,
        own: OF_OTHER_EDITORS,
        service: OF_EDITORS,
        listed: Some(&["deploy"]),
        starts: STARTS,
    },
    Row {
        user: OWNER,
        own: [
            Told("decide on infra"),
            Done("is cancelled"),
            Done("repeats run"),
            Done("Your answer: yes"),
        ],
        service: OF_EDITORS,
        listed: Some(&["decide", "deploy"]),
        starts: STARTS,
    },
    Row {
        user: REVOKED,
        own: [Silence; 4],
        service: [Silence; 4],
        listed: None,
        starts: [Silence; 2],
    },
];

fn words(verb: Verb, id: i64) -> String {
    match verb {
        Verb::Show => format!("!runs show {id}"),
        Verb::Cancel => format!("!runs cancel {id}"),
        Verb::Retry => format!("!runs retry {id}"),
        Verb::Answer => format!("!runs answer {id} yes"),
    }
}

impl RunMatrix {
    /// Returns the messages of the bot in the private chat of a person, each without marks of code.
    fn private_messages(&self, user: &str) -> Vec<String> {
        let channel = format!("D{user}");
        self.app.demo.slack.with_state(|state| {
            let messages = state.messages.iter().filter(|message| message.channel == channel);
            let bots = messages.filter(|message| !message.request.is_null());
            bots.map(|message| visible_text(message).replace('`', ""))
                .collect()
        })
    }

    /// Sends a message to the bot. Returns the answer; `None` if the message was not stored, so that there is none.
    async fn asked(&self, user: &str, words: &str) -> Option<String> {
        let seen = self.private_messages(user).len();
        let stored = "SELECT COALESCE(MAX(id), 0) FROM inbox";
        let before = self.app.count(stored);
        // It returns after the answer of the gateway, which comes after the message is stored.
        self.app.demo.slack.dm(user, words).await.unwrap();
        if self.app.count(stored) == before {
            return None;
        }
        self.wait_for(words, || self.private_messages(user).len() > seen)
            .await;
        self.wait_until_still().await;
        self.private_messages(user).into_iter().nth(seen)
    }

    /// Tries a message, and checks its answer and its effect. `absent` is the same about what does not exist, with the name of
    /// that and the name that stands for it.
    async fn try_message(
        &self,
        user: &str,
        (message, absent): (&str, &str),
        names: (&str, &str),
        expected: Expected,
    ) {
        let of_absent = self.asked(user, absent).await;
        let before = self.states();
        let answer = self.asked(user, message).await;
        let after = self.states();
        let place = format!("{user} writes {message}, and {expected:?} is expected: {answer:?}");
        assert_eq!(after != before, matches!(expected, Done(_)), "{place}");
        match expected {
            Silence => assert_eq!((answer, of_absent), (None, None), "{place}"),
            Unknown => {
                let same = of_absent.unwrap().replace(names.0, names.1);
                assert_eq!(answer, Some(same), "{place}");
                assert!(after == before && place.contains("There is no "), "{place}");
            }
            Told(words) | Done(words) => {
                assert!(answer.is_some_and(|answer| answer.contains(words)), "{place}");
            }
        }
    }

    async fn try_list(&self, row: &Row) {
        for target in TARGETS {
            self.start(target).await;
        }
        match (row.listed, self.asked(row.user, "!runs").await) {
            (Some(expected), Some(listed)) => {
                for pipeline in ["decide", "deploy"] {
                    let is_listed = listed.contains(&format!("{pipeline} on infra"));
                    let place = format!("{} {pipeline}: {listed}", row.user);
                    assert_eq!(is_listed, expected.contains(&pipeline), "{place}");
                }
            }
            answered => assert_eq!(answered, (None, None), "{}", row.user),
        }
        self.clear().await;
    }
}

/// Tries each verb of each role on a run of its own, so that no answer depends on another one. I3
#[tokio::test(flavor = "multi_thread")]
async fn at_runs_in_a_chat_each_role_gets_what_it_was_granted_and_nothing_else() {
    let matrix = RunMatrix::new().await;
    matrix.app.revoke(REVOKED).await;
    let absent = ABSENT.to_string();
    for row in &TABLE {
        matrix.try_list(row).await;
        for (pipeline, expected) in ["look", "change"].into_iter().zip(row.starts) {
            let messages = (format!("!run {pipeline}"), "!run absent".to_owned());
            let names = ("absent", pipeline);
            matrix
                .try_message(row.user, (&messages.0, &messages.1), names, expected)
                .await;
        }
        for (target, answers) in [(Target::Own, row.own), (Target::Service, row.service)] {
            for (verb, expected) in VERBS.into_iter().zip(answers) {
                let id = matrix.start_for(verb, target).await;
                let messages = (words(verb, id), words(verb, ABSENT));
                let number = id.to_string();
                let names = (absent.as_str(), number.as_str());
                matrix
                    .try_message(row.user, (&messages.0, &messages.1), names, expected)
                    .await;
                matrix.clear().await;
            }
        }
    }
    // A person without access gets at most one notice.
    for user in [UNADMITTED, REVOKED] {
        let told = matrix.private_messages(user);
        let notices = told.iter().filter(|text| !text.contains("You're in"));
        assert!(notices.count() <= 1, "{user}: {told:?}");
    }
}
