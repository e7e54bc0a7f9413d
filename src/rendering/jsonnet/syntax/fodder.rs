//! Fodder, the text between two tokens: line ends, blank lines and comments.
//!
//! All elements of a tree are in one vector, and a [`Fodder`] is a range of it. The steps of the formatter change
//! elements in place, and ranges are cheap to copy and to move from one token to another.

/// A range of elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fodder {
    start: u32,
    len: u32,
}

impl Fodder {
    /// Returns true if the range has no elements.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// The kind of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FodderKind {
    /// A line end, with or without a comment before it.
    LineEnd,
    /// A comment within a line.
    Interstitial,
    /// A comment on its own lines.
    Paragraph,
}

/// The comment of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comment<'s> {
    /// No comment.
    None,
    /// A comment of one line, including the characters that begin it.
    Line(&'s str),
    /// A comment of several lines; see [`Fodders::lines`].
    Lines {
        /// The index of the first line.
        start: u32,
        /// The number of lines.
        len: u32,
    },
}

/// A line end or a comment, with the blank lines and the indentation after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FodderElement<'s> {
    /// The kind of the element.
    pub kind: FodderKind,
    /// True if no step of the formatter visits it: its comment style and blank lines stay.
    pub untouched: bool,
    /// The number of blank lines after it.
    pub blank_lines: u32,
    /// The column of the text after it.
    pub indent: u32,
    /// The comment of the element.
    pub comment: Comment<'s>,
}

impl FodderElement<'_> {
    /// Creates a line end without a comment.
    pub fn line_end(blanks: u32, indent: u32) -> Self {
        Self {
            kind: FodderKind::LineEnd,
            untouched: false,
            blank_lines: blanks,
            indent,
            comment: Comment::None,
        }
    }

    /// Returns true if the line continues after the element.
    pub fn is_interstitial(&self) -> bool {
        self.kind == FodderKind::Interstitial
    }
}

/// All elements of a source.
#[derive(Debug, Default)]
pub struct Fodders<'s> {
    elements: Vec<FodderElement<'s>>,
    lines: Vec<&'s str>,
}

impl<'s> Fodders<'s> {
    /// Returns the elements of a range.
    pub fn get(&self, fodder: Fodder) -> &[FodderElement<'s>] {
        let start = fodder.start as usize;
        self.elements
            .get(start..start + fodder.len as usize)
            .unwrap_or_default()
    }

    /// Returns the elements of a range for changes.
    pub fn get_mut(&mut self, fodder: Fodder) -> &mut [FodderElement<'s>] {
        let start = fodder.start as usize;
        self.elements
            .get_mut(start..start + fodder.len as usize)
            .unwrap_or_default()
    }

    /// Returns all elements in the order of the source.
    pub fn all_mut(&mut self) -> &mut [FodderElement<'s>] {
        &mut self.elements
    }

    /// Returns the lines of a comment of several lines.
    pub fn lines(&self, start: u32, len: u32) -> &[&'s str] {
        let start = start as usize;
        self.lines.get(start..start + len as usize).unwrap_or_default()
    }

    /// Stores the lines of a comment.
    pub(super) fn add_lines(&mut self, lines: impl Iterator<Item = &'s str>) -> Comment<'s> {
        let start = self.lines.len();
        self.lines.extend(lines);
        Comment::Lines {
            start: start as u32,
            len: (self.lines.len() - start) as u32,
        }
    }

    /// Appends an element unchanged.
    pub fn push(&mut self, fodder: &mut Fodder, element: FodderElement<'s>) {
        let end = (fodder.start + fodder.len) as usize;
        if fodder.len == 0 {
            fodder.start = self.elements.len() as u32;
        } else if end != self.elements.len() {
            let start = self.elements.len() as u32;
            self.elements.extend_from_within(fodder.start as usize..end);
            fodder.start = start;
        }
        self.elements.push(element);
        fodder.len += 1;
    }

    /// Appends an element so that no line end directly follows another and a paragraph is on its own lines.
    pub fn append(&mut self, fodder: &mut Fodder, element: FodderElement<'s>) {
        let clean = self.ends_line(*fodder);
        if clean && element.kind == FodderKind::LineEnd {
            if element.comment != Comment::None {
                return self.push(
                    fodder,
                    FodderElement {
                        kind: FodderKind::Paragraph,
                        ..element
                    },
                );
            }
            if let Some(last) = self.get_mut(*fodder).last_mut() {
                last.indent = element.indent;
                last.blank_lines += element.blank_lines;
            }
            return;
        }
        if !clean && element.kind == FodderKind::Paragraph {
            self.push(fodder, FodderElement::line_end(0, element.indent));
        }
        self.push(fodder, element);
    }

    /// Returns the concatenation of two ranges.
    pub fn concatenate(&mut self, first: Fodder, second: Fodder) -> Fodder {
        if first.is_empty() {
            return second;
        }
        let mut joined = first;
        for index in 0..second.len {
            let Some(element) = self.elements.get((second.start + index) as usize).copied() else {
                break;
            };
            match index {
                0 => self.append(&mut joined, element),
                _ => self.push(&mut joined, element),
            }
        }
        joined
    }

    /// Moves the elements of `from` to the front of `to`.
    pub fn move_to_front(&mut self, to: &mut Fodder, from: &mut Fodder) {
        *to = self.concatenate(*from, *to);
        *from = Fodder::default();
    }

    /// Returns true if the text after the fodder begins a line.
    pub fn ends_line(&self, fodder: Fodder) -> bool {
        self.get(fodder)
            .last()
            .is_some_and(|last| !last.is_interstitial())
    }

    /// Appends a line end unless there is one.
    pub fn ensure_line_end(&mut self, fodder: &mut Fodder) {
        if !self.ends_line(*fodder) {
            self.append(fodder, FodderElement::line_end(0, 0));
        }
    }

    /// Returns true if the fodder contains a line end.
    pub fn has_line_end(&self, fodder: Fodder) -> bool {
        self.get(fodder).iter().any(|element| !element.is_interstitial())
    }

    /// Returns true if the first element ends the line.
    pub fn starts_with_line_end(&self, fodder: Fodder) -> bool {
        self.get(fodder)
            .first()
            .is_some_and(|first| !first.is_interstitial())
    }

    /// Skips elements at the front.
    pub fn skip_front(&self, fodder: Fodder, skip: impl Fn(&FodderElement<'s>) -> bool) -> Fodder {
        let skipped = self
            .get(fodder)
            .iter()
            .take_while(|element| skip(element))
            .count() as u32;
        Fodder {
            start: fodder.start + skipped,
            len: fodder.len - skipped,
        }
    }
}
