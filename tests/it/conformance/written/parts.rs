//! Expressions of every kind except objects.

use super::words::{COLONS, COMPARISONS, OPERATORS};
use super::{ProgramType, TokenWriter};

impl TokenWriter {
    /// Writes a number as a chain of operands without parentheses.
    pub(super) fn number(&mut self, depth: usize) {
        if self.random.one_in(4) {
            self.put("std");
            self.put(".");
            self.put("length");
            self.put("(");
            let kind = [ProgramType::Text, ProgramType::List, ProgramType::Object][self.random.below(3)];
            self.expression(kind, depth);
            self.last_comma();
            return self.put(")");
        }
        for index in 0..1 + self.random.below(4) {
            if index > 0 {
                self.pick(OPERATORS);
            }
            while self.random.one_in(3) {
                self.pick(&["-", "~", "+", "-", "~"]);
            }
            match self.random.below(3) {
                0 if depth > 0 => {
                    self.put("(");
                    self.expression(ProgramType::Number, depth - 1);
                    self.put(")");
                }
                1 if depth > 0 => self.picked(ProgramType::Number, depth - 1),
                _ => self.simple(ProgramType::Number),
            }
        }
    }

    pub(super) fn truth(&mut self, depth: usize) {
        match self.random.below(5) {
            0 => {
                self.put("!");
                while self.random.one_in(3) {
                    self.put("!");
                }
                self.simple(ProgramType::Truth);
                self.pick(&["&&", "||", "==", "!="]);
                self.expression(ProgramType::Truth, depth);
            }
            1 => {
                self.expression(ProgramType::Truth, depth);
                self.pick(&["&&", "||"]);
                self.simple(ProgramType::Truth);
                self.pick(&["&&", "||"]);
                self.simple(ProgramType::Truth);
            }
            2 => {
                self.pick(&["'a'", "\"b\"", "'b c'"]);
                self.put("in");
                self.expression(ProgramType::Object, depth);
            }
            3 => {
                self.number(0);
                self.pick(COMPARISONS);
                self.number(0);
                if self.random.one_in(3) {
                    self.pick(&["==", "!=", "&&", "||"]);
                    self.simple(ProgramType::Truth);
                }
            }
            _ => {
                self.expression(ProgramType::Text, depth);
                self.pick(COMPARISONS);
                self.expression(ProgramType::Text, depth);
            }
        }
    }

    pub(super) fn written_text(&mut self, depth: usize) {
        match self.random.below(8) {
            0 | 1 => {
                self.simple(ProgramType::Text);
                self.put("+");
                self.expression(ProgramType::Text, depth);
            }
            2 => {
                self.pick(&["'%d'", "\"%s\"", "|||\n  %s\n|||", "@'%s'"]);
                self.put("%");
                self.pick(&["1", "2", "[3]", "~4", "-5"]);
                if self.random.one_in(2) {
                    self.put("+");
                    self.simple(ProgramType::Text);
                }
            }
            3 => self.sliced(ProgramType::Text, depth),
            4 => {
                self.put("importstr");
                self.pick(&["'three.txt'", "\"two.json\"", "'one.libsonnet'"]);
            }
            5 => {
                self.simple(ProgramType::Text);
                self.put("[");
                self.pick(&["0", "1", "~-1", "1-1"]);
                self.put("]");
            }
            _ => self.simple(ProgramType::Text),
        }
    }

    pub(super) fn sliced(&mut self, kind: ProgramType, depth: usize) {
        self.put("(");
        self.expression(kind, depth);
        self.put(")");
        self.put("[");
        if self.random.one_in(2) {
            self.pick(&["0", "1", "-1", "~1", "1+1"]);
        }
        match self.random.below(4) {
            0 => self.put("::"),
            1 => {
                self.put(":");
                self.put(":");
            }
            2 => self.put(":"),
            _ => {
                self.put(":");
                self.pick(&["1", "2", "-1", "~0"]);
                self.put(":");
            }
        }
        if self.random.one_in(2) {
            self.pick(&["1", "2", "3"]);
        }
        self.put("]");
    }

    pub(super) fn list(&mut self, depth: usize) {
        match self.random.below(6) {
            0 => self.sliced(ProgramType::List, depth),
            1 => {
                self.expression(ProgramType::List, depth);
                self.put("+");
                self.simple(ProgramType::List);
            }
            2 | 3 => self.comprehension(depth),
            4 => {
                self.put("(");
                self.put("import");
                self.pick(&["'two.json'", "\"two.json\""]);
                self.put(")");
            }
            _ => {
                self.put("[");
                let count = self.random.below(4);
                for index in 0..count {
                    let kind = self.kind();
                    self.expression(kind, depth);
                    if index + 1 < count {
                        self.put(",");
                    }
                }
                if count > 0 {
                    self.last_comma();
                }
                self.put("]");
            }
        }
    }

