//! Markdown as rows of a terminal. pulldown-cmark parses it; this module wraps the text at the width of the terminal
//! and marks it with the styles of [`OutputStyle`]. No other escape sequence can get into a row.

use super::live_area::ScreenLine;
use super::markdown_table::TableText;
use super::wrapping::{StyledRun, wrapped};
use crate::cli::output::{Output, OutputStyle};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr;

/// The indentation of a code block.
const CODE_INDENT: &str = "  ";
/// The maximum number of columns of a text. Longer rows are hard to read.
const TEXT_COLUMNS_MAX: usize = 100;

/// Returns a text as rows. Diffs outside of code blocks are coloured and not read as Markdown.
pub(super) fn render(text: &str, columns: usize, output: &Output) -> Vec<ScreenLine> {
    let mut lines = Vec::new();
    for (kind, part) in parts(text) {
        if !lines.is_empty() && !part.trim().is_empty() {
            lines.push(ScreenLine::default());
        }
        match kind {
            PartKind::Diff => lines.extend(part.lines().map(|line| diff_line(line, "", output))),
            PartKind::Markdown => {
                let mut renderer = Renderer::new(columns.min(TEXT_COLUMNS_MAX), output);
                let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
                Parser::new_ext(part, options).for_each(|event| renderer.event(event));
                lines.extend(renderer.finish());
            }
        }
    }
    lines
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartKind {
    Markdown,
    Diff,
}

/// Splits a text into Markdown and diffs.
fn parts(text: &str) -> Vec<(PartKind, &str)> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    let (mut kind, mut is_fenced) = (PartKind::Markdown, false);
    for (number, line) in lines.iter().enumerate() {
        let next = lines.get(number + 1).copied().unwrap_or_default();
        is_fenced ^= kind == PartKind::Markdown && line.trim_start().starts_with("```");
        let begins = line.starts_with("diff --git ") || line.starts_with("--- ") && next.starts_with("+++ ");
        let is = match kind {
            _ if is_fenced => PartKind::Markdown,
            _ if begins => PartKind::Diff,
            PartKind::Diff if is_of_diff(line) => PartKind::Diff,
            PartKind::Diff | PartKind::Markdown => PartKind::Markdown,
        };
        if is != kind && at > start {
            parts.push((kind, text.get(start..at).unwrap_or_default()));
            start = at;
        }
        kind = is;
        at += line.len();
    }
    parts.push((kind, text.get(start..).unwrap_or_default()));
    parts
}

/// Returns true if a line after a line of a diff belongs to it.
fn is_of_diff(line: &str) -> bool {
    let heads = [
        "index ",
        "new file",
        "deleted file",
        "old mode",
        "new mode",
        "similarity ",
        "rename ",
        "Binary ",
    ];
    line.starts_with(['+', '-', ' ', '@', '\\']) || heads.iter().any(|head| line.starts_with(head))
}

fn diff_line(line: &str, indent: &str, output: &Output) -> ScreenLine {
    let line = &without_tabs(line);
    let style = match line.as_bytes().first() {
        _ if line.starts_with("diff ") => Some(OutputStyle::Header),
        Some(b'+') => Some(OutputStyle::Added),
        Some(b'-') => Some(OutputStyle::Removed),
        Some(b'@') => Some(OutputStyle::Hunk),
        _ => None,
    };
    let text = match style {
        Some(style) => output.paint(style, line),
        None => line.clone(),
    };
    ScreenLine {
        text: format!("{indent}{text}"),
        columns: indent.width() + line.width(),
    }
}

/// Returns a line with spaces in place of tabs, whose width depends on their place.
fn without_tabs(line: &str) -> String {
    line.replace('\t', "    ")
}

/// The text before the rows of a container, such as a list item.
struct Margin {
    first: String,
    next: String,
    is_used: bool,
}

struct Renderer<'a> {
    output: &'a Output,
    columns: usize,
    lines: Vec<ScreenLine>,
    margins: Vec<Margin>,
    /// The next number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    styles: Vec<OutputStyle>,
    runs: Vec<StyledRun>,
    code: Option<(String, String)>,
    table: Option<TableText>,
    links: Vec<(String, usize)>,
}

impl<'a> Renderer<'a> {
    fn new(columns: usize, output: &'a Output) -> Self {
        Self {
            output,
            columns,
            lines: Vec::new(),
            margins: Vec::new(),
            lists: Vec::new(),
            styles: Vec::new(),
            runs: Vec::new(),
            code: None,
            table: None,
            links: Vec::new(),
        }
    }

