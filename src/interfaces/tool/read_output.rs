//! `read_output`: returns a page of the whole text of a result that was shortened.

use super::adapter::{ToolBody, ToolFunction, unless_stopped};
use super::arguments::ToolArguments;
use super::outputs::Outputs;
use super::text::PageRange;
use super::{Context, ToolError};
use crate::base::model::{Effect, OutputNumber, pluralize};
use crate::base::redact::Redactor;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The maximum number of lines on a page.
const LINES_MAX: usize = 500;
/// The maximum length of a line in bytes; a longer one counts as several.
const LINE_BYTES_MAX: usize = 2_000;
/// Bytes of a page that are left for its header and for codes of invisible characters.
const HEADER_BYTES: usize = 256;

pub(super) struct ReadOutput;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadOutputArguments {
    /// Name of the output, such as `out-7`, from the line where a result was truncated.
    #[serde(rename = "ref")]
    reference: String,
    /// Lines, or matches of `grep`, to skip before the page.
    #[serde(default)]
    offset: usize,
    /// Show only lines that contain this exact text, each with its number.
    #[serde(default)]
    grep: Option<String>,
    /// Show this number of lines from the end instead, at most 500.
    #[serde(default)]
    #[schemars(range(max = 500))]
    tail: usize,
}

impl ToolArguments for ReadOutputArguments {
    const SUBJECT: Option<&'static str> = Some("ref");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("reference", "ref"), ("output", "ref")];
}

/// The outputs of the conversation, and what a page may show of them.
pub(super) struct OutputContext {
    outputs: Arc<dyn Outputs>,
    redactor: Arc<Redactor>,
    page_bytes_max: usize,
    cancel: CancellationToken,
}

impl From<Context<'_>> for OutputContext {
    fn from(cx: Context<'_>) -> Self {
        Self {
            outputs: Arc::clone(cx.outputs),
            redactor: Arc::clone(&cx.workspace.guard.redactor),
            page_bytes_max: cx.output_bytes_max,
            cancel: cx.cancel.clone(),
        }
    }
}

impl ToolBody for ReadOutput {
    type Arguments = ReadOutputArguments;
    type CallContext = OutputContext;

    const NAME: &'static str = "read_output";
    const DESCRIPTION: &'static str = "Reads the whole text of an earlier result that was truncated, in pages. A line of more than 2,000 bytes \
                                       counts as several.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"ref":"out-1"}"#];
    const RUN: ToolFunction<Self> =
        ToolFunction::Async(|context, arguments| Box::pin(run(context, arguments)));
}

async fn run(context: &OutputContext, arguments: ReadOutputArguments) -> Result<String, ToolError> {
    if arguments.tail > 0 && (arguments.offset > 0 || arguments.grep.is_some()) {
        let why = "`tail` goes with neither `offset` nor `grep`; use one of them";
        return Err(ToolError::Failed(why.to_owned()));
    }
    let number: OutputNumber = arguments
        .reference
        .parse()
        .map_err(|why| ToolError::Failed(format!("`ref`: {why}")))?;
    let text = context.outputs.text(number).await.map_err(ToolError::Fatal)?;
    if text.is_none() && context.outputs.is_of_an_earlier_session(number) {
        return Err(ToolError::Failed(format!(
            "the output {} is from an earlier session and is no longer kept; make the call again that had it",
            number.reference()
        )));
    }
    let Some(text) = text else {
        return Err(ToolError::Failed(format!(
            "there is no output {} in this conversation, or it is no longer kept; make the call again that had it",
            number.reference()
        )));
    };
    let redactor = Arc::clone(&context.redactor);
    let page_bytes_max = context.page_bytes_max.saturating_sub(HEADER_BYTES);
    // The text may be long, so it is searched on a thread for blocking work.
    unless_stopped(&context.cancel, move || {
        // A secret that became known after the text was stored is redacted before a page is cut.
        let text = redactor.redact(&text);
        let output = Output {
            reference: number.reference(),
            lines: lines(&text, LINE_BYTES_MAX.min(page_bytes_max / 2)),
            page_bytes_max,
        };
        match (arguments.tail, &arguments.grep) {
            (0, None) => output.page(arguments.offset),
            (0, Some(text)) => output.matches(text, arguments.offset),
            (tail, _) => Ok(output.tail(tail.min(LINES_MAX))),
        }
    })
    .await
}

