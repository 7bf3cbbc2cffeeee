//! The JSON Pointers (RFC 6901) of one stream as a trie, so that a payload is
//! walked once, whatever the number of fields.

use crate::model::ids::FieldIx;

/// A place in the trie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeIx(usize);

/// Where each pointer ends, by the path to it.
#[derive(Clone, Debug)]
pub(super) struct PointerTrie {
    nodes: Vec<Node>,
}

/// Something that a pointer leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    /// A field, and how many of its pointers go before this one.
    Field(FieldIx, u8),
    /// A candidate for the time.
    Time(u8),
    /// A text for templates.
    Text(u8),
    /// Every number below counts.
    All,
    /// Nothing below does.
    Except,
}

/// What is wanted at a place, and below it.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// What ends here; usually one.
    pub(super) here: Vec<Goal>,
    /// What ends here or further down.
    pub(super) below: Vec<Goal>,
    edges: Vec<Edge>,
}

#[derive(Clone, Debug)]
struct Edge {
    token: Box<str>,
    /// `*` of `fields_except`.
    any: bool,
    to: NodeIx,
}

impl PointerTrie {
    /// The place of the whole record.
    pub(super) const ROOT: NodeIx = NodeIx(0);

    /// Of pointers that were checked by [`check_pointer`]; the empty one is the record.
    pub(super) fn new<'s>(pointers: impl Iterator<Item = (&'s str, Goal)>) -> PointerTrie {
        let mut trie = PointerTrie { nodes: vec![Node::default()] };
        for (pointer, goal) in pointers {
            let node = trie.insert(pointer, goal);
            trie.nodes[node.0].here.push(goal);
        }
        trie
    }

    fn insert(&mut self, pointer: &str, goal: Goal) -> NodeIx {
        let mut at = Self::ROOT;
        self.nodes[at.0].below.push(goal);
        for token in pointer.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            let known = self.nodes[at.0].edges.iter().find(|edge| *edge.token == *token).map(|edge| edge.to);
            at = known.unwrap_or_else(|| self.grow(at, &token, goal == Goal::Except && token == "*"));
            self.nodes[at.0].below.push(goal);
        }
        at
    }

    fn grow(&mut self, at: NodeIx, token: &str, any: bool) -> NodeIx {
        let to = NodeIx(self.nodes.len());
        self.nodes[at.0].edges.push(Edge { token: token.into(), any, to });
        self.nodes.push(Node::default());
        to
    }

    /// How many places there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// What is wanted at `at`.
    pub(super) fn node(&self, at: NodeIx) -> &Node {
        &self.nodes[at.0]
    }

    /// A number for the place, below [`PointerTrie::len`].
    pub(super) fn place(at: NodeIx) -> usize {
        at.0
    }

    /// The place under `at` for an object's key or an array's index. `expect` is the edge to
    /// try first: payloads repeat their keys in the same order.
    pub(super) fn child(&self, at: NodeIx, key: &str, expect: &mut usize) -> Option<NodeIx> {
        let edges = &self.nodes[at.0].edges;
        let (before, from) = edges.split_at((*expect).min(edges.len()));
        let Some((skipped, edge)) = from.iter().chain(before).enumerate().find(|(_, edge)| *edge.token == *key) else {
            // What is not to count may stand under any key.
            return edges.iter().find(|edge| edge.any).map(|edge| edge.to);
        };
        *expect = (*expect + skipped + 1) % edges.len();
        Some(edge.to)
    }
}

/// What keeps `pointer` from being the JSON Pointer of a field; `None` when
/// nothing does.
pub fn check_pointer(pointer: &str) -> Option<&'static str> {
    if !pointer.starts_with('/') {
        return Some("a JSON Pointer starts with `/`");
    }
    let mut rest = pointer;
    while let Some(at) = rest.find('~') {
        rest = &rest[at + 1..];
        if !rest.starts_with(['0', '1']) {
            return Some("in a JSON Pointer `~` is written `~0`, and `/` inside a name `~1`");
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(trie: &PointerTrie, keys: &[&str]) -> Option<Vec<Goal>> {
        let mut at = PointerTrie::ROOT;
        for key in keys {
            at = trie.child(at, key, &mut 7)?;
        }
        Some(trie.node(at).here.clone())
    }

    #[test]
    fn pointers_share_their_beginnings_and_know_their_escapes() {
        let field = |index| Goal::Field(FieldIx(index), 0);
        let pointers = [
            ("/a/b", field(0)),
            ("/a/c~1d~0", field(1)),
            ("/a/b", field(2)),
            ("/x/0", field(3)),
            ("/a/t", Goal::Time(0)),
            ("", Goal::All),
        ];
        let trie = PointerTrie::new(pointers.into_iter());
        assert_eq!(find(&trie, &["a", "b"]), Some(vec![field(0), field(2)]));
        assert_eq!(find(&trie, &["a", "c/d~"]), Some(vec![field(1)]));
        assert_eq!(find(&trie, &["x", "0"]), Some(vec![field(3)]));
        assert_eq!(find(&trie, &["x", "00"]), None);
        assert_eq!(find(&trie, &["b"]), None);
        assert_eq!(find(&trie, &[]), Some(vec![Goal::All]));
        let a = trie.child(PointerTrie::ROOT, "a", &mut 0).expect("there");
        assert_eq!(trie.node(a).below, [field(0), field(1), field(2), Goal::Time(0)]);
        assert!(trie.node(a).here.is_empty());
    }
}
