//! The documentation of each function of the generated library. It is as long and repetitive as real generated
//! documentation, and a field has the same text wherever its kind occurs.

use super::kinds::{FieldShape, KindField};

/// The sentences that may follow the first.
const MORE: &[&str] = &[
    "It may not be changed once the object has been created.",
    "When it is not given, the cluster decides for you, and what it decides may differ between versions.",
    "Leave it empty unless you know that a controller of yours looks at it.",
    "Values that the server does not know are refused at admission, not when the object is used.",
    "It is only looked at while the object is being scheduled, and is ignored ever after.",
    "Controllers write it as well, so what you set here may come back in another order.",
    "It has to be the same in every replica; a rollout begins when it is not.",
    "Deprecated since the interface became stable: it is kept so that older objects can still be read.",
    "Counted from the moment at which the object was accepted, in seconds, by the clock of the server.",
    "More about it is in the conventions of the interface, in the section about what objects have in common.",
    "Names are lower case letters, digits and dashes, begin and end with a letter or a digit, and have at most 63 of them.",
];
/// The number of sentences that follow, by the name of the field: most have one or two, some have many.
const COUNTS: &[usize] = &[0, 1, 2, 2, 3, 5, 6];

/// Returns the text about a field.
pub(super) fn help(field: &KindField, above: &[&str]) -> String {
    let name = field.name;
    let owner = above.last().copied().unwrap_or("object");
    let mut text = match field.shape {
        FieldShape::Text => format!("The {name} of the {owner}, as a text."),
        FieldShape::Number => format!("How much {name} the {owner} has, as a whole number."),
        FieldShape::Boolean => format!("Whether {name} holds for the {owner}."),
        FieldShape::List => format!("The {name} of the {owner}, in the order in which they are looked at."),
        FieldShape::Map => format!("The {name} of the {owner}, by key. Keys are unique within it."),
        FieldShape::Object(_) => format!("What the {name} of the {owner} are made of."),
    };
    let seed = seed([owner, name]);
    let more = MORE.iter().cycle().skip(seed % MORE.len());
    for sentence in more.step_by(1 + seed % 3).take(COUNTS[seed % COUNTS.len()]) {
        text.push(' ');
        text.push_str(sentence);
    }
    text
}

/// Returns a number that is the same for the same words in every run.
fn seed(words: [&str; 2]) -> usize {
    let bytes = words.into_iter().flat_map(str::bytes);
    bytes.fold(7, |seed, byte| (seed * 31 + usize::from(byte)) % 1_000_003)
}
