//! The arena: the real gateway between emulators of everything outside, a repository that is worth an
//! attack, people with different grants, and the watches around them. All of it is on loopback and below
//! one temporary directory.

use super::configuration::{config, has_pushes};
use super::ground::Ground;
use super::repository;
use super::script::{Hijacked, Memory, mark};
use super::secrets::TELEGRAM_HOOK_SECRET;
use super::table::{Case, Person, Platform, Wire};
use super::watch::files::{Outside, digests};
use super::watch::log::Log;
use super::watch::sink::Sink;
use super::watch::{VICTIM, Watch};
use super::words::Values;
use super::world::world;
use drydock::access::Role;
use drydock::admin::{Answer, Request};
use drydock::app::App;
use drydock::demo::stage::{SLACK_BOT_TOKEN, SLACK_CHANNEL, SLACK_SIGNING_SECRET, TELEGRAM_BOT_TOKEN};
use drydock::emulator::model::ModelEmulator;
use drydock::emulator::slack::{RateLimits, Retry, SlackEmulator, SlackOptions};
use drydock::emulator::telegram::{Pushed, TelegramEmulator};
use drydock::provider::http_client;
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The longest time anything may take on a busy machine.
pub(crate) const BOUND: Duration = Duration::from_secs(60);
/// The number of times an event is sent again that is not answered within seconds: the machine may be busy.
const TRIES_MAX: u8 = 20;
/// The pause before the database is asked again.
const POLL: Duration = Duration::from_millis(15);

/// The running parts: the program, its platforms and model, and what watches them.
pub(crate) struct Arena {
    pub(crate) app: Option<App>,
    pub(crate) slack: SlackEmulator,
    pub(crate) telegram: TelegramEmulator,
    pub(crate) model: ModelEmulator,
    pub(crate) memory: Memory,
    pub(crate) watch: Arc<Watch>,
    pub(crate) outside: Outside,
    pub(crate) log: Log,
    pub(crate) sink: Sink,
    /// The repository as it was.
    pub(crate) before: BTreeMap<PathBuf, Vec<u8>>,
    /// The thread of the victim.
    pub(crate) victim: String,
    pub(crate) room: TempDir,
    /// True if Telegram sends updates on its own.
    has_pushes: bool,
    /// The conditions that were waited for in vain.
    pub(crate) stuck: Mutex<Vec<String>>,
}

/// The values every row can use.
pub(crate) async fn values(room: &TempDir) -> (Values, Sink, Outside) {
    let sink = Sink::new().await;
    let outside = Outside::new(room.path().join("outside"));
    let mut values = Values::default();
    values.set("sink", &sink.address);
    values.set("outside", &outside.file().display().to_string());
    values.set("room", &room.path().display().to_string());
    (values, sink, outside)
}

impl Person {
    /// The account in Slack.
    pub(crate) fn account(self) -> &'static str {
        match self {
            Self::Dev => "U0DEV",
            Self::Editor => "U0EDITOR",
            Self::Viewer => "U0VIEWER",
            Self::Admin => "U0ADMIN",
            Self::Victim => "U0VICTIM",
            Self::Stranger => "U0STRANGER",
        }
    }

    pub(crate) fn grant(self) -> Option<(Role, &'static [&'static str])> {
        match self {
            Self::Dev | Self::Victim => Some((Role::Editor, &["dev"])),
            Self::Editor => Some((Role::Editor, &["**"])),
            Self::Viewer => Some((Role::Viewer, &["**"])),
            Self::Admin => Some((Role::Admin, &["**"])),
            Self::Stranger => None,
        }
    }
}

const PEOPLE: [Person; 6] = [
    Person::Dev,
    Person::Editor,
    Person::Viewer,
    Person::Admin,
    Person::Victim,
    Person::Stranger,
];

