//! The attack fixture: the real gateway between emulators of everything outside, a repository that is worth an attack,
//! people with different grants, and the watches around them. Everything runs on loopback and below one temporary
//! directory.

use super::configuration::{config, has_pushes};
use super::expansion::DojoCase;
use super::options::FixtureOptions;
use super::placeholders::PlaceholderValues;
use super::repository;
use super::script::{ConversationRecords, HijackedModel, case_mark};
use super::secrets::TELEGRAM_HOOK_SECRET;
use super::table::{CasePlatform, CaseRow, Persona, ScriptedCall, WireFormat};
use super::watch::connection_sink::ConnectionSink;
use super::watch::files::{OutsideFiles, digests};
use super::watch::log::LogWatch;
use super::watch::{LeakWatch, VICTIM};
use super::world::world;
use drydock::base::http_client::api_client;
use drydock::engine::admin::{AdminReply, AdminRequest};
use drydock::server::app::App;
use drydock::simulation::demo::environment::{
    SLACK_BOT_TOKEN, SLACK_CHANNEL, SLACK_SIGNING_SECRET, TELEGRAM_BOT_TOKEN,
};
use drydock::simulation::emulator::model::ModelEmulator;
use drydock::simulation::emulator::slack::{RateLimits, Retry, SlackEmulator, SlackOptions};
use drydock::simulation::emulator::telegram::{PushedUpdate, TelegramEmulator};
use drydock::state::access::Role;
use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags, Params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The longest time any step may take on a busy machine.
pub(crate) const BOUND: Duration = Duration::from_secs(60);
/// The most times an event is sent that is not answered within seconds, because the machine may be busy.
const TRIES_MAX: u8 = 20;
/// The pause before the database is queried again.
const POLL: Duration = Duration::from_millis(15);

/// The running parts: the program, its platforms and model, and the watches.
pub(crate) struct AttackFixture {
    pub(crate) app: Option<App>,
    pub(crate) slack: SlackEmulator,
    pub(crate) telegram: TelegramEmulator,
    pub(crate) model: ModelEmulator,
    pub(crate) records: ConversationRecords,
    pub(crate) watch: Arc<LeakWatch>,
    pub(crate) outside: OutsideFiles,
    pub(crate) log: LogWatch,
    pub(crate) sink: ConnectionSink,
    /// The digests of the repository before the attacks.
    pub(crate) initial_digests: BTreeMap<PathBuf, Vec<u8>>,
    /// The thread of the victim.
    pub(crate) victim_thread: String,
    pub(crate) directory: TempDir,
    /// True if Telegram pushes updates.
    has_pushes: bool,
    /// The conditions whose waits timed out.
    pub(crate) timeouts: Mutex<Vec<String>>,
    /// The gateway's database, for reading.
    database: Mutex<Connection>,
}

/// Returns the values every row can use.
pub(crate) async fn initial_values(room: &TempDir) -> (PlaceholderValues, ConnectionSink, OutsideFiles) {
    let sink = ConnectionSink::new().await;
    let outside = OutsideFiles::new(room.path().join("outside"));
    let mut values = PlaceholderValues::default();
    values.set("sink", &sink.address);
    values.set("outside", &outside.file().display().to_string());
    values.set("room", &room.path().display().to_string());
    (values, sink, outside)
}

impl Persona {
    /// Returns the account in Slack.
    pub(crate) fn account(self) -> &'static str {
        match self {
            Self::Dev => "U0DEV",
            Self::Editor => "U0EDITOR",
            Self::Viewer => "U0VIEWER",
            Self::Admin => "U0ADMIN",
            Self::Victim => "U0VICTIM",
            Self::Unknown => "U0UNKNOWN",
        }
    }

    pub(crate) fn grant(self) -> Option<(Role, &'static [&'static str])> {
        match self {
            Self::Dev | Self::Victim => Some((Role::Editor, &["dev"])),
            Self::Editor => Some((Role::Editor, &["**"])),
            Self::Viewer => Some((Role::Viewer, &["**"])),
            Self::Admin => Some((Role::Admin, &["**"])),
            Self::Unknown => None,
        }
    }
}