/// Returns the lines of a text; those that are too long in parts.
fn lines(text: &str, bytes_max: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    for mut line in text.split_inclusive('\n') {
        while line.trim_end_matches(['\r', '\n']).len() > bytes_max {
            let (part, rest) = line.split_at(line.floor_char_boundary(bytes_max));
            lines.push(part);
            line = rest;
        }
        lines.push(line);
    }
    lines
}

/// An output, split into lines.
struct Output<'t> {
    reference: String,
    lines: Vec<&'t str>,
    page_bytes_max: usize,
}

impl Output<'_> {
    fn page(&self, offset: usize) -> Result<String, ToolError> {
        let total = self.lines.len();
        let page = self.lines.iter().skip(offset).map(|line| ended(line));
        let (shown, page) = self.fitted(page);
        let page_range = PageRange { offset, shown, total };
        if total > 0 && offset >= total {
            let lines = pluralize(total, "line", "lines");
            return Err(ToolError::Failed(format!(
                "{} has only {lines}; use an offset below {total}",
                self.reference
            )));
        }
        let (range, rest) = (page_range.range(), page_range.rest(" lines"));
        Ok(format!(
            "[{}: lines {range} of {total}]{rest}\n{page}",
            self.reference
        ))
    }

    fn matches(&self, text: &str, offset: usize) -> Result<String, ToolError> {
        if text.is_empty() || text.contains(['\n', '\r']) {
            let why = "`grep` is a text within one line; leave it out to read all lines";
            return Err(ToolError::Failed(why.to_owned()));
        }
        let found = self
            .lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.contains(text));
        let total = found.clone().count();
        if total == 0 {
            return Ok(format!("no matches for \"{text}\" in {}", self.reference));
        }
        if offset >= total {
            let matches = pluralize(total, "match", "matches");
            return Err(ToolError::Failed(format!(
                "only {matches} for \"{text}\"; use an offset below {total}"
            )));
        }
        let found = found.skip(offset);
        let (shown, page) = self.fitted(found.map(|(index, line)| format!("{}:{}", index + 1, ended(line))));
        let page_range = PageRange { offset, shown, total };
        let (range, rest) = (page_range.range(), page_range.rest(""));
        Ok(format!(
            "[{range} of {total} matches for \"{text}\" in {}]{rest}\n{page}",
            self.reference
        ))
    }

    /// Returns the last lines, as many of them as fit.
    fn tail(&self, count: usize) -> String {
        let total = self.lines.len();
        let (shown, _) = self.fitted(self.lines.iter().rev().take(count).map(|line| ended(line)));
        let page_range = PageRange {
            offset: total - shown,
            shown,
            total,
        };
        let page: String = self
            .lines
            .iter()
            .skip(total - shown)
            .map(|line| ended(line))
            .collect();
        format!(
            "[{}: lines {} of {total}]\n{page}",
            self.reference,
            page_range.range()
        )
    }

    /// Joins lines from the first on, as many as a page may have. Returns their number and the page.
    fn fitted(&self, lines: impl Iterator<Item = String>) -> (usize, String) {
        let (mut shown, mut page) = (0, String::new());
        for line in lines.take(LINES_MAX) {
            if shown > 0 && page.len() + line.len() > self.page_bytes_max {
                break;
            }
            page.push_str(&line);
            shown += 1;
        }
        (shown, page)
    }
}