    /// Writes a comprehension over one to three lists, each of which comes from the one before.
    fn comprehension(&mut self, depth: usize) {
        let lists = [1, 1, 2, 3][self.random.below(4)];
        let known = self.names.len();
        let named = |at: usize, name: String| {
            let kind = if at + 1 == lists {
                ProgramType::Number
            } else {
                ProgramType::List
            };
            (format!("{name}{at}"), kind)
        };
        let names: Vec<_> = (0..lists).map(|at| named(at, self.name())).collect();
        self.put("[");
        self.names.extend(names.iter().cloned());
        match self.random.one_in(3) {
            true => {
                let name = self.random.below(lists);
                self.put(&names[name].0);
            }
            false => {
                let kind = self.kind();
                self.expression(kind, depth);
            }
        }
        self.last_comma();
        self.names.truncate(known);
        for (at, name) in names.iter().enumerate() {
            self.put("for");
            self.put(&name.0);
            self.put("in");
            match (at, lists) {
                (0, 1) => self.simple(ProgramType::List),
                (0, 2) => self.pick(&["[[1, 2], [3]]", "[[0.5], []]"]),
                (0, _) => self.pick(&["[[[1, 2], [3]], [[4]]]", "[[[]], [[0.1]]]"]),
                _ if self.random.one_in(6) => self.simple(ProgramType::List),
                _ => self.put(&names[at - 1].0),
            }
            self.names.push(name.clone());
            while self.random.one_in(3) {
                self.put("if");
                self.simple(ProgramType::Truth);
            }
        }
        self.names.truncate(known);
        self.put("]");
    }

    pub(super) fn with_local(&mut self, kind: ProgramType, depth: usize) {
        self.put("local");
        let known = self.names.len();
        for index in 0..1 + self.random.below(2) {
            if index > 0 {
                self.put(",");
            }
            let (name, of) = (format!("{}{index}", self.name()), self.kind());
            self.put(&name);
            self.put("=");
            self.expression(of, depth);
            self.names.push((name, of));
        }
        self.put(";");
        self.expression(kind, depth);
        self.names.truncate(known);
    }

    pub(super) fn conditional(&mut self, kind: ProgramType, depth: usize) {
        self.put("if");
        self.expression(ProgramType::Truth, depth);
        self.put("then");
        self.expression(kind, depth);
        self.put("else");
        self.expression(kind, depth);
    }

    pub(super) fn with_assert(&mut self, kind: ProgramType, depth: usize) {
        self.put("assert");
        self.put("true");
        if self.random.one_in(2) {
            self.put(":");
            self.simple(ProgramType::Text);
        }
        self.put(";");
        self.expression(kind, depth);
    }

    pub(super) fn call(&mut self, kind: ProgramType, depth: usize) {
        let of = self.kind();
        self.put("(");
        self.put("function");
        self.put("(");
        self.put("p");
        self.put(",");
        self.put("q");
        self.put("=");
        self.simple(of);
        self.last_comma();
        self.put(")");
        self.names.push(("q".to_owned(), of));
        self.expression(kind, depth);
        self.names.pop();
        self.put(")");
        self.put("(");
        let form = self.random.below(3);
        if form == 0 {
            self.put("p");
            self.put("=");
        }
        self.simple(of);
        if form == 1 {
            self.put(",");
            self.put("q");
            self.put("=");
            self.simple(of);
        }
        self.last_comma();
        self.put(")");
        if self.random.one_in(4) {
            self.put("tailstrict");
        }
    }

    /// Writes an index or field access.
    pub(super) fn picked(&mut self, kind: ProgramType, depth: usize) {
        match self.random.below(4) {
            0 => {
                self.put("[");
                self.expression(kind, depth);
                self.last_comma();
                self.put("]");
                self.put("[");
                self.pick(&["0", "-0", "~-1", "+0"]);
                self.put("]");
            }
            1 => {
                self.put("{");
                self.put("a");
                self.pick(COLONS);
                self.expression(kind, depth);
                self.put("}");
                self.put(".");
                self.put("a");
            }
            2 => {
                self.put("{");
                self.put("a");
                self.put(":");
                self.expression(kind, depth);
                self.put(",");
                self.put("}");
                self.put("[");
                self.pick(&["'a'", "\"a\"", "@'a'", "'\\u0061'", "|||-\n  a\n|||"]);
                self.put("]");
            }
            _ => {
                self.put("(");
                self.put("{");
                self.put("a");
                self.put("::");
                self.expression(kind, depth);
                self.put(",");
                self.put("b");
                self.put(":");
                self.put("self");
                self.put(".");
                self.put("a");
                self.put("}");
                self.put("{");
                self.put("b");
                self.put(":");
                self.put("super");
                self.pick(&[".b", "['b']", "[\"b\"]"]);
                self.put("}");
                self.put(")");
                self.put(".");
                self.put("b");
            }
        }
    }
}