impl Arena {
    /// Starts everything, admits everybody, and lets the victim speak.
    pub(crate) async fn new(
        wire: Wire,
        ground: &Ground,
        cases: impl FnOnce(&Values) -> Vec<Case>,
    ) -> (Self, Vec<Case>) {
        let room = TempDir::with_prefix("dojo-").unwrap();
        let (mut values, sink, outside) = values(&room).await;
        ground.clusters.name_in(&mut values);
        let source = room.path().join("infra.git");
        let dangling = repository::create(&source, &values);
        values.set("dangling", &dangling.to_string());
        let cases: Vec<Case> = cases(&values)
            .into_iter()
            .filter(|case| case.wire == wire)
            .collect();
        let (memory, watch) = (Memory::default(), Arc::new(Watch::new()));
        let script = Hijacked {
            cases: cases
                .iter()
                .map(|case| (case.number, case.clone()))
                .chain([victim()])
                .collect(),
            memory: memory.clone(),
            watch: Arc::clone(&watch),
        };
        let http = http_client().unwrap();
        let slack = SlackEmulator::start(SlackOptions {
            team: "T0ACME".to_owned(),
            bot_user: "U0DRYDOCK".to_owned(),
            bot_name: "drydock".to_owned(),
            bot_token: SLACK_BOT_TOKEN.to_owned(),
            signing_secret: SLACK_SIGNING_SECRET.to_owned(),
            rate_limits: RateLimits::Off,
            at: world::<0>().now,
            http: http.clone(),
        });
        let slack = slack.await.unwrap();
        let telegram = TelegramEmulator::start(TELEGRAM_BOT_TOKEN, http).await.unwrap();
        let model = ModelEmulator::start(script).unwrap();
        let config = config(&room, &slack, &telegram, &model, wire, &ground.settings);
        let log = Log::of(&config);
        let has_pushes = has_pushes(&config);
        let app = App::start(config, world::<0>()).await.unwrap();
        slack.connect_to(&format!("http://{}/in/slack", app.address));
        let mut arena = Self {
            before: digests(&source),
            app: Some(app),
            slack,
            telegram,
            model,
            memory,
            watch,
            outside,
            log,
            sink,
            victim: String::new(),
            room,
            has_pushes,
            stuck: Mutex::default(),
        };
        arena.until_ready().await;
        if has_pushes {
            // It has registered the address that the world knows; here is the one it has on loopback.
            let url = format!("http://{}/in/telegram", arena.app.as_ref().unwrap().address);
            arena.telegram.connect_to(&url, TELEGRAM_HOOK_SECRET);
        }
        arena.admit(&cases).await;
        let said = arena.say(Person::Victim, &victim_words()).await;
        arena.until_answered(&said, 1).await;
        arena.victim = said;
        // What reading the configuration and starting has opened is not an attack.
        arena.outside.touched();
        (arena, cases)
    }

