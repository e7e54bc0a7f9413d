//! Locations in a source: bytes internally, lines and columns for people.

use std::fmt;

/// A range of bytes of the source, without its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

impl Span {
    /// Returns the span from the start of this one to the end of another.
    pub fn to(self, other: Span) -> Span {
        Span {
            start: self.start,
            end: other.end,
        }
    }
}

/// A line and a column, both from one; columns count bytes, as in go-jsonnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct LineColumn {
    /// The line, from one.
    pub line: u32,
    /// The byte in the line, from one.
    pub column: u32,
}

/// A range between two locations, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct SourceRange {
    /// The first location.
    pub begin: LineColumn,
    /// The location after the last one.
    pub end: LineColumn,
}

impl fmt::Display for LineColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl fmt::Display for SourceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (begin, end) = (self.begin, self.end);
        if begin.line != end.line {
            return write!(f, "({begin})-({end})");
        }
        if begin.column == end.column {
            return write!(f, "{begin}");
        }
        write!(f, "{begin}-{}", end.column)
    }
}

/// The start of each line of a source, to convert offsets to locations.
#[derive(Debug)]
pub struct LineIndex {
    starts: Vec<u32>,
}

impl LineIndex {
    /// Creates the index of a source.
    pub fn new(text: &str) -> Self {
        let mut starts = vec![0];
        starts.extend(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at as u32 + 1));
        Self { starts }
    }

    /// Returns the line and column of a byte.
    pub fn line_column(&self, at: u32) -> LineColumn {
        let line = self.starts.partition_point(|start| *start <= at);
        let start = line
            .checked_sub(1)
            .and_then(|index| self.starts.get(index))
            .copied()
            .unwrap_or(0);
        LineColumn {
            line: line as u32,
            column: at - start + 1,
        }
    }

    /// Returns the locations of a span.
    pub fn range(&self, span: Span) -> SourceRange {
        SourceRange {
            begin: self.line_column(span.start),
            end: self.line_column(span.end),
        }
    }
}
