//! Functions of the standard library whose arguments and results are certain. Other functions are not checked, since
//! libraries differ between versions and engines.

use super::kinds::Kinds;

#[derive(Debug, PartialEq)]
pub(super) struct StandardFunction {
    /// The minimum number of arguments.
    pub(super) arguments_min: usize,
    /// The maximum number of arguments.
    pub(super) arguments_max: usize,
    /// The kinds of the value it returns.
    pub(super) result: Kinds,
    /// The kinds of the items, if it returns an array.
    pub(super) items: Kinds,
}

/// Names by result and number of arguments.
const FUNCTIONS: [(Kinds, usize, usize, &[&str]); 18] = [
    (
        Kinds::BOOLEAN,
        1,
        1,
        &[
            "isArray",
            "isBoolean",
            "isFunction",
            "isNumber",
            "isObject",
            "isString",
            "isEven",
            "isOdd",
            "isInteger",
            "isDecimal",
        ],
    ),
    (
        Kinds::BOOLEAN,
        2,
        2,
        &[
            "objectHas",
            "objectHasAll",
            "startsWith",
            "endsWith",
            "member",
            "equalsIgnoreCase",
            "assertEqual",
        ],
    ),
    (
        Kinds::NUMBER,
        1,
        1,
        &[
            "length",
            "abs",
            "sign",
            "exp",
            "log",
            "exponent",
            "mantissa",
            "floor",
            "ceil",
            "sqrt",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "codepoint",
            "parseInt",
            "parseOctal",
            "parseHex",
        ],
    ),
    (Kinds::NUMBER, 2, 2, &["max", "min", "pow", "modulo", "count"]),
    (Kinds::NUMBER, 3, 3, &["clamp"]),
    (
        Kinds::TEXT,
        1,
        1,
        &[
            "type",
            "toString",
            "char",
            "asciiUpper",
            "asciiLower",
            "escapeStringBash",
            "escapeStringDollars",
            "escapeStringJson",
            "escapeStringPython",
            "decodeUTF8",
            "manifestIni",
            "manifestPython",
            "manifestPythonVars",
            "manifestJson",
            "manifestJsonMinified",
            "manifestXmlJsonml",
            "base64",
            "base64Decode",
            "md5",
            "lines",
            "trim",
        ],
    ),
    (
        Kinds::TEXT,
        2,
        2,
        &[
            "stripChars",
            "lstripChars",
            "rstripChars",
            "format",
            "manifestTomlEx",
        ],
    ),
    (Kinds::TEXT, 3, 3, &["substr", "strReplace"]),
    (Kinds::TEXT, 1, 3, &["manifestYamlDoc"]),
    (Kinds::TEXT, 2, 4, &["manifestJsonEx"]),
    (
        Kinds::ARRAY,
        1,
        1,
        &[
            "objectFields",
            "objectFieldsAll",
            "objectValues",
            "objectValuesAll",
            "stringChars",
            "encodeUTF8",
            "flattenArrays",
            "reverse",
            "base64DecodeBytes",
        ],
    ),
    (
        Kinds::ARRAY,
        2,
        2,
        &[
            "makeArray",
            "split",
            "findSubstr",
            "find",
            "filter",
            "range",
            "mapWithIndex",
        ],
    ),
    (Kinds::ARRAY, 3, 3, &["splitLimit", "filterMap"]),
    (Kinds::ARRAY, 1, 2, &["sort", "uniq", "set"]),
    (Kinds::ARRAY, 2, 3, &["setInter", "setUnion", "setDiff"]),
    (Kinds::OBJECT, 2, 2, &["mapWithKey"]),
    (
        Kinds::ANY,
        1,
        1,
        &["extVar", "parseJson", "parseYaml", "prune", "native"],
    ),
    (Kinds::ANY, 3, 3, &["foldl", "foldr"]),
];

/// Functions that return arrays of one kind.
const ITEMS: [(Kinds, &[&str]); 2] = [
    (
        Kinds::TEXT,
        &[
            "objectFields",
            "objectFieldsAll",
            "stringChars",
            "split",
            "splitLimit",
        ],
    ),
    (
        Kinds::NUMBER,
        &["range", "encodeUTF8", "base64DecodeBytes", "find", "findSubstr"],
    ),
];

/// Returns the known facts about a function of the standard library.
pub(super) fn function(name: &str) -> Option<StandardFunction> {
    let (gives, arguments_min, arguments_max, _) =
        FUNCTIONS.iter().find(|(.., names)| names.contains(&name))?;
    let (gives, arguments_min, arguments_max) = (*gives, *arguments_min, *arguments_max);
    let items = ITEMS.iter().find(|(_, names)| names.contains(&name));
    Some(StandardFunction {
        arguments_min,
        arguments_max,
        result: gives,
        items: items.map_or(Kinds::ANY, |(items, _)| *items),
    })
}