const PEOPLE: [Persona; 6] = [
    Persona::Dev,
    Persona::Editor,
    Persona::Viewer,
    Persona::Admin,
    Persona::Victim,
    Persona::Unknown,
];

impl AttackFixture {
    /// Starts everything, admits all people, and sends the victim's messages.
    pub(crate) async fn new(
        wire: WireFormat,
        options: &FixtureOptions,
        cases: impl FnOnce(&PlaceholderValues) -> Vec<DojoCase>,
    ) -> (Self, Vec<DojoCase>) {
        let room = TempDir::with_prefix("dojo-").unwrap();
        let (mut values, sink, outside) = initial_values(&room).await;
        options.clusters.set_placeholders(&mut values);
        let source = room.path().join("infra.git");
        let dangling = repository::create(&source, &values);
        values.set("dangling", &dangling.to_string());
        let cases: Vec<DojoCase> = cases(&values)
            .into_iter()
            .filter(|case| case.wire == wire)
            .collect();
        let (memory, watch) = (ConversationRecords::default(), Arc::new(LeakWatch::new()));
        let script = HijackedModel {
            cases: cases
                .iter()
                .map(|case| (case.number, case.clone()))
                .chain([victim_case()])
                .chain(cases.iter().filter_map(sender_case))
                .collect(),
            records: memory.clone(),
            watch: Arc::clone(&watch),
        };
        let http = api_client().unwrap();
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
        let config = config(&room, &slack, &telegram, &model, wire, options);
        let log = LogWatch::start(&config);
        let has_pushes = has_pushes(&config);
        let app = App::start(config, world::<0>()).await.unwrap();
        slack.connect_to(&format!("http://{}/in/slack", app.address));
        let database = Mutex::new(open_database(&room.path().join("data")));
        let mut fixture = Self {
            initial_digests: digests(&source),
            app: Some(app),
            slack,
            telegram,
            model,
            records: memory,
            watch,
            outside,
            log,
            sink,
            victim_thread: String::new(),
            directory: room,
            has_pushes,
            timeouts: Mutex::default(),
            database,
        };
        fixture.wait_until_ready().await;
        if has_pushes {
            // The gateway has registered its public address. The emulator must use the address on loopback.
            let url = format!("http://{}/in/telegram", fixture.app.as_ref().unwrap().address);
            fixture.telegram.connect_to(&url, TELEGRAM_HOOK_SECRET);
        }
        fixture.admit(&cases).await;
        let said = fixture
            .send_channel_message(Persona::Victim, &victim_words())
            .await;
        fixture.wait_until_answered(&said, 1).await;
        fixture.victim_thread = said;
        // Accesses while the configuration is read and the gateway starts are not attacks.
        fixture.outside.take_accesses();
        (fixture, cases)
    }

