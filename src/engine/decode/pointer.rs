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

/// What is wanted at a place, and below it.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Fields whose pointer ends here; usually one.
    pub(super) fields: Vec<FieldIx>,
    /// The time's pointer ends here.
    pub(super) time: bool,
    /// Fields whose pointer ends here or further down.
    pub(super) fields_below: Vec<FieldIx>,
    /// The time's pointer ends here or further down.
    pub(super) time_below: bool,
    edges: Vec<Edge>,
}

#[derive(Clone, Debug)]
struct Edge {
    token: Box<str>,
    /// The token read as an array index.
    index: Option<usize>,
    to: NodeIx,
}

impl PointerTrie {
    /// The place of the whole record.
    pub(super) const ROOT: NodeIx = NodeIx(0);

    /// Of the pointers of the fields, in the order of the field table, and of
    /// the time. Pointers were checked by [`check_pointer`].
    pub(super) fn new<'s>(fields: impl Iterator<Item = &'s str>, time: Option<&str>) -> PointerTrie {
        let mut trie = PointerTrie { nodes: vec![Node::default()] };
        for (index, pointer) in fields.enumerate() {
            let field = FieldIx(u16::try_from(index).expect("FIELDS_MAX fits 16 bits"));
            let node = trie.insert(pointer, |node| node.fields_below.push(field));
            trie.nodes[node.0].fields.push(field);
        }
        if let Some(pointer) = time {
            let node = trie.insert(pointer, |node| node.time_below = true);
            trie.nodes[node.0].time = true;
        }
        trie
    }

    fn insert(&mut self, pointer: &str, mut visit: impl FnMut(&mut Node)) -> NodeIx {
        let mut at = Self::ROOT;
        visit(&mut self.nodes[at.0]);
        for token in pointer.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            let known = self.nodes[at.0].edges.iter().find(|edge| *edge.token == *token).map(|edge| edge.to);
            at = known.unwrap_or_else(|| self.grow(at, &token));
            visit(&mut self.nodes[at.0]);
        }
        at
    }

    fn grow(&mut self, at: NodeIx, token: &str) -> NodeIx {
        let to = NodeIx(self.nodes.len());
        self.nodes[at.0].edges.push(Edge { token: token.into(), index: read_index(token), to });
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

    /// The place under `at` for an object's key. `expect` is the edge to try
    /// first: payloads repeat their keys in the same order.
    pub(super) fn child_by_key(&self, at: NodeIx, key: &str, expect: &mut usize) -> Option<NodeIx> {
        let edges = &self.nodes[at.0].edges;
        let (before, from) = edges.split_at((*expect).min(edges.len()));
        let (skipped, edge) = from.iter().chain(before).enumerate().find(|(_, edge)| *edge.token == *key)?;
        *expect = (*expect + skipped + 1) % edges.len();
        Some(edge.to)
    }

    /// The place under `at` for an array's item.
    pub(super) fn child_by_index(&self, at: NodeIx, index: usize) -> Option<NodeIx> {
        self.nodes[at.0].edges.iter().find(|edge| edge.index == Some(index)).map(|edge| edge.to)
    }
}

impl Node {
    /// Whether a pointer goes on from here.
    pub(super) fn goes_on(&self) -> bool {
        !self.edges.is_empty()
    }
}

/// RFC 6901: `0`, or digits that do not start with a zero.
fn read_index(token: &str) -> Option<usize> {
    let canonical = token == "0" || !token.starts_with('0');
    let digits = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit());
    if canonical && digits { token.parse().ok() } else { None }
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

    fn find(trie: &PointerTrie, keys: &[&str]) -> Option<Vec<FieldIx>> {
        let mut at = PointerTrie::ROOT;
        for key in keys {
            at = trie.child_by_key(at, key, &mut 7)?;
        }
        Some(trie.node(at).fields.clone())
    }

    #[test]
    fn pointers_share_their_beginnings_and_know_their_escapes() {
        let trie = PointerTrie::new(["/a/b", "/a/c~1d~0", "/a/b", "/x/0"].into_iter(), Some("/a/t"));
        assert_eq!(find(&trie, &["a", "b"]), Some(vec![FieldIx(0), FieldIx(2)]));
        assert_eq!(find(&trie, &["a", "c/d~"]), Some(vec![FieldIx(1)]));
        assert_eq!(find(&trie, &["b"]), None);
        let a = trie.child_by_key(PointerTrie::ROOT, "a", &mut 0).expect("there");
        assert!(trie.node(a).time_below && !trie.node(a).time && trie.node(a).goes_on());
        assert_eq!(trie.node(a).fields_below, [FieldIx(0), FieldIx(1), FieldIx(2)]);
        let x = trie.child_by_key(PointerTrie::ROOT, "x", &mut 1).expect("there");
        assert!(trie.child_by_index(x, 0).is_some() && trie.child_by_index(x, 1).is_none());
    }

    #[test]
    fn an_array_index_has_no_leading_zero() {
        for (token, index) in [("0", Some(0)), ("10", Some(10)), ("01", None), ("-", None), ("", None), ("+1", None)] {
            assert_eq!(read_index(token), index, "{token}");
        }
    }
}
