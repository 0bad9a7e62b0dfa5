//! Rewrite rules of the graph: pairs of graphs in ONNX text, in the books beside this file.
//!
//! Each rule says what is looked for, under which conditions, what takes its place, and on which
//! graphs that is tried: a test evaluates both sides of every trial and compares the numbers.
//! The engine names no operator; all that rules know of operators stands in the books.
//! `docs/rules.md` explains the language.

mod functions;
mod matching;
mod rewrite;
pub mod text;
#[cfg(test)]
mod trial;

use std::collections::BTreeMap;

use oaaxc_ir::Graph;

pub use rewrite::Lookup;
use text::Book;

/// The books in the order in which their rules are tried.
const BOOKS: &[(&str, &str)] = &[
    ("elementwise", include_str!("elementwise.rules")),
    ("movement", include_str!("movement.rules")),
    ("casts", include_str!("casts.rules")),
    ("convolution", include_str!("convolution.rules")),
];

/// Most walks over the graph. Every rewrite makes the graph cheaper, so the end comes by itself; this is the guard.
const ROUNDS: usize = 64;

/// Applies all rules until none fits; how often each did, by name.
pub fn rules(graph: &mut Graph, lookup: &Lookup) -> BTreeMap<String, usize> {
    apply(graph, &book(), lookup)
}

/// All rules.
fn book() -> Book {
    let mut all = Book::default();
    for (name, text) in BOOKS {
        let book =
            text::book(text).unwrap_or_else(|error| panic!("{name}.rules, which a test reads, is wrong: {}", error.message));
        all.rules.extend(book.rules);
        all.commutative.extend(book.commutative);
        all.costs.extend(book.costs);
    }
    all
}

fn apply(graph: &mut Graph, book: &Book, lookup: &Lookup) -> BTreeMap<String, usize> {
    let mut applied = BTreeMap::new();
    for _ in 0..ROUNDS {
        let mut changed = false;
        let mut uses = matching::Uses::of(graph);
        for id in graph.listed_nodes() {
            for rule in &book.rules {
                // A node that an earlier rewrite took out of its block has none.
                if uses.block[id].is_none() {
                    break;
                }
                let Some(found) = matching::find(graph, &uses, book, rule, id) else { continue };
                if rewrite::rewrite(graph, &uses, book, rule, &found, lookup) {
                    *applied.entry(rule.name.clone()).or_insert(0) += 1;
                    uses = matching::Uses::of(graph);
                    changed = true;
                    break;
                }
            }
        }
        if !changed {
            break;
        }
    }
    applied
}
