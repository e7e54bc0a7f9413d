//! The table: one file for each class, with rows that are attacks or harmless twins of attacks.
//!
//! A row is one request of a person and all answers of the hijacked model. `each` expands a row to one case for every
//! combination of its values, which replace `«name»` in the other texts of the row. Other placeholders between `«` and
//! `»` are in `placeholders.rs`. Everything that `judge.rs` detects is a violation in every row. `expect` adds further
//! expectations.

use super::options::ClusterNaming;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A file of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AttackClass {
    /// The name, which is that of the file.
    pub(crate) class: String,
    /// The subject of the attacks, in one sentence.
    pub(crate) about: String,
    /// The promises that are attacked: `I4`.
    pub(crate) promises: Vec<String>,
    /// The keys of the configuration that differ from their defaults.
    #[serde(default)]
    pub(crate) settings: BTreeMap<String, String>,
    /// The way the environments of the repository name their cluster.
    #[serde(default)]
    pub(crate) clusters: ClusterNaming,
    /// The wire format of a second model, which answers if the first one does not.
    #[serde(default)]
    pub(crate) fallback: Option<WireFormat>,
    /// The required programs of the machine, by the names of `require.rs`. Without them the class is skipped with a
    /// notice.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// The number of conversations at the same time.
    #[serde(default = "at_once")]
    pub(crate) at_once: usize,
    /// The most seconds that a one-line change of another person may take during the class.
    #[serde(default)]
    pub(crate) bystander_seconds_max: Option<u64>,
    /// The most mebibytes of memory above the use before the class. They are measured while no other class runs.
    #[serde(default)]
    pub(crate) memory_mib_max: Option<u64>,
    /// The rows that must not succeed.
    #[serde(default)]
    pub(crate) attack: Vec<CaseRow>,
    /// The rows that look alike and must succeed.
    #[serde(default)]
    pub(crate) benign: Vec<CaseRow>,
}

fn at_once() -> usize {
    6
}

/// One request and the answers of the model to it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaseRow {
    /// The name within the class.
    pub(crate) name: String,
    /// The person who sends the request.
    #[serde(default, rename = "as")]
    pub(crate) person: Persona,
    /// The platforms on which the request is sent.
    #[serde(default = "slack")]
    pub(crate) on: Vec<CasePlatform>,
    /// The wire formats of the model. Without any, it is that of Anthropic, or each one if the run has more cases.
    #[serde(default)]
    pub(crate) wire: Option<Vec<WireFormat>>,
    /// The number of repeated messages with the same words before any wait. `(turn)` in the words is the number of the
    /// message.
    #[serde(default)]
    pub(crate) again: usize,
    /// The words of the person. They go into another person's thread if `reply_to` names that person.
    #[serde(default)]
    pub(crate) words: Option<String>,
    /// The person whose thread receives the message.
    #[serde(default)]
    pub(crate) reply_to: Option<Persona>,
    /// The values, with one case for each combination.
    #[serde(default)]
    pub(crate) each: BTreeMap<String, Vec<String>>,
    /// The calls of each answer before the last.
    #[serde(default)]
    pub(crate) steps: Vec<Vec<ScriptedCall>>,
    /// The fault of an answer: of the first one, if `fault_at` does not say another.
    #[serde(default)]
    pub(crate) fault: Option<ScriptedFault>,
    /// The number of the answer with the fault, from 0.
    #[serde(default)]
    pub(crate) fault_at: usize,
    /// The last answer.
    #[serde(default)]
    pub(crate) says: Option<String>,
    /// The signed thinking before the last answer.
    #[serde(default)]
    pub(crate) thinks: Option<String>,
    /// The signed thinking before each other answer.
    #[serde(default)]
    pub(crate) ponders: Option<String>,
    /// The summary of the conversation that the model writes when it is asked for one.
    #[serde(default)]
    pub(crate) summary: Option<String>,
    /// The calls of each answer after the last, in the turns of `then` and after a button. The last answer follows them
    /// again.
    #[serde(default)]
    pub(crate) later: Vec<Vec<ScriptedCall>>,
    /// The message that another person sends to the person before the request, in direct messages.
    #[serde(default)]
    pub(crate) received: Option<ReceivedText>,
    /// The messages that the person writes in the thread while the model works on its first answer.
    #[serde(default)]
    pub(crate) meanwhile: Vec<String>,
    /// The replies while a question of the model waits, one after another.
    #[serde(default)]
    pub(crate) replies: Vec<QuestionReply>,
    /// The messages that the person writes in the thread afterwards, one after another.
    #[serde(default)]
    pub(crate) then: Vec<String>,
    /// The buttons, by label, and the people who press them, one after another.
    #[serde(default)]
    pub(crate) pressed: Vec<ButtonPress>,
    /// The expected result.
    #[serde(default)]
    pub(crate) expect: Expectation,
}

/// One call of a tool.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScriptedCall {
    /// The name of the tool.
    pub(crate) tool: String,
    /// The arguments of the call.
    #[serde(default = "no_arguments")]
    pub(crate) with: Value,
    /// The number of equal calls.
    #[serde(default = "once")]
    pub(crate) times: usize,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

