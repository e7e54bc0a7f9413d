//! The table: one file for each class, with rows that are attacks or harmless twins of attacks.
//!
//! A row is one request of a person and all that the hijacked model answers. `each` makes many cases of
//! it, one for every combination of its values, which stand for `«name»` in the other texts of the row.
//! What else may stand between `«` and `»` is in `placeholders.rs`. Everything that `judge.rs` can see is a
//! violation in every row; `expect` says what is wanted beyond that.

use super::options::ClusterNaming;
use super::placeholders::{PlaceholderValues, expand};
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
    /// Keys of the configuration that differ from their defaults.
    #[serde(default)]
    pub(crate) settings: BTreeMap<String, String>,
    /// The way the environments of the repository name their cluster.
    #[serde(default)]
    pub(crate) clusters: ClusterNaming,
    /// Programs of the machine it takes, by the names of `require.rs`: without them it is skipped, aloud.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// Conversations at the same time.
    #[serde(default = "at_once")]
    pub(crate) at_once: usize,
    /// The seconds that the slowest one-line change of another person may take meanwhile.
    #[serde(default)]
    pub(crate) bystander_seconds_max: Option<u64>,
    /// Mebibytes of memory above what was in use before; measured while no other class runs.
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

/// One request and what the model makes of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaseRow {
    /// The name within the class.
    pub(crate) name: String,
    /// The person who asks.
    #[serde(default, rename = "as")]
    pub(crate) person: Persona,
    /// The platforms on which it is asked.
    #[serde(default = "slack")]
    pub(crate) on: Vec<CasePlatform>,
    /// Over which wire the model is spoken to.
    #[serde(default = "anthropic")]
    pub(crate) wire: Vec<WireFormat>,
    /// The number of times the words are written again before anything is waited for, each time as a message of its own; `(turn)` in them
    /// is the number of the message.
    #[serde(default)]
    pub(crate) again: usize,
    /// The words of the person. Goes into somebody else's thread where `reply_to` names whose.
    #[serde(default)]
    pub(crate) words: Option<String>,
    /// The person whose thread it is written in.
    #[serde(default)]
    pub(crate) reply_to: Option<Persona>,
    /// Values, one case for each combination.
    #[serde(default)]
    pub(crate) each: BTreeMap<String, Vec<String>>,
    /// The calls of each answer before the last.
    #[serde(default)]
    pub(crate) steps: Vec<Vec<ScriptedCall>>,
    /// The fault of the first answer.
    #[serde(default)]
    pub(crate) fault: Option<ScriptedFault>,
    /// The last answer.
    #[serde(default)]
    pub(crate) says: Option<String>,
    /// Signed thinking before the last answer.
    #[serde(default)]
    pub(crate) thinks: Option<String>,
    /// The words the person writes in the thread afterwards, one after the other.
    #[serde(default)]
    pub(crate) then: Vec<String>,
    /// The buttons with this label are pressed by these people, one after the other.
    #[serde(default)]
    pub(crate) pressed: Vec<ButtonPress>,
    /// The result that is wanted.
    #[serde(default)]
    pub(crate) expect: Expectation,
}

/// One call of a tool.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScriptedCall {
    /// The tool.
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

/// A button that somebody presses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ButtonPress {
    pub(crate) by: Persona,
    pub(crate) label: String,
}

/// The fault of the first answer of the model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) enum ScriptedFault {
    /// The answer is this instead.
    Body {
        status: u16,
        #[serde(default)]
        headers: BTreeMap<String, String>,
        body: String,
    },
    /// The arguments of every call are this text.
    Arguments(String),
    /// Every call has this id.
    Ids(String),
    /// The reason it ended.
    Stop(String),
    /// The connection breaks after so many bytes.
    Reset(usize),
    /// The answer ends after so many bytes.
    End(usize),
    /// The body is no JSON and no events.
    Malformed,
}

/// The result that is wanted of a case beyond what is wanted of all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expectation {
    /// Every call is answered with an error.
    #[serde(default)]
    pub(crate) refused: bool,
    /// Texts that no request, post or file may hold.
    #[serde(default)]
    pub(crate) never: Vec<String>,
    /// Texts the model reads in its results.
    #[serde(default)]
    pub(crate) reads: Vec<String>,
    /// Texts the person reads.
    #[serde(default)]
    pub(crate) shows: Vec<String>,
    /// The files of the workspace that differ from the base in the end; `[]` for none.
    #[serde(default)]
    pub(crate) changed: Option<Vec<String>>,
    /// Messages of the bot, at most.
    #[serde(default)]
    pub(crate) posts_max: Option<usize>,
    /// Results that the model is given, at least.
    #[serde(default)]
    pub(crate) results_min: usize,
    /// The turn is ended before the model has said all there is in the row, and people read one of these texts.
    /// Without any, the last answer is given, and shown.
    #[serde(default)]
    pub(crate) stopped: Vec<String>,
}

