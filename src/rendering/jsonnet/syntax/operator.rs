//! The operators, their notation and their precedence.

/// An operator between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names describe the variants")]
pub enum BinaryOperator {
    Multiply,
    Divide,
    Modulo,
    Plus,
    Minus,
    ShiftLeft,
    ShiftRight,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    In,
    Equal,
    Unequal,
    BitAnd,
    BitXor,
    BitOr,
    And,
    Or,
}

impl BinaryOperator {
    const ALL: [(Self, &'static str, u8); 19] = [
        (Self::Multiply, "*", 5),
        (Self::Divide, "/", 5),
        (Self::Modulo, "%", 5),
        (Self::Plus, "+", 6),
        (Self::Minus, "-", 6),
        (Self::ShiftLeft, "<<", 7),
        (Self::ShiftRight, ">>", 7),
        (Self::Greater, ">", 8),
        (Self::GreaterOrEqual, ">=", 8),
        (Self::Less, "<", 8),
        (Self::LessOrEqual, "<=", 8),
        (Self::In, "in", 8),
        (Self::Equal, "==", 9),
        (Self::Unequal, "!=", 9),
        (Self::BitAnd, "&", 10),
        (Self::BitXor, "^", 11),
        (Self::BitOr, "|", 12),
        (Self::And, "&&", 13),
        (Self::Or, "||", 14),
    ];

    fn entry(self) -> (Self, &'static str, u8) {
        let [first, ..] = Self::ALL;
        Self::ALL.get(self as usize).copied().unwrap_or(first)
    }

    /// Returns the symbol as it is written.
    pub fn symbol(self) -> &'static str {
        self.entry().1
    }

    /// Returns the precedence of the operator; a lower value binds more tightly.
    pub(super) fn precedence(self) -> u8 {
        self.entry().2
    }

    pub(super) fn from_symbol(symbol: &str) -> Option<Self> {
        Some(match symbol.as_bytes() {
            b"*" => Self::Multiply,
            b"/" => Self::Divide,
            b"%" => Self::Modulo,
            b"+" => Self::Plus,
            b"-" => Self::Minus,
            b"<<" => Self::ShiftLeft,
            b">>" => Self::ShiftRight,
            b">" => Self::Greater,
            b">=" => Self::GreaterOrEqual,
            b"<" => Self::Less,
            b"<=" => Self::LessOrEqual,
            b"in" => Self::In,
            b"==" => Self::Equal,
            b"!=" => Self::Unequal,
            b"&" => Self::BitAnd,
            b"^" => Self::BitXor,
            b"|" => Self::BitOr,
            b"&&" => Self::And,
            b"||" => Self::Or,
            _ => return None,
        })
    }
}

/// An operator before its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names describe the variants")]
pub enum UnaryOperator {
    Not,
    BitNot,
    Plus,
    Minus,
}

impl UnaryOperator {
    /// Returns the symbol as it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Not => "!",
            Self::BitNot => "~",
            Self::Plus => "+",
            Self::Minus => "-",
        }
    }

    pub(super) fn from_symbol(symbol: &str) -> Option<Self> {
        [Self::Not, Self::BitNot, Self::Plus, Self::Minus]
            .into_iter()
            .find(|operator| operator.symbol() == symbol)
    }
}

#[cfg(test)]
mod tests {
    use super::BinaryOperator;

    #[test]
    fn an_operator_is_read_as_it_is_written() {
        for (operator, symbol, precedence) in BinaryOperator::ALL {
            assert_eq!(BinaryOperator::from_symbol(symbol), Some(operator));
            assert_eq!((operator.symbol(), operator.precedence()), (symbol, precedence));
        }
        assert_eq!(BinaryOperator::from_symbol("<=>"), None);
    }
}