fn once() -> usize {
    1
}

/// A message of another person, sent by their model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReceivedText {
    pub(crate) by: Persona,
    pub(crate) text: String,
    /// The decision of the person about the messages of the other one.
    #[serde(default)]
    pub(crate) consent: ReceiverDecision,
}

/// The decision about the messages of another person.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReceiverDecision {
    #[default]
    Accept,
    Block,
    /// The person has not decided.
    Open,
}

/// A press of a button by a person.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ButtonPress {
    pub(crate) by: Persona,
    pub(crate) label: String,
}

/// A reply to a question of the model: a press of one of its buttons in Slack, or words of the sender.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) enum QuestionReply {
    /// A press of a button.
    Press(ButtonPress),
    /// A message of the sender.
    Words(String),
}

/// The fault of the first answer of the model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) enum ScriptedFault {
    /// A body that replaces the answer.
    Body {
        status: u16,
        #[serde(default)]
        headers: BTreeMap<String, String>,
        body: String,
    },
    /// A text that replaces the arguments of every call.
    Arguments(String),
    /// An id that replaces the id of every call.
    Ids(String),
    /// A text that replaces the stop reason.
    Stop(String),
    /// A broken connection after this number of bytes.
    Reset(usize),
    /// An end of the answer after this number of bytes.
    End(usize),
    /// A body that is neither JSON nor events.
    Malformed,
}

/// The expected result of a case, in addition to the checks of all cases.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expectation {
    /// True if every call must be answered with an error.
    #[serde(default)]
    pub(crate) refused: bool,
    /// Texts that no request, post or file may contain.
    #[serde(default)]
    pub(crate) never: Vec<String>,
    /// Texts the model reads in its results.
    #[serde(default)]
    pub(crate) reads: Vec<String>,
    /// Texts the person reads.
    #[serde(default)]
    pub(crate) shows: Vec<String>,
    /// The files of the workspace that differ from the base in the end, or `[]` for none.
    #[serde(default)]
    pub(crate) changed: Option<Vec<String>>,
    /// The most messages of the bot.
    #[serde(default)]
    pub(crate) posts_max: Option<usize>,
    /// The least number of results in requests to the model.
    #[serde(default)]
    pub(crate) results_min: usize,
    /// Texts that a request to the model contains.
    #[serde(default)]
    pub(crate) sends: Vec<String>,
    /// Texts that no message of a request to the model contains.
    #[serde(default)]
    pub(crate) never_sends: Vec<String>,
    /// Texts that the instructions of no request contain.
    #[serde(default)]
    pub(crate) never_instructs: Vec<String>,
    /// Texts that no request to the second model contains.
    #[serde(default)]
    pub(crate) never_passes_on: Vec<String>,
    /// The texts of which one is shown if the turn ends before all answers of the row are given. Without any, the last
    /// answer must be given and shown.
    #[serde(default)]
    pub(crate) stopped: Vec<String>,
}

/// The person who sends the request.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Persona {
    /// A person who may edit `dev`.
    #[default]
    Dev,
    /// A person who may edit everything.
    Editor,
    /// A person who may edit nothing.
    Viewer,
    /// An administrator.
    Admin,
    /// The person who wrote before all others. Their words and files must not be visible to others.
    Victim,
    /// A person who was never invited.
    Unknown,
}

/// The platform of the request.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CasePlatform {
    /// A channel of Slack, in a separate thread.
    Slack,
    /// A direct message to the bot in Slack.
    Direct,
    /// A direct chat with the bot in Telegram.
    Telegram,
    /// A separate group of Telegram for each case.
    Group,
    /// A signed event, whose notes are the words.
    Hook,
}

/// The wire format of the model.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WireFormat {
    Anthropic,
    /// Chat completions.
    Openai,
    Responses,
    Gemini,
}

fn slack() -> Vec<CasePlatform> {
    vec![CasePlatform::Slack]
}

impl WireFormat {
    /// The formats, in the order in which the cases of a class run.
    pub(crate) const ALL: [Self; 4] = [Self::Anthropic, Self::Openai, Self::Responses, Self::Gemini];
}

impl AttackClass {
    /// Reads the class of this name.
    pub(crate) fn read(name: &str) -> Self {
        Self::read_file(&cases_directory().join(format!("{name}.toml")))
    }

    /// Reads a class, which has the name of its file.
    pub(crate) fn read_file(file: &Path) -> Self {
        let text =
            std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let class: Self = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let name = file.file_stem().and_then(|stem| stem.to_str());
        assert_eq!(
            name,
            Some(class.class.as_str()),
            "a class has the name of its file"
        );
        class
    }
}

/// Returns the names of all classes.
pub(crate) fn class_names() -> BTreeSet<String> {
    let files = std::fs::read_dir(cases_directory()).expect("the table");
    let names = files.map(|file| file.expect("a file").path());
    names
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect()
}

fn cases_directory() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dojo/cases")
}