/// Returns a line with a line end, also if it is the part of a longer one.
fn ended(line: &str) -> String {
    match line.ends_with('\n') {
        true => line.to_owned(),
        false => format!("{line}\n"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{OutputContext, ReadOutput};
    use crate::base::model::{OutputNumber, StoredOutput};
    use crate::base::redact::Redactor;
    use crate::interfaces::tool::outputs::MemoryOutputs;
    use crate::interfaces::tool::testing::{call_async, failure};
    use serde_json::{Value, json};
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;

    fn context(text: &str) -> OutputContext {
        let outputs = MemoryOutputs::default();
        outputs.keep(&[StoredOutput {
            number: OutputNumber(7),
            text: text.to_owned(),
        }]);
        OutputContext {
            outputs: Arc::new(outputs),
            redactor: Arc::new(Redactor::new([])),
            page_bytes_max: 65_536,
            cancel: CancellationToken::new(),
        }
    }

    async fn read(context: &OutputContext, arguments: Value) -> String {
        call_async::<ReadOutput>(context, arguments).await.unwrap()
    }

    async fn refusal(context: &OutputContext, arguments: Value) -> String {
        failure(call_async::<ReadOutput>(context, arguments).await)
    }

    fn numbered(lines: std::ops::RangeInclusive<usize>) -> String {
        lines.map(|line| format!("line {line}\n")).collect()
    }

    /// TK-32
    #[tokio::test]
    async fn an_output_comes_in_pages_with_the_exact_header() {
        let context = context(&numbered(1..=1_200));
        let header = "[out-7: lines 1–500 of 1200] (700 more lines, use offset=500 to continue)";
        assert_eq!(
            read(&context, json!({ "ref": "out-7" })).await,
            format!("{header}\n{}", numbered(1..=500))
        );
        let last = read(&context, json!({ "ref": "out-7", "offset": 1_198 })).await;
        assert_eq!(last, "[out-7: lines 1199–1200 of 1200]\nline 1199\nline 1200\n");
        let tail = read(&context, json!({ "output": "out-7", "tail": 2 })).await;
        assert_eq!(tail, last);
        assert_eq!(
            refusal(&context, json!({ "ref": "out-7", "offset": 1_200 })).await,
            "out-7 has only 1200 lines; use an offset below 1200"
        );
    }

    /// TK-32
    #[tokio::test]
    async fn matches_come_with_their_line_in_pages() {
        let context = context(&numbered(1..=1_200));
        let found = read(&context, json!({ "ref": "out-7", "grep": "line 119" })).await;
        let lines: String = std::iter::once(119)
            .chain(1_190..=1_199)
            .map(|line| format!("{line}:line {line}\n"))
            .collect();
        assert_eq!(
            found,
            format!("[1–11 of 11 matches for \"line 119\" in out-7]\n{lines}")
        );
        let header =
            "[501–1000 of 1200 matches for \"line\" in out-7] (200 more, use offset=1000 to continue)";
        let second = read(&context, json!({ "ref": "out-7", "grep": "line", "offset": 500 })).await;
        assert_eq!(second.lines().next(), Some(header));
        assert_eq!(
            read(&context, json!({ "ref": "out-7", "grep": "none" })).await,
            "no matches for \"none\" in out-7"
        );
    }

    /// A page fits into a result, so that it is not shortened again, and every byte can be reached.
    #[tokio::test]
    async fn pages_of_long_lines_fit_and_leave_nothing_out() {
        let text = "ä".repeat(100_000);
        let mut context = context(&text);
        context.page_bytes_max = 4_096;
        let (mut all, mut offset) = (String::new(), 0);
        loop {
            let page = read(&context, json!({ "ref": "out-7", "offset": offset })).await;
            assert!(page.len() <= 4_096, "{}", page.len());
            let (header, lines) = page.split_once('\n').unwrap();
            all.extend(lines.lines());
            let Some((_, rest)) = header.split_once("offset=") else {
                break;
            };
            offset = rest.split(' ').next().unwrap().parse().unwrap();
        }
        assert_eq!(all, text);
    }

    #[tokio::test]
    async fn what_cannot_be_read_says_what_would_work() {
        let context = context("x\n");
        for (arguments, why) in [
            (
                json!({ "ref": "out-8" }),
                "there is no output out-8 in this conversation, or it is no longer kept; make the call again that \
                 had it",
            ),
            (
                json!({ "ref": "a.txt" }),
                "`ref`: a reference to an output is written like `out-7`",
            ),
            (
                json!({ "ref": "out-7", "tail": 1, "grep": "x" }),
                "`tail` goes with neither `offset` nor `grep`; use one of them",
            ),
            (
                json!({ "ref": "out-7", "grep": "" }),
                "`grep` is a text within one line; leave it out to read all lines",
            ),
        ] {
            assert_eq!(refusal(&context, arguments).await, why);
        }
    }

    /// T87
    #[tokio::test]
    async fn a_secret_learnt_since_is_hidden_even_across_the_end_of_a_page() {
        let secret = "kept-to-ourselves-4711";
        let mut context = context(&format!("{}{secret}", "x".repeat(1_990)));
        assert!(
            read(&context, json!({ "ref": "out-7" }))
                .await
                .contains("kept-to-")
        );
        let redactor = Redactor::new([]);
        redactor.learn(&redactor.secrets_in_entry("opens", secret));
        context.redactor = Arc::new(redactor);
        let page = read(&context, json!({ "ref": "out-7" })).await;
        assert!(!page.contains("kept-t") && !page.contains("4711"), "{page}");
    }
}
