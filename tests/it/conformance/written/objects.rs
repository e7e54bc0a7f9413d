//! Objects: fields of every kind, locals, assertions, comprehensions, extended objects.

use super::{ProgramType, TokenWriter};

impl TokenWriter {
    pub(super) fn object_like(&mut self, depth: usize) {
        match self.random.below(6) {
            0 => {
                self.object(depth);
                if self.random.one_in(2) {
                    self.put("+");
                }
                self.object(depth);
            }
            1 => {
                self.put("{");
                self.put("[");
                let name = self.name();
                self.put("'k'");
                self.put("+");
                self.put(&name);
                self.put("]");
                self.pick(&[":", ":", "::", ":::", "+:"]);
                self.names.push((name.clone(), ProgramType::Number));
                self.expression(ProgramType::Number, depth);
                self.names.pop();
                self.last_comma();
                if self.random.one_in(6) {
                    self.put("local");
                    self.put("l");
                    self.put("=");
                    self.put("1");
                }
                self.put("for");
                self.put(&name);
                self.put("in");
                self.simple(ProgramType::List);
                self.put("}");
            }
            _ => self.object(depth),
        }
    }

    pub(super) fn object(&mut self, depth: usize) {
        self.put("{");
        self.inside += 1;
        let known = self.names.len();
        let count = self.random.below(5);
        for index in 0..count {
            self.field(depth, index);
            if index + 1 < count {
                self.put(",");
            }
        }
        if count > 0 {
            self.last_comma();
        }
        self.names.truncate(known);
        self.inside -= 1;
        self.put("}");
    }

    pub(super) fn field(&mut self, depth: usize, index: usize) {
        let kind = self.kind();
        match self.random.below(12) {
            0 => {
                let name = self.name();
                self.put("local");
                self.put(&name);
                self.put("=");
                self.expression(kind, depth);
                return self.names.push((name, kind));
            }
            1 => {
                self.put("assert");
                self.put("true");
                if self.random.one_in(2) {
                    self.put(":");
                    self.simple(ProgramType::Text);
                }
                return;
            }
            2 => {
                self.put("[");
                self.simple(ProgramType::Text);
                self.put("]");
            }
            3 => {
                self.put(&format!("m{index}"));
                self.put("(");
                self.put("x");
                if self.random.one_in(2) {
                    self.put("=");
                    self.simple(kind);
                }
                self.last_comma();
                self.put(")");
                self.put("::");
                return self.expression(kind, depth);
            }
            4 => {
                self.put("[");
                self.put("null");
                self.put("]");
            }
            5 | 6 => {
                let name = self.random.pick(&[
                    "'q q'",
                    "\"q\"",
                    "@'v'",
                    "|||\n  block\n|||",
                    "'\\u0061b'",
                    "'\\/'",
                ]);
                self.put(name);
            }
            _ => {
                let name = self
                    .random
                    .pick(&["a", "b", "c", "_x", "a1", "importx", "selfish", "format"]);
                self.put(name);
            }
        }
        self.pick(&[":", ":", ":", ":", "::", ":::", "+:", "+::", "+:::"]);
        match self.random.below(8) {
            0 => {
                self.pick(&["self", "$"]);
                self.put(".");
                self.pick(&["a", "b", "c"]);
            }
            1 => {
                self.pick(&["'a'", "'b'"]);
                self.put("in");
                self.pick(&["super", "self", "$", "super"]);
            }
            2 => {
                self.put("super");
                self.put(".");
                self.pick(&["a", "b"]);
            }
            _ => self.expression(kind, depth),
        }
    }
}
