//! Reads YAML documents to find secrets in them. The target of an alias is stored once. The depth and the number of
//! merged fields are limited.

use libyaml_safer::{Event, EventData, Parser};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Maximum nesting depth of a document.
const DEPTH_MAX: usize = 128;
/// Maximum number of merged fields in total.
const MERGES_MAX: usize = 200_000;

/// A node of a document. The target of an alias is shared.
pub(super) enum YamlNode {
    Scalar(String),
    Sequence(Vec<Rc<YamlNode>>),
    Mapping(Vec<(String, Rc<YamlNode>)>),
}

/// A node with its height, including aliases, which is the recursion depth of a walk.
#[derive(Clone)]
struct NodeHeight {
    node: Rc<YamlNode>,
    height: usize,
}

struct Reader<'a, 'b> {
    parser: Parser<&'a mut &'b [u8]>,
    anchors: HashMap<String, NodeHeight>,
    /// The remaining number of fields that may be merged. A repeated merge counts each time.
    merges: usize,
}

/// Returns every document, or `None` if the text is not valid YAML.
pub(super) fn documents(text: &str) -> Option<Vec<Rc<YamlNode>>> {
    let mut input = text.as_bytes();
    let mut parser = Parser::new();
    parser.set_input_string(&mut input);
    let mut reader = Reader {
        parser,
        anchors: HashMap::new(),
        merges: MERGES_MAX,
    };
    let mut documents = Vec::new();
    loop {
        match reader.event()?.data {
            EventData::StreamEnd => return Some(documents),
            EventData::DocumentStart { .. } => {
                reader.anchors.clear();
                let root = reader.event()?.data;
                documents.push(reader.node(root, 0)?.node);
            }
            _ => {}
        }
    }
}

impl Reader<'_, '_> {
    /// Returns the next event. The parser panics on some invalid texts, so panics are caught.
    fn event(&mut self) -> Option<Event> {
        catch_unwind(AssertUnwindSafe(|| self.parser.parse())).ok()?.ok()
    }

    fn node(&mut self, event: EventData, depth: usize) -> Option<NodeHeight> {
        let (anchor, (node, inner)) = match event {
            EventData::Alias { anchor } => {
                let known = self.anchors.get(&anchor).cloned();
                return known.filter(|known| depth + known.height <= DEPTH_MAX);
            }
            _ if depth >= DEPTH_MAX => return None,
            EventData::Scalar { anchor, value, .. } => (anchor, (YamlNode::Scalar(value), 0)),
            EventData::SequenceStart { anchor, .. } => (anchor, self.sequence(depth)?),
            EventData::MappingStart { anchor, .. } => (anchor, self.mapping(depth)?),
            _ => return None,
        };
        let placed = NodeHeight {
            node: Rc::new(node),
            height: inner + 1,
        };
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, placed.clone());
        }
        Some(placed)
    }

    fn sequence(&mut self, depth: usize) -> Option<(YamlNode, usize)> {
        let (mut items, mut height) = (Vec::new(), 0);
        loop {
            match self.event()?.data {
                EventData::SequenceEnd => return Some((YamlNode::Sequence(items), height)),
                event => {
                    let item = self.node(event, depth + 1)?;
                    height = height.max(item.height);
                    items.push(item.node);
                }
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Option<(YamlNode, usize)> {
        let (mut fields, mut height) = (Vec::new(), 0);
        loop {
            let event = self.event()?.data;
            if event == EventData::MappingEnd {
                return Some((YamlNode::Mapping(fields), height));
            }
            let key = self.node(event, depth + 1)?.node;
            let event = self.event()?.data;
            let NodeHeight {
                node: field,
                height: of_field,
            } = self.node(event, depth + 1)?;
            height = height.max(of_field);
            match key.as_ref() {
                // A merge key adds the fields of the merged mapping.
                YamlNode::Scalar(name) if name == "<<" => self.merge(&mut fields, &field)?,
                YamlNode::Scalar(name) => fields.push((name.clone(), field)),
                YamlNode::Sequence(_) | YamlNode::Mapping(_) => {}
            }
        }
    }

    fn merge(&mut self, fields: &mut Vec<(String, Rc<YamlNode>)>, merged: &YamlNode) -> Option<()> {
        match merged {
            YamlNode::Mapping(more) => {
                self.merges = self.merges.checked_sub(more.len())?;
                fields.extend(more.iter().cloned());
            }
            YamlNode::Sequence(all) => {
                for one in all {
                    self.merges = self.merges.checked_sub(1)?;
                    self.merge(fields, one)?;
                }
            }
            YamlNode::Scalar(_) => {}
        }
        Some(())
    }
}