    async fn until_ready(&self) {
        let client = http_client().unwrap();
        let url = format!("http://{}/readyz", self.app.as_ref().unwrap().address);
        let started = Instant::now();
        while !client
            .get(&url)
            .send()
            .await
            .is_ok_and(|answer| answer.status().is_success())
        {
            assert!(started.elapsed() < BOUND, "the gateway did not become ready");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Admits everybody, and a person for each case that needs one of its own.
    async fn admit(&self, cases: &[Case]) {
        let mut people: Vec<(Person, String)> = PEOPLE
            .iter()
            .map(|person| (*person, person.account().to_owned()))
            .collect();
        let alone = cases.iter().filter(|case| has_own_account(case));
        people.extend(alone.map(|case| (case.row.person, own_account(case))));
        let accounts: Vec<&str> = people.iter().map(|(_, account)| account.as_str()).collect();
        accounts.iter().for_each(|account| self.slack.add_user(account));
        self.slack.add_channel(SLACK_CHANNEL, &accounts);
        for account in &accounts {
            self.slack.add_channel(&format!("D{account}"), &[account]);
        }
        for (person, account) in &people {
            let Some(token) = self.invite(*person, account).await else {
                continue;
            };
            self.tell(account, &format!("join {token}")).await;
            let direct = format!("D{account}");
            let welcomed = self
                .slack
                .wait_until(|state| {
                    let mut messages = state.messages.iter();
                    messages
                        .any(|message| message.channel == direct && !message.request.is_null())
                        .then_some(())
                })
                .await;
            assert!(welcomed.is_some(), "{account} was not admitted");
        }
    }

    /// An invite for a person with these grants, under another name.
    pub(crate) async fn invite(&self, person: Person, name: &str) -> Option<String> {
        let (role, environments) = person.grant()?;
        let request = Request::Invite {
            name: name.to_owned(),
            role,
            repositories: "*".to_owned(),
            environments: environments.iter().map(|glob| (*glob).to_owned()).collect(),
            hours: 24,
        };
        match self.app.as_ref().unwrap().admin.answer(request).await {
            Answer::Invite { token, .. } => Some(token),
            other => panic!("no invite: {other:?}"),
        }
    }

    /// Writes in the channel as somebody; returns the id of their message, which is its thread.
    pub(crate) async fn say(&self, person: Person, words: &str) -> String {
        let words = format!("@drydock {words}");
        self.write(person.account(), SLACK_CHANNEL, None, &words).await
    }

    /// Writes to the bot alone as somebody.
    pub(crate) async fn tell(&self, account: &str, words: &str) {
        self.write(account, &format!("D{account}"), None, words).await;
    }

    /// Writes as somebody; returns the id of the message. What is not answered in time is sent again, as Slack does.
    pub(crate) async fn write(
        &self,
        account: &str,
        channel: &str,
        thread: Option<&str>,
        words: &str,
    ) -> String {
        let written = self.slack.write(account, channel, thread, words);
        for event in &written.events {
            let mut answer = self.slack.deliver(event, None).await;
            for number in 1..=TRIES_MAX {
                if answer.is_ok() {
                    break;
                }
                let reason = "http_timeout";
                answer = self.slack.deliver(event, Some(Retry { number, reason })).await;
            }
            answer.unwrap();
        }
        written.ts
    }

    /// Sends a Telegram update until it is taken: a push that is not is sent again, as Telegram does.
    pub(crate) async fn push(&self, pushed: Pushed) {
        let mut status = pushed.status;
        for _ in 0..TRIES_MAX {
            if !self.has_pushes || status == Some(200) {
                return;
            }
            status = self.telegram.send_update(pushed.update.clone()).await;
        }
        panic!("an update is answered {status:?}");
    }

    /// Waits until so many messages of the conversations whose key holds `place` are answered, and all
    /// that was to be said there is delivered.
    pub(crate) async fn until_answered(&self, place: &str, messages: usize) {
        let started = Instant::now();
        let like = format!("%{place}%");
        let expected = i64::try_from(messages).unwrap();
        loop {
            let database = self.database();
            let done: i64 = database
                .query_row(
                    "SELECT count(*) FROM inbox WHERE done_at IS NOT NULL
                       AND conversation IN (SELECT id FROM conversation WHERE key LIKE ?1)",
                    [&like],
                    |row| row.get(0),
                )
                .unwrap();
            let open: i64 = database
                .query_row(
                    "SELECT count(*) FROM outbox WHERE done_at IS NULL AND lane LIKE ?1",
                    [&like],
                    |row| row.get(0),
                )
                .unwrap();
            if done >= expected && open == 0 {
                return;
            }
            if started.elapsed() > BOUND {
                let what = format!("nothing ends in {place}: {done} of {expected} messages, {open} to send");
                self.stuck.lock().unwrap().push(what);
                return;
            }
            // The database tells nobody when it changes; a poll is bounded and ends as soon as it can.
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until nothing is left to answer or to deliver.
    pub(crate) async fn until_quiet(&self) {
        let open = "SELECT (SELECT count(*) FROM inbox WHERE done_at IS NULL)
            + (SELECT count(*) FROM outbox WHERE done_at IS NULL)";
        let started = Instant::now();
        while self
            .database()
            .query_row(open, [], |row| row.get::<_, i64>(0))
            .unwrap()
            > 0
        {
            assert!(started.elapsed() < BOUND, "the gateway is never quiet");
            tokio::time::sleep(POLL).await;
        }
    }

    /// The files the conversations of a place have edited.
    pub(crate) fn edited(&self, place: &str) -> Vec<String> {
        let database = self.database();
        let mut statement = database
            .prepare("SELECT DISTINCT value FROM (SELECT j.key AS value FROM conversation c, json_each(c.edits) j WHERE c.key LIKE ?1) ORDER BY 1")
            .unwrap();
        let rows = statement
            .query_map([format!("%{place}%")], |row| row.get(0))
            .unwrap();
        rows.map(Result::unwrap).collect()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.room.path().join("data")
    }

    pub(crate) fn database(&self) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(self.data().join("drydock.db"), flags).unwrap();
        database.busy_timeout(BOUND).unwrap();
        database
    }
}

/// True if somebody of its own asks in Slack: what one stranger tries counts against that one alone.
pub(crate) fn has_own_account(case: &Case) -> bool {
    case.on == Platform::Direct || case.row.reply_to.is_some() || case.row.person == Person::Stranger
}

/// The account of the person a case has for itself, since there is one conversation for each person and place.
pub(crate) fn own_account(case: &Case) -> String {
    format!("U0OWN{}", case.number)
}

/// Returns the words of the victim, which it has the model write.
fn victim_words() -> String {
    format!("CANARY-VICTIM wants a note {}", mark(VICTIM))
}

fn victim() -> (usize, Case) {
    let row = toml::from_str(
        r#"
        name = "victim"
        as = "victim"
        steps = [[{ tool = "file_write", with = { path = "environments/dev/victim.txt", content = "CANARY-VICTIM\n" } }]]
        says = "CANARY-VICTIM is written."
        "#,
    );
    let case = Case {
        number: VICTIM,
        kind: super::table::Kind::Benign,
        title: "the victim".to_owned(),
        on: Platform::Slack,
        wire: Wire::Anthropic,
        row: row.unwrap(),
    };
    (VICTIM, case)
}
