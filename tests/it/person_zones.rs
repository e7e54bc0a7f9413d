//! The time zones that people choose for the times of their schedules.

use crate::schedules::ended_fires;
use crate::support::app::{TestApp, visible_text};
use drydock::simulation::emulator::model::{queue, says};
use drydock::state::access::Role;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const DIRECT: &str = "DU0ALICE";
/// The zone of each schedule, oldest first.
const ZONES: &str = "SELECT definition ->> '$.zone' FROM schedule ORDER BY id";
/// Sat 27 Mar 2027 02:30 in Berlin.
const SPRING: &str = "SELECT count(*) FROM schedule WHERE name = 'spring' AND due = 1806111000000";

/// Returns the messages of the bot in the private chat of a person, without marks of code.
fn private_messages(app: &TestApp, user: &str) -> Vec<String> {
    let channel = format!("D{user}");
    app.demo.slack.with_state(|state| {
        let messages = state.messages.iter();
        let bots = messages.filter(|message| message.channel == channel && !message.request.is_null());
        bots.map(|message| visible_text(message).replace('`', ""))
            .collect()
    })
}

/// Sends a message to the bot, and checks what the person is told until nothing is left to do. Returns it.
async fn told(app: &TestApp, user: &str, message: &str, expected: &str) -> String {
    let seen = private_messages(app, user).len();
    app.demo.slack.dm(user, message).await.unwrap();
    app.wait_until_idle().await;
    let answer = private_messages(app, user).split_off(seen).join("\n");
    assert!(answer.contains(expected), "{message}: {answer}");
    answer
}

/// Presses Create below the question about a schedule, and returns what is said then.
async fn create(app: &TestApp, name: &str) -> String {
    let question = format!("Schedule {name}: ");
    let offer = app.wait_for_slack_message(DIRECT, &question).await;
    app.demo.slack.click(ALICE, &offer.ts, "Create").await.unwrap();
    let created = format!("The schedule {name} is on");
    let said = app.wait_for_slack_message(DIRECT, &created).await;
    app.wait_until_idle().await;
    visible_text(&said)
}

#[tokio::test]
async fn the_times_of_a_schedule_are_those_of_the_zone_that_its_person_has_chosen() {
    let app = TestApp::with_settings(queue([]), &[("server.zone", "Asia/Tokyo")]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &["**"]).await;
    app.admit_slack_user(BOB, Role::Viewer, &["**"]).await;
    let none = "You have no time zone of your own, so your schedules use that of the server, Asia/Tokyo.";
    told(&app, ALICE, "!zone", none).await;
    told(
        &app,
        ALICE,
        "!zone Europe/Berlin",
        "Your time zone is Europe/Berlin.",
    )
    .await;
    told(&app, ALICE, "!zone", "Your time zone is Europe/Berlin.").await;

    // Clocks in Berlin go forward at 02:00 on 28 March.
    let next = "in the time zone Europe/Berlin. The next times are Sat 27 Mar 2027 02:30, Sun 28 Mar 2027 03:00, Mon 29 Mar \
                2027 02:30. Then";
    let add = "!schedule add spring \"30 2 27-29 3 *\" \"Which images are old?\"";
    told(&app, ALICE, add, next).await;
    let said = create(&app, "spring").await;
    assert!(
        said.contains("the next time is Sat 27 Mar 2027 02:30. "),
        "{said}"
    );
    assert_eq!(
        (app.column(ZONES), app.count(SPRING)),
        (vec!["Europe/Berlin".to_owned()], 1)
    );

    // Somebody else has the zone of the server.
    let add = "!schedule add images \"daily 13:00\" \"Which images are old?\"";
    let next = "in the time zone Asia/Tokyo. The next times are Sun 22 Nov 2026 13:00, Mon 23 Nov 2026 13:00, Tue 24 Nov 2026 \
                13:00. Then";
    told(&app, BOB, "!zone", none).await;
    told(&app, BOB, add, next).await;

    // Without a zone of her own, hers is that of the server again. The schedule that exists keeps its zone.
    told(&app, ALICE, "!zone server", "You have no time zone of your own.").await;
    told(&app, ALICE, add, next).await;
    let list = "Europe/Berlin · next Sat 27 Mar 2027 02:30 · ";
    told(&app, ALICE, "!schedule list", list).await;
    assert_eq!(
        (app.column(ZONES), app.count(SPRING)),
        (vec!["Europe/Berlin".to_owned()], 1)
    );
}

#[tokio::test]
async fn a_person_reads_the_times_of_all_their_schedules_in_their_own_zone() {
    let app = TestApp::with_settings(queue([says("All images are current.")]), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &["**"]).await;
    let add = "!schedule add spring \"30 2 27-29 3 * Europe/Berlin\" \"Which images are old?\"";
    let next = "The next times are Sat 27 Mar 2027 02:30, Sun 28 Mar 2027 03:00, Mon 29 Mar 2027 02:30. Then";
    told(&app, ALICE, add, next).await;
    create(&app, "spring").await;

    let chosen = "Your time zone is America/New_York.";
    told(&app, ALICE, "!zone america/new_york", chosen).await;
    let list = "Europe/Berlin · next Fri 26 Mar 2027 21:30 (America/New_York) · ";
    told(&app, ALICE, "!schedule list", list).await;
    // A zone that is named counts, and the times are shown in that of the person before anything is created.
    let add = "!schedule add india \"daily 09:00 Asia/Kolkata\" \"Which images are old?\"";
    let next = "daily 09:00, in the time zone Asia/Kolkata. The next times are Sat 21 Nov 2026 22:30, Sun 22 Nov 2026 22:30, Mon \
                23 Nov 2026 22:30 (America/New_York). Then";
    told(&app, ALICE, add, next).await;
    let said = create(&app, "india").await;
    let next = "the next time is Sat 21 Nov 2026 22:30 (America/New_York). ";
    assert!(said.contains(next), "{said}");
    told(&app, ALICE, "!schedule trigger india", "All images are current.").await;
    assert_eq!(ended_fires(&app, 1).await, ["done"]);
    // The clock of the tests goes on while they run.
    let fire = "Sat 21 Nov 2026 07:";
    let history = told(&app, ALICE, "!schedule history india", fire).await;
    assert!(
        history.contains(" (America/New_York)") && history.contains("done"),
        "{history}"
    );

    assert_eq!(app.column(ZONES), ["Europe/Berlin", "Asia/Kolkata"]);
    assert_eq!(app.count(SPRING), 1);
}

#[tokio::test]
async fn an_unknown_time_zone_is_refused_with_the_nearest_one() {
    let app = TestApp::with_settings(queue([]), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &["**"]).await;
    let refused = "Nothing was changed: Europe/Berln is no known time zone; use a name such as Europe/Berlin";
    let answer = told(&app, ALICE, "!zone Europe/Berln", refused).await;
    assert!(answer.contains("Did you mean Europe/Berlin?"), "{answer}");
    told(&app, ALICE, "!zone new york", "Did you mean America/New_York?").await;
    let refused = "Nothing was changed: Mars/Base is no known time zone";
    let answer = told(&app, ALICE, "!zone Mars/Base", refused).await;
    assert!(!answer.contains("Did you mean"), "{answer}");
    assert_eq!(app.count("SELECT count(*) FROM users WHERE zone IS NOT NULL"), 0);
    assert_eq!(app.model_requests().len(), 0);
}