    fn finish(mut self) -> Vec<ScreenLine> {
        self.flush();
        self.lines
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.text(&text),
            },
            Event::Code(code) => {
                self.styles.push(OutputStyle::Code);
                self.text(&code);
                self.styles.pop();
            }
            Event::SoftBreak | Event::HardBreak => self.text("\n"),
            Event::Rule => {
                self.gap();
                let rule = "─".repeat(self.columns.min(40));
                self.line(self.output.paint(OutputStyle::Dim, &rule), rule.width());
            }
            // HTML has no meaning here and is shown as it is written.
            Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.text(&text),
            Event::TaskListMarker(_) => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.gap(),
            Tag::Heading { .. } => {
                self.gap();
                self.styles.push(OutputStyle::Title);
            }
            Tag::BlockQuote(_) => {
                self.gap();
                let bar = self.output.paint(OutputStyle::Border, "│") + " ";
                self.margin(bar.clone(), bar);
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                self.gap();
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(start) => {
                self.flush();
                self.gap();
                self.lists.push(start);
            }
            Tag::Item => {
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    Some(None) | None => "• ".to_owned(),
                };
                let next = " ".repeat(mark.width());
                self.margin(mark, next);
            }
            Tag::Table(_) => {
                self.gap();
                self.table = Some(TableText::default());
            }
            Tag::Emphasis => self.styles.push(OutputStyle::Italic),
            Tag::Strong => self.styles.push(OutputStyle::Bold),
            Tag::Strikethrough => self.styles.push(OutputStyle::Struck),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push((dest_url.to_string(), self.runs.len()));
                self.styles.push(OutputStyle::Underlined);
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.flush();
                self.margins.pop();
            }
            TagEnd::CodeBlock => self.code_block(),
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.runs);
                self.table.get_or_insert_default().cell(cell);
            }
            TagEnd::TableHead | TagEnd::TableRow => self.table.get_or_insert_default().end_row(),
            TagEnd::Table => {
                let table = self.table.take().unwrap_or_default();
                for line in table.lines(self.room(), self.output) {
                    self.line(line.text, line.columns);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => self.flush(),
        }
    }

    /// Shows the address of a link after its text, unless they are the same.
    fn end_link(&mut self) {
        self.styles.pop();
        let (address, start) = self.links.pop().unwrap_or_default();
        let label: String = self
            .runs
            .iter()
            .skip(start)
            .map(|run| run.text.as_str())
            .collect();
        if label != address {
            self.styles.push(OutputStyle::Dim);
            self.text(&format!(" ({address})"));
            self.styles.pop();
        }
    }

    fn code_block(&mut self) {
        let (language, code) = self.code.take().unwrap_or_default();
        let is_diff = matches!(language.as_str(), "diff" | "patch");
        for line in code.lines().map(without_tabs) {
            match is_diff {
                true => {
                    let line = diff_line(&line, CODE_INDENT, self.output);
                    self.line(line.text, line.columns);
                }
                false => self.line(
                    format!("{CODE_INDENT}{}", self.output.paint(OutputStyle::Code, &line)),
                    CODE_INDENT.width() + line.width(),
                ),
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.runs.push(StyledRun {
            text: text.to_owned(),
            styles: self.styles.clone(),
        });
    }

    /// Leaves a row empty before a block, except inside of lists.
    fn gap(&mut self) {
        self.flush();
        let is_begun = self.margins.last().is_none_or(|margin| margin.is_used);
        if self.lists.is_empty() && !self.lines.is_empty() && is_begun {
            let margin: String = self.margins.iter().map(|margin| margin.next.as_str()).collect();
            self.lines.push(ScreenLine {
                text: margin.trim_end().to_owned(),
                columns: self.margin_columns(),
            });
        }
    }

    fn margin(&mut self, first: String, next: String) {
        self.margins.push(Margin {
            first,
            next,
            is_used: false,
        });
    }

    fn margin_columns(&self) -> usize {
        // A margin of a quotation has styles, and two columns.
        let columns = |margin: &Margin| match margin.first.contains('\u{1b}') {
            true => 2,
            false => margin.first.width(),
        };
        self.margins.iter().map(columns).sum()
    }

    /// Returns the number of columns beside the margins.
    fn room(&self) -> usize {
        self.columns.saturating_sub(self.margin_columns()).max(10)
    }

    /// Wraps the collected text.
    fn flush(&mut self) {
        let runs = std::mem::take(&mut self.runs);
        if runs.is_empty() {
            return;
        }
        for row in wrapped(&runs, self.room()) {
            let columns = row.iter().map(|run| run.text.width()).sum();
            let text = row
                .iter()
                .map(|run| self.output.paint_all(&run.styles, &run.text));
            let text = text.collect::<String>();
            self.line(text, columns);
        }
    }

    fn line(&mut self, text: String, columns: usize) {
        let columns = self.margin_columns() + columns;
        let mut line = String::new();
        for margin in &mut self.margins {
            line.push_str(match margin.is_used {
                true => &margin.next,
                false => &margin.first,
            });
            margin.is_used = true;
        }
        line.push_str(&text);
        self.lines.push(ScreenLine {
            text: line.trim_end().to_owned(),
            columns,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::render;
    use crate::cli::output::Output;

    const TEXT: &str = "\
# The plan

Set **two** values in `environments/dev`, then *check* them; see [the guide](https://example.com/guide) and
<https://example.com>.

1. Edit `main.jsonnet`, which has a long description that does not fit into one row of a narrow terminal:
   - replicas
   - memory
2. Check.

```yaml
replicas: 4
```

| name | replicas |
|------|----------|
| web  | 4        |
| 日本 | 2        |

> A quotation
> of two lines.

---
~~Gone~~ <b>html</b>
diff --git a/a b/a
--- a/a
+++ b/a
@@ -1 +1 @@
-old
+new
After the diff.
";

    /// TK-72
    #[test]
    fn markdown_is_shown_as_text_of_the_width_of_the_terminal() {
        for columns in [60, 80, 200] {
            let lines = render(TEXT, columns, &Output::plain());
            let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
            assert!(lines.iter().all(|line| line.columns <= columns), "{texts:#?}");
            insta::assert_snapshot!(format!("markdown_at_{columns}"), texts.join("\n"));
        }
        let styled = render(TEXT, 60, &Output::styled());
        let texts: Vec<&str> = styled.iter().map(|line| line.text.as_str()).collect();
        insta::assert_snapshot!("markdown_with_styles", texts.join("\n").replace('\u{1b}', "␛"));
    }

    #[test]
    fn a_table_that_is_too_wide_is_shown_as_records() {
        let text = "| name | value |\n|--|--|\n| web | a text that is too long for this terminal |\n| db | short |\n";
        let lines = render(text, 30, &Output::plain());
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(
            texts.join("\n"),
            "name: web\nvalue: a text that is too\n  long for this terminal\n\nname: db\nvalue: short"
        );
    }
}
