//! The matrix of rights at runs of pipelines: each role, each verb and each door, with tables of what is answered and of what
//! has an effect. There are two runs: one of a person, and one of a service. Both wait for an answer of an editor.

mod api;
mod chat;
mod operator;

use crate::hooks::{deliver, release};
use crate::secrets::commit;
use crate::support::app::{BOUND, TestApp};
use crate::support::machine::PUBLIC_URL;
use crate::support::shell::{ProgramOutput, Shell};
use drydock::base::model::RunId;
use drydock::engine::admin::{AdminReply, AdminRequest, RunOrder};
use drydock::simulation::emulator::model::{ModelRequest, says};
use drydock::state::access::{Grant, Role};
use gix::objs::tree::EntryKind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The person whose run is tried.
const OWNER: &str = "U0OWNER";
/// An account that nobody has admitted.
const UNADMITTED: &str = "U0UNADMITTED";
/// A person with a grant for another repository only.
const ELSEWHERE: &str = "U0ELSEWHERE";
const VIEWER: &str = "U0VIEWER";
const EDITOR: &str = "U0EDITOR";
const ADMINISTRATOR: &str = "U0ADMIN";
/// A person who was an editor.
const REVOKED: &str = "U0REVOKED";
/// The number of a run that does not exist.
const ABSENT: i64 = 999_999;

const PIPELINES: &str = r#"
defaults: {model: anthropic/demo}
pipelines:
  decide:
    triggers: [{chat: {}}]
    steps:
      - name: approve
        ask: {to: {group: editors}, question: Go on?, choices: ["yes", "no"], deadline: 10m}
  deploy:
    triggers: [{hook: {name: release}}]
    steps:
      - name: approve
        ask: {to: {group: editors}, question: Go on?, choices: ["yes", "no"], deadline: 10m}
  look:
    triggers: [{chat: {}}, {api: {}}]
    permissions: {role: viewer}
    steps: [{name: look, agent: {prompt: Look around.}}]
  change:
    triggers: [{chat: {}}, {api: {}}]
    steps: [{name: edit, agent: {prompt: Promote web.}}]
"#;

/// The run that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// That of a person.
    Own,
    /// That of the hook.
    Service,
}

/// A verb about one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Show,
    Cancel,
    Retry,
    Answer,
}

const VERBS: [Verb; 4] = [Verb::Show, Verb::Cancel, Verb::Retry, Verb::Answer];
const TARGETS: [Target; 2] = [Target::Own, Target::Service];

/// A gateway with the pipelines and people of all roles.
struct RunMatrix {
    app: TestApp,
    /// The number of events so far.
    events: AtomicU32,
}

impl RunMatrix {
    async fn new() -> Self {
        let settings = [PUBLIC_URL, ("hooks.release.pipelines", "true")];
        let script = |_: &ModelRequest| says("Nothing to do.");
        let app = TestApp::with_settings(script, &settings).await;
        for (user, role) in [
            (OWNER, Role::Editor),
            (ELSEWHERE, Role::Editor),
            (VIEWER, Role::Viewer),
            (EDITOR, Role::Editor),
            (ADMINISTRATOR, Role::Admin),
            (REVOKED, Role::Editor),
        ] {
            app.admit_slack_user(user, role, &["**"]).await;
        }
        app.add_slack_account(UNADMITTED);
        let elsewhere = AdminRequest::Grant {
            which: ELSEWHERE.to_owned(),
            grant: Grant {
                role: Role::Editor,
                repositories: "other".to_owned(),
                environments: vec!["**".to_owned()],
            },
        };
        app.send_admin_request(elsewhere).await;
        commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, PIPELINES)]);
        Self {
            app,
            events: AtomicU32::new(0),
        }
    }

    /// Starts a run that waits for an answer. Returns its number.
    async fn start(&self, target: Target) -> i64 {
        let before = self.app.count("SELECT COALESCE(MAX(id), 0) FROM run");
        match target {
            Target::Own => {
                self.app.say(OWNER, "!run decide").await;
            }
            Target::Service => {
                let number = self.events.fetch_add(1, Ordering::SeqCst);
                let id = format!("72d3162e-cc78-11e3-81ab-{number:012}");
                let event = release(&format!("Event {number}."));
                assert_eq!(deliver(&self.app, "release", &id, &event).await.0, 200);
            }
        }
        let waiting = format!("SELECT count(*) FROM run_step WHERE run > {before} AND status = 'running'");
        self.wait_for("a run that waits", || self.app.count(&waiting) == 1)
            .await;
        self.wait_until_still().await;
        self.app.count("SELECT MAX(id) FROM run")
    }

    /// Starts a run, and cancels it if the verb is for runs that have ended.
    async fn start_for(&self, verb: Verb, target: Target) -> i64 {
        let id = self.start(target).await;
        if verb == Verb::Retry {
            self.cancel(id).await;
        }
        id
    }

    async fn cancel(&self, id: i64) {
        let request = AdminRequest::Run {
            id: RunId(id),
            order: RunOrder::Cancel,
        };
        let answer = self.app.send_admin_request(request).await;
        assert!(matches!(answer, AdminReply::RunChanged { .. }), "{answer:?}");
        self.wait_until_still().await;
    }

    /// Cancels all open runs.
    async fn clear(&self) {
        for id in self.app.column("SELECT '' || id FROM run WHERE ended_at IS NULL") {
            self.cancel(id.parse().unwrap()).await;
        }
    }

    /// Waits until nothing moves any more. Runs that wait for an answer stay open.
    async fn wait_until_still(&self) {
        // Read at once, because the write that ends the turn of a step also makes its run due.
        let moving = "SELECT (SELECT count(*) FROM run WHERE due = 1)
             + (SELECT count(*) FROM inbox WHERE done_at IS NULL)
             + (SELECT count(*) FROM outbox WHERE done_at IS NULL)
             + (SELECT count(*) FROM conversation WHERE owner IS NOT NULL)";
        self.wait_for("a rest", || self.app.count(moving) == 0).await;
    }

    /// Returns the states of all runs and of their steps.
    fn states(&self) -> Vec<String> {
        self.app.column(
            "SELECT 'run ' || id || ' ' || status FROM run
             UNION ALL SELECT 'step ' || run || ' ' || step || ' ' || status FROM run_step ORDER BY 1",
        )
    }

    async fn wait_for(&self, what: &str, is_there: impl Fn() -> bool) {
        let started = Instant::now();
        while !is_there() {
            let states = self.states();
            assert!(started.elapsed() < BOUND, "never {what}: {states:#?}");
            // The database does not notify about changes. A poll is bounded and ends as soon as possible.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The operator at a terminal of the server.
struct Terminal {
    shell: Shell,
    data: String,
}

impl Terminal {
    fn new(app: &TestApp) -> Self {
        Self {
            shell: Shell::new(),
            data: format!("data.directory={}", app.demo.data().display()),
        }
    }

    fn run(&self, arguments: &[&str]) -> ProgramOutput {
        let arguments = [arguments, &["--set", &self.data]].concat();
        tokio::task::block_in_place(|| self.shell.run(&arguments))
    }
}
