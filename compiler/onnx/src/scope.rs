//! Names and what they stand for, scope by scope.

use std::collections::HashMap;

use bytes::Bytes;
use oaaxc_ir::ValueId;

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Entry {
    /// A value of the graph.
    Value(ValueId),
    /// The result of a node that was refused: its users are not reported again.
    Poisoned,
    /// An optional input that a call of a function left out.
    Hole,
}

#[derive(Default)]
struct Scope {
    names: HashMap<Bytes, Entry>,
    /// A function's body does not see its caller's names.
    closed: bool,
}

/// The scopes from the outermost to the one at hand.
#[derive(Default)]
pub(crate) struct Scopes {
    stack: Vec<Scope>,
}

impl Scopes {
    /// Opens a scope; a closed one hides all names outside.
    pub fn open(&mut self, closed: bool) {
        self.stack.push(Scope { names: HashMap::new(), closed });
    }
    /// Closes the innermost scope.
    pub fn close(&mut self) {
        self.stack.pop();
    }
    /// What a name stands for, looking outward.
    pub fn find(&self, name: &[u8]) -> Option<Entry> {
        for scope in self.stack.iter().rev() {
            if let Some(entry) = scope.names.get(name) {
                return Some(*entry);
            }
            if scope.closed {
                return None;
            }
        }
        None
    }
    /// Gives a name a meaning in the innermost scope; `false` if it has one there already.
    pub fn define(&mut self, name: &Bytes, entry: Entry) -> bool {
        let scope = self.stack.last_mut().expect("a scope is open while names are defined");
        scope.names.insert(name.clone(), entry).is_none()
    }
    /// Every visible name.
    pub fn visible(&self) -> impl Iterator<Item = &[u8]> {
        let from = self.stack.iter().rposition(|s| s.closed).unwrap_or(0);
        self.stack[from..].iter().flat_map(|s| s.names.keys().map(|k| &k[..]))
    }
}