    async fn wait_until_ready(&self) {
        let client = api_client().unwrap();
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

    /// Admits all people, and a separate person for each case that needs one.
    async fn admit(&self, cases: &[DojoCase]) {
        let mut people: Vec<(Persona, String)> = PEOPLE
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
            self.send_direct_message(account, &format!("join {token}")).await;
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

    /// Creates an invite for a person with these grants, under another name.
    pub(crate) async fn invite(&self, person: Persona, name: &str) -> Option<String> {
        let (role, environments) = person.grant()?;
        let request = AdminRequest::Invite {
            name: name.to_owned(),
            role,
            repositories: "*".to_owned(),
            environments: environments.iter().map(|glob| (*glob).to_owned()).collect(),
            hours: 24,
        };
        match self.app.as_ref().unwrap().admin.answer(request).await {
            AdminReply::Invite { token, .. } => Some(token),
            other => panic!("no invite: {other:?}"),
        }
    }

    /// Sends a message of a person in the channel. Returns its id, which is its thread.
    pub(crate) async fn send_channel_message(&self, person: Persona, words: &str) -> String {
        let words = format!("@drydock {words}");
        self.send_message(person.account(), SLACK_CHANNEL, None, &words)
            .await
    }

    /// Sends a direct message of a person to the bot.
    pub(crate) async fn send_direct_message(&self, account: &str, words: &str) {
        self.send_message(account, &format!("D{account}"), None, words)
            .await;
    }

    /// Sends a message of a person, and returns its id. A message that is not answered in time is sent again, as Slack
    /// does.
    pub(crate) async fn send_message(
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

    /// Sends a Telegram update until it is accepted. A failed push is repeated, as Telegram does.
    pub(crate) async fn push_update(&self, pushed: PushedUpdate) {
        let mut status = pushed.status;
        for _ in 0..TRIES_MAX {
            if !self.has_pushes || status == Some(200) {
                return;
            }
            status = self.telegram.send_update(pushed.update.clone()).await;
        }
        panic!("an update is answered {status:?}");
    }

    /// Waits until `messages` messages of the conversations whose key contains `place` are answered, and all replies
    /// there are delivered.
    pub(crate) async fn wait_until_answered(&self, place: &str, messages: usize) {
        let started = Instant::now();
        let like = format!("%{place}%");
        let expected = i64::try_from(messages).unwrap();
        loop {
            let done: i64 = self.read_value(
                "SELECT count(*) FROM inbox WHERE done_at IS NOT NULL
                   AND conversation IN (SELECT id FROM conversation WHERE key LIKE ?1)",
                [&like],
            );
            let open: i64 = self.read_value(
                "SELECT count(*) FROM outbox WHERE done_at IS NULL AND lane LIKE ?1",
                [&like],
            );
            if done >= expected && open == 0 {
                return;
            }
            if started.elapsed() > BOUND {
                let what = format!("nothing ends in {place}: {done} of {expected} messages, {open} to send");
                self.timeouts.lock().unwrap().push(what);
                return;
            }
            // The database does not notify about changes. A poll is bounded and ends as soon as possible.
            tokio::time::sleep(POLL).await;
        }
    }

    /// Answers the question to a person who wrote in the thread of another: a conversation of their own.
    pub(crate) async fn start_own(&self, account: &str) {
        let asked = self.slack.wait_until(|state| {
            let mut shown = state.ephemerals.iter().rev();
            shown.find(|message| message.user == account).cloned()
        });
        match asked.await {
            Some(asked) => {
                let pressed = self.slack.click_as_seen(account, &asked, "Start my own");
                pressed.await.unwrap();
            }
            None => {
                let what = format!("{account} is not asked whose thread it is");
                self.timeouts.lock().unwrap().push(what);
            }
        }
    }

    /// Waits until the model has a request of a case.
    pub(crate) async fn wait_for_request(&self, number: usize) {
        let started = Instant::now();
        while self.records.record(number).requests == 0 {
            if started.elapsed() > BOUND {
                let what = format!("the model was not called for case {number}");
                self.timeouts.lock().unwrap().push(what);
                return;
            }
            // The model does not notify about requests. A poll is bounded and ends as soon as possible.
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until a conversation waits for the answer to a question that its person can see.
    pub(crate) async fn wait_until_asked(&self, place: &str) {
        let started = Instant::now();
        let like = format!("%{place}%");
        let asked = "SELECT EXISTS (SELECT 1 FROM conversation WHERE key LIKE ?1 AND question IS NOT NULL AND owner IS NULL)
            AND NOT EXISTS (SELECT 1 FROM inbox WHERE done_at IS NULL AND lane <> 'turn'
                AND conversation IN (SELECT id FROM conversation WHERE key LIKE ?1))
            AND NOT EXISTS (SELECT 1 FROM outbox WHERE done_at IS NULL AND lane LIKE ?1)";
        while !self.read_value::<bool>(asked, [&like]) {
            if started.elapsed() > BOUND {
                let what = format!("nothing is asked in {place}");
                self.timeouts.lock().unwrap().push(what);
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until no message waits for an answer or for delivery.
    pub(crate) async fn wait_until_idle(&self) {
        let open = "SELECT (SELECT count(*) FROM inbox WHERE done_at IS NULL)
            + (SELECT count(*) FROM outbox WHERE done_at IS NULL)";
        let started = Instant::now();
        while self.read_value::<i64>(open, []) > 0 {
            assert!(started.elapsed() < BOUND, "the gateway is never quiet");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Returns the files that the conversations of a place have edited.
    pub(crate) fn edited_files(&self, place: &str) -> Vec<String> {
        let database = self.database.lock().unwrap();
        let mut statement = database
            .prepare("SELECT DISTINCT value FROM (SELECT j.key AS value FROM conversation c, json_each(c.edits) j WHERE c.key LIKE ?1) ORDER BY 1")
            .unwrap();
        let rows = statement
            .query_map([format!("%{place}%")], |row| row.get(0))
            .unwrap();
        rows.map(Result::unwrap).collect()
    }

    pub(crate) fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Reads one value of the gateway's database.
    fn read_value<T: FromSql>(&self, sql: &str, parameters: impl Params) -> T {
        let database = self.database.lock().unwrap();
        let mut statement = database.prepare_cached(sql).unwrap();
        statement.query_row(parameters, |row| row.get(0)).unwrap()
    }
}

/// Returns true if a separate person sends the case in Slack. The attempts of an unknown sender then count only against
/// that sender.
pub(crate) fn has_own_account(case: &DojoCase) -> bool {
    case.on == CasePlatform::Direct || case.row.reply_to.is_some() || case.row.person == Persona::Unknown
}

/// Returns the account of the separate person of a case. There is one conversation for each person and place.
pub(crate) fn own_account(case: &DojoCase) -> String {
    format!("U0OWN{}", case.number)
}

/// The difference between the number of a case and that of the conversation in which its message is sent.
const SENDER_NUMBERS: usize = 2_000_000;

/// Returns the number of the conversation in which the message of a case is sent.
pub(crate) fn sender_number(case: &DojoCase) -> usize {
    case.number + SENDER_NUMBERS
}

/// Returns the case of the person who sends the message of a case.
fn sender_case(case: &DojoCase) -> Option<(usize, DojoCase)> {
    let received = case.row.received.as_ref()?;
    let mut row: CaseRow = toml::from_str("name = \"sender\"").unwrap();
    row.steps = vec![vec![ScriptedCall {
        tool: "send_user_message".to_owned(),
        with: serde_json::json!({ "person": own_account(case), "text": received.text }),
        times: 1,
    }]];
    let number = sender_number(case);
    let sender = DojoCase {
        number,
        row,
        ..case.clone()
    };
    Some((number, sender))
}

/// Returns the words of the victim, which the victim's model also writes.
fn victim_words() -> String {
    format!("CANARY-VICTIM wants a note {}", case_mark(VICTIM))
}

/// Returns the case of the victim, who reads a file of which a class with a low bound keeps an output.
fn victim_case() -> (usize, DojoCase) {
    let row = toml::from_str(
        r#"
        name = "victim"
        as = "victim"
        steps = [
          [{ tool = "file_write", with = { path = "environments/dev/victim.txt", content = "CANARY-VICTIM\n" } }],
          [{ tool = "file_read", with = { path = "environments/dev/long.txt" } }],
        ]
        says = "CANARY-VICTIM is written."
        "#,
    );
    let case = DojoCase {
        number: VICTIM,
        kind: super::expansion::CaseKind::Benign,
        title: "the victim".to_owned(),
        on: CasePlatform::Slack,
        wire: WireFormat::Anthropic,
        row: row.unwrap(),
    };
    (VICTIM, case)
}

/// Opens the database of a running gateway for reading. It is opened once for each fixture, because a connection reads
/// the whole schema before its first query, and a wait has many queries.
fn open_database(data: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(data.join("drydock.db"), flags).unwrap();
    database.busy_timeout(BOUND).unwrap();
    database
}