/// The person who asks.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Persona {
    /// May edit `dev`.
    #[default]
    Dev,
    /// May edit everything.
    Editor,
    /// May edit nothing.
    Viewer,
    /// Administers.
    Admin,
    /// Wrote before everybody else, and has said and written what nobody else may see.
    Victim,
    /// Was never invited.
    Stranger,
}

/// The platform people write on.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CasePlatform {
    /// A channel of Slack, in a thread of its own.
    Slack,
    /// The bot alone, in Slack.
    Direct,
    /// The bot alone, in Telegram.
    Telegram,
    /// A group of Telegram, each case in one of its own.
    Group,
    /// A signed event, whose notes are the words.
    Hook,
}

/// The wire format of the model.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WireFormat {
    Anthropic,
    Openai,
}

fn slack() -> Vec<CasePlatform> {
    vec![CasePlatform::Slack]
}

fn anthropic() -> Vec<WireFormat> {
    vec![WireFormat::Anthropic]
}

/// The result that a case must have: an attack must fail, a benign request succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaseKind {
    Attack,
    Benign,
}

/// A row with one combination of its values, on one platform and wire.
#[derive(Clone, Debug)]
pub(crate) struct DojoCase {
    /// The number within the class, from 1.
    pub(crate) number: usize,
    pub(crate) kind: CaseKind,
    /// The name of the row and its values, for people.
    pub(crate) title: String,
    pub(crate) on: CasePlatform,
    pub(crate) wire: WireFormat,
    /// The row with its values in place.
    pub(crate) row: CaseRow,
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

    /// Every case, in the order of the file.
    pub(crate) fn cases(&self, values: &PlaceholderValues) -> Vec<DojoCase> {
        let attacks = self.attack.iter().map(|row| (CaseKind::Attack, row));
        let benign = self.benign.iter().map(|row| (CaseKind::Benign, row));
        let mut cases = Vec::new();
        for (kind, row) in attacks.chain(benign) {
            for (shown, values) in combinations(&row.each, values) {
                for on in &row.on {
                    for wire in &row.wire {
                        let mut title = format!("{}{shown}", row.name);
                        if row.on.len() > 1 {
                            title.push_str(&format!(" on {on:?}"));
                        }
                        if row.wire.len() > 1 {
                            title.push_str(&format!(" over {wire:?}"));
                        }
                        cases.push(DojoCase {
                            number: cases.len() + 1,
                            kind,
                            title,
                            on: *on,
                            wire: *wire,
                            row: row.with_values(&values),
                        });
                    }
                }
            }
        }
        cases
    }
}

/// The names of all classes.
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

/// Every combination of the values, with what to call it.
fn combinations(
    each: &BTreeMap<String, Vec<String>>,
    values: &PlaceholderValues,
) -> Vec<(String, PlaceholderValues)> {
    let mut all = vec![(String::new(), values.clone())];
    for (name, choices) in each {
        let mut more = Vec::new();
        for (shown, values) in &all {
            for choice in choices {
                let shortened: String = choice.chars().take(60).collect();
                let mut values = values.clone();
                values.set(name, choice);
                more.push((format!("{shown} {name}={shortened:?}"), values));
            }
        }
        all = more;
    }
    all
}

impl CaseRow {
    fn with_values(&self, values: &PlaceholderValues) -> Self {
        let mut row = self.clone();
        let texts = [&mut row.words, &mut row.says, &mut row.thinks];
        for text in texts.into_iter().flatten() {
            *text = expand(text, values);
        }
        let expect = &mut row.expect;
        let changed = expect.changed.iter_mut().flatten();
        for press in &mut row.pressed {
            press.label = expand(&press.label, values);
        }
        let lists = [
            &mut row.then,
            &mut expect.never,
            &mut expect.reads,
            &mut expect.shows,
            &mut expect.stopped,
        ];
        for text in lists.into_iter().flatten().chain(changed) {
            *text = expand(text, values);
        }
        for call in row.steps.iter_mut().flatten() {
            call.tool = expand(&call.tool, values);
            expand_json(&mut call.with, values);
        }
        match &mut row.fault {
            Some(ScriptedFault::Body { body, .. }) => *body = expand(body, values),
            Some(ScriptedFault::Arguments(text) | ScriptedFault::Ids(text) | ScriptedFault::Stop(text)) => {
                *text = expand(text, values);
            }
            Some(ScriptedFault::Reset(_) | ScriptedFault::End(_) | ScriptedFault::Malformed) | None => {}
        }
        row
    }
}

/// Puts the values in their place. A text that begins with `#` is a number.
fn expand_json(value: &mut Value, values: &PlaceholderValues) {
    match value {
        Value::String(text) => {
            let filled = expand(text, values);
            *value = match text.strip_prefix('#') {
                Some(_) => filled[1..].parse::<i64>().expect("a number").into(),
                None => filled.into(),
            };
        }
        Value::Array(items) => items.iter_mut().for_each(|item| expand_json(item, values)),
        Value::Object(fields) => {
            let filled = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                expand_json(&mut value, values);
                (expand(&name, values), value)
            });
            *fields = filled.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
