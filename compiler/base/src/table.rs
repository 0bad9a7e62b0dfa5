//! Dense typed ids and the tables that own what they name.
//!
//! `Table<K, V>` owns values and hands out ids in order; `SideTable` annotates them.
//! Ids are never reused, so a stale id is a bug that shows, not another entity.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A dense typed id. Made by [`id!`](crate::id).
pub trait EntityId: Copy + Eq {
    /// The id with this index.
    fn from_index(index: usize) -> Self;
    /// The position in its table.
    fn index(self) -> usize;
}

/// Declares an id type that prints as its prefix and number: `id!(ValueId, "v")` prints `v7`.
#[macro_export]
macro_rules! id {
    ($(#[$meta:meta])* $name:ident, $prefix:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
        impl $crate::EntityId for $name {
            fn from_index(index: usize) -> Self {
                $name(u32::try_from(index).expect("a table holds fewer than 2^32 entries"))
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

/// Owns entities of one kind, in the order they were made.
#[derive(Clone)]
pub struct Table<K, V> {
    items: Vec<V>,
    key: PhantomData<K>,
}

impl<K: EntityId, V> Table<K, V> {
    /// An empty table.
    pub fn new() -> Self {
        Table { items: Vec::new(), key: PhantomData }
    }
    /// Adds an entity and names it.
    pub fn push(&mut self, value: V) -> K {
        let id = K::from_index(self.items.len());
        self.items.push(value);
        id
    }
    /// The id that the next `push` returns.
    pub fn next_id(&self) -> K {
        K::from_index(self.items.len())
    }
    /// How many entities there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// All ids with their entities, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> {
        self.items.iter().enumerate().map(|(i, v)| (K::from_index(i), v))
    }
    /// All ids with their entities, mutable, in order.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (K, &mut V)> {
        self.items.iter_mut().enumerate().map(|(i, v)| (K::from_index(i), v))
    }
    /// All ids, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = K> + use<K, V> {
        (0..self.items.len()).map(K::from_index)
    }
    /// The entities, in order.
    pub fn values(&self) -> std::slice::Iter<'_, V> {
        self.items.iter()
    }
    /// The entity with this id, where there is one.
    pub fn get(&self, id: K) -> Option<&V> {
        self.items.get(id.index())
    }
}

impl<K: EntityId, V> Default for Table<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: EntityId, V> Index<K> for Table<K, V> {
    type Output = V;
    fn index(&self, id: K) -> &V {
        &self.items[id.index()]
    }
}

impl<K: EntityId, V> IndexMut<K> for Table<K, V> {
    fn index_mut(&mut self, id: K) -> &mut V {
        &mut self.items[id.index()]
    }
}

impl<K: EntityId + fmt::Debug, V: fmt::Debug> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// A note per entity of some table; entities without one read the default.
#[derive(Clone, Debug)]
pub struct SideTable<K, V> {
    items: Vec<V>,
    default: V,
    key: PhantomData<K>,
}

impl<K: EntityId, V: Clone> SideTable<K, V> {
    /// A side table in which every entity reads `default`.
    pub fn new(default: V) -> Self {
        SideTable { items: Vec::new(), default, key: PhantomData }
    }
    /// Sets the note of one entity.
    pub fn set(&mut self, id: K, value: V) {
        *self.get_mut(id) = value;
    }
    /// The note of one entity, to change in place.
    pub fn get_mut(&mut self, id: K) -> &mut V {
        if self.items.len() <= id.index() {
            self.items.resize(id.index() + 1, self.default.clone());
        }
        &mut self.items[id.index()]
    }
}

impl<K: EntityId, V> Index<K> for SideTable<K, V> {
    type Output = V;
    fn index(&self, id: K) -> &V {
        self.items.get(id.index()).unwrap_or(&self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    crate::id!(ThingId, "t");

    #[test]
    fn ids_print_with_their_prefix_and_index_their_table() {
        let mut things: Table<ThingId, &str> = Table::new();
        let a = things.push("a");
        let b = things.push("b");
        assert_eq!((a.to_string(), things[b]), ("t0".to_string(), "b"));
    }

    #[test]
    fn a_side_table_reads_its_default() {
        let mut notes: SideTable<ThingId, u32> = SideTable::new(7);
        notes.set(ThingId(3), 1);
        assert_eq!((notes[ThingId(0)], notes[ThingId(3)], notes[ThingId(9)]), (7, 1, 7));
    }
}
