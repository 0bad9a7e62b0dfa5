//! Reads rules: pairs of graphs in ONNX text with conditions and trials.
//!
//! A rule that does not parse is a bug of ours: the books are part of the compiler, and a test reads them all.

use std::collections::{BTreeMap, BTreeSet};

use oaaxc_ir::text::cursor::{Cursor, Number, Result};
use oaaxc_ir::{Attribute, DType};

/// Rules in the order in which they are tried, and what they say of operators.
#[derive(Debug, Default)]
pub struct Book {
    /// In the order of the text.
    pub rules: Vec<Rule>,
    /// Operators whose two operands match either way round.
    pub commutative: BTreeSet<String>,
    /// What an operator costs, where that is not `COST`.
    pub costs: BTreeMap<String, usize>,
}

/// What a node costs that no `cost` line names. Every rewrite makes the sum of costs smaller.
pub const COST: usize = 2;

/// One rule: a graph that is looked for, and what takes its place.
#[derive(Debug)]
pub struct Rule {
    /// Its name, unique.
    pub name: String,
    /// The values that go in.
    pub parameters: Vec<String>,
    /// The value that comes out: the last node's.
    pub result: String,
    /// In topological order; each has one result.
    pub pattern: Vec<TextNode>,
    /// All must hold.
    pub conditions: Vec<Term>,
    /// What takes the pattern's place.
    pub becomes: Replacement,
    /// How far the numbers may move, relative to 1 or to the number; 0 where they must not move at all.
    pub within: f64,
    /// Graphs to try it on.
    pub trials: Vec<Trial>,
}

/// What takes the place of a pattern.
#[derive(Debug)]
pub enum Replacement {
    /// One of the parameters.
    Value(String),
    /// New constants and nodes.
    Nodes {
        /// Their types, names and elements.
        constants: Vec<TextConstant>,
        /// The last one computes the result.
        nodes: Vec<TextNode>,
    },
}

/// A constant of a replacement.
#[derive(Debug)]
pub struct TextConstant {
    /// Element type.
    pub dtype: DType,
    /// Dims.
    pub dims: Vec<usize>,
    /// Name.
    pub name: String,
    /// Elements: numbers or attributes.
    pub elements: Vec<Term>,
}

/// A node of either side.
#[derive(Debug)]
pub struct TextNode {
    /// The name of its result.
    pub output: String,
    /// Its operator's domain; `""` is ai.onnx.
    pub domain: String,
    /// Its operator.
    pub operator: String,
    /// Attributes by name. A pattern must name all that a node has, unless `rest` takes the others.
    pub attributes: Vec<(String, TextAttribute)>,
    /// `@name`: all other attributes.
    pub rest: Option<String>,
    /// Operands; `None` where there must be none.
    pub inputs: Vec<Option<String>>,
    /// `...`: the pattern does not look at further operands.
    pub open: bool,
}

/// What stands behind an attribute's name.
#[derive(Debug)]
pub enum TextAttribute {
    /// Exactly this.
    Literal(Attribute),
    /// `@name ? default`: in a pattern it binds the name; elsewhere it is a term.
    Term(Term, Option<Attribute>),
}

/// A condition, or the value of an attribute or an element.
#[derive(Clone, Debug)]
pub enum Term {
    /// A value of the graph.
    Value(String),
    /// `@name`: an attribute.
    Attribute(String),
    /// A number.
    Number(Number),
    /// A function of `functions.rs`.
    Call(String, Vec<Term>),
}

/// A graph to try a rule on.
#[derive(Debug)]
pub struct Trial {
    /// Whether the rule must apply, or must not.
    pub applies: bool,
    /// The parameters in order; those that are missing are left out.
    pub parameters: Vec<Sample>,
    /// Attributes by the names that the pattern gives them.
    pub attributes: BTreeMap<String, Attribute>,
    /// Further attributes, by the names of a pattern's rests.
    pub rests: BTreeMap<String, BTreeMap<String, Attribute>>,
}

/// A parameter of a trial.
#[derive(Debug)]
pub struct Sample {
    /// Its name in the rule.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Sizes: numbers or names.
    pub dims: Vec<std::result::Result<i64, String>>,
    /// `None` for an input, no elements for a constant of random numbers, else the constant's elements.
    pub constant: Option<Vec<Number>>,
}

/// Reads a book.
pub fn book(text: &str) -> Result<Book> {
    let mut c = Cursor::new(text);
    let mut book = Book::default();
    while !c.is_done() {
        match word(&mut c)?.as_str() {
            "commutative" => {
                book.commutative.insert(word(&mut c)?);
                while c.take(",") {
                    book.commutative.insert(word(&mut c)?);
                }
            }
            "cost" => {
                let operator = word(&mut c)?;
                c.expect("=")?;
                let cost = c.int()?;
                book.costs.insert(operator, usize::try_from(cost).map_err(|_| c.error("a cost is positive"))?);
            }
            "rule" => {
                let rule = rule(&mut c)?;
                if book.rules.iter().any(|other| other.name == rule.name) {
                    return Err(c.error(format!("a rule {} is there already", rule.name)));
                }
                book.rules.push(rule);
            }
            _ => return Err(c.error("`rule`, `commutative` or `cost` is expected before this")),
        }
    }
    Ok(book)
}

fn word(c: &mut Cursor) -> Result<String> {
    Ok(String::from_utf8_lossy(&c.name()?).into_owned())
}

/// Takes a word if it comes next, and comes whole.
fn keyword(c: &mut Cursor, wanted: &str) -> bool {
    let start = c.position();
    match c.name_if_any() {
        Ok(Some(found)) if found == wanted.as_bytes() => true,
        _ => {
            c.back_to(start);
            false
        }
    }
}

fn rule(c: &mut Cursor) -> Result<Rule> {
    let name = word(c)?;
    c.expect("(")?;
    let parameters = c.list(")", word)?;
    c.expect("=>")?;
    c.expect("(")?;
    let result = word(c)?;
    c.expect(")")?;
    let pattern = nodes(c)?;
    let mut conditions = Vec::new();
    if keyword(c, "where") {
        conditions.push(term(c)?);
        while c.take(",") {
            conditions.push(term(c)?);
        }
    }
    if !keyword(c, "becomes") {
        return Err(c.error("`becomes` is expected"));
    }
    let becomes = match c.peek() {
        Some('<' | '{') => {
            let constants = if c.take("<") { c.list(">", constant)? } else { Vec::new() };
            Replacement::Nodes { constants, nodes: nodes(c)? }
        }
        _ => Replacement::Value(word(c)?),
    };
    let within = if keyword(c, "within") { float(c.number()?) } else { 0.0 };
    let mut trials = Vec::new();
    loop {
        let applies = match (keyword(c, "try"), c.position()) {
            (true, _) => true,
            (false, _) if keyword(c, "never") => false,
            _ => break,
        };
        trials.push(trial(c, applies)?);
    }
    let ends = |nodes: &[TextNode]| nodes.last().is_some_and(|node| node.output == result);
    let is_whole = match &becomes {
        Replacement::Value(value) => parameters.contains(value),
        Replacement::Nodes { nodes, .. } => ends(nodes),
    };
    if !ends(&pattern) || !is_whole {
        return Err(c.error(format!("the last node on both sides of {name} must give its result")));
    }
    Ok(Rule { name, parameters, result, pattern, conditions, becomes, within, trials })
}

fn nodes(c: &mut Cursor) -> Result<Vec<TextNode>> {
    c.expect("{")?;
    let mut out = Vec::new();
    while !c.take("}") {
        out.push(node(c)?);
    }
    Ok(out)
}

fn node(c: &mut Cursor) -> Result<TextNode> {
    let output = word(c)?;
    c.expect("=")?;
    let (mut domain, mut operator) = (String::new(), word(c)?);
    while c.take(".") {
        domain = if domain.is_empty() { operator } else { format!("{domain}.{operator}") };
        operator = word(c)?;
    }
    let mut node = TextNode { output, domain, operator, attributes: Vec::new(), rest: None, inputs: Vec::new(), open: false };
    if c.take("<") {
        c.list(">", |c| {
            if c.take("@") {
                node.rest = Some(word(c)?);
                return Ok(());
            }
            let name = word(c)?;
            c.expect("=")?;
            node.attributes.push((name, attribute(c)?));
            Ok(())
        })?;
    }
    c.expect("(")?;
    c.list(")", |c| {
        if c.take("...") {
            node.open = true;
        } else {
            node.inputs.push(Some(word(c)?).filter(|name| !name.is_empty()));
        }
        Ok(())
    })?;
    Ok(node)
}

fn attribute(c: &mut Cursor) -> Result<TextAttribute> {
    match c.peek() {
        Some(first) if first == '@' || first.is_ascii_alphabetic() => {
            let term = term(c)?;
            let default = if c.take("?") { Some(literal(c)?) } else { None };
            Ok(TextAttribute::Term(term, default))
        }
        _ => Ok(TextAttribute::Literal(literal(c)?)),
    }
}

fn literal(c: &mut Cursor) -> Result<Attribute> {
    Ok(match c.peek() {
        Some('"') => Attribute::Text(c.string()?.to_vec()),
        Some('[') => {
            c.expect("[")?;
            Attribute::Ints(c.list("]", Cursor::int)?)
        }
        _ => match c.number()? {
            Number::Int(value) => Attribute::Int(value),
            Number::Float(value) => Attribute::Float(value as f32),
        },
    })
}

fn term(c: &mut Cursor) -> Result<Term> {
    if c.take("@") {
        return Ok(Term::Attribute(word(c)?));
    }
    if c.peek().is_some_and(|first| first.is_ascii_digit() || matches!(first, '-' | '+' | '.')) {
        return Ok(Term::Number(c.number()?));
    }
    let name = word(c)?;
    Ok(if c.take("(") { Term::Call(name, c.list(")", term)?) } else { Term::Value(name) })
}

fn dtype(c: &mut Cursor) -> Result<DType> {
    let name = word(c)?;
    DType::from_name(&name).ok_or_else(|| c.error("an element type is expected before this"))
}

fn constant(c: &mut Cursor) -> Result<TextConstant> {
    let dtype = dtype(c)?;
    let dims = if c.take("[") { c.list("]", Cursor::int)? } else { Vec::new() };
    let name = word(c)?;
    c.expect("=")?;
    c.expect("{")?;
    let elements = c.list("}", term)?;
    let dims: Vec<usize> = dims.into_iter().map(|d| usize::try_from(d).unwrap_or(0)).collect();
    if dims.iter().product::<usize>() != elements.len() {
        return Err(c.error("the elements do not fill the dims"));
    }
    Ok(TextConstant { dtype, dims, name, elements })
}

fn trial(c: &mut Cursor, applies: bool) -> Result<Trial> {
    let mut out = Trial { applies, parameters: Vec::new(), attributes: BTreeMap::new(), rests: BTreeMap::new() };
    c.expect("(")?;
    out.parameters = c.list(")", |c| {
        let dtype = dtype(c)?;
        let size = |c: &mut Cursor| Ok(if let Some('0'..='9') = c.peek() { Ok(c.int()?) } else { Err(word(c)?) });
        let dims = if c.take("[") { c.list("]", size)? } else { Vec::new() };
        let name = word(c)?;
        let mut constant = None;
        if c.take("=") {
            c.expect("{")?;
            constant = Some(if c.take("...") {
                c.expect("}")?;
                Vec::new()
            } else {
                c.list("}", Cursor::number)?
            });
        }
        Ok(Sample { name, dtype, dims, constant })
    })?;
    if c.take("<") {
        c.list(">", |c| {
            let name = word(c)?;
            c.expect("=")?;
            if c.take("<") {
                let pair = |c: &mut Cursor| {
                    let name = word(c)?;
                    c.expect("=")?;
                    Ok((name, literal(c)?))
                };
                out.rests.insert(name, c.list(">", pair)?.into_iter().collect());
            } else {
                out.attributes.insert(name, literal(c)?);
            }
            Ok(())
        })?;
    }
    Ok(out)
}

/// A number as a float.
pub fn float(number: Number) -> f64 {
    match number {
        Number::Int(value) => value as f64,
        Number::Float(value) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        book(text).expect_err("it is wrong").message
    }

    #[test]
    fn a_rule_reads_as_it_is_written() {
        let text = "commutative Mul cost Div = 3
            rule halve (x, c) => (y) { y = Div <@rest> (x, c, ...) } where power(c, -2.0), not(@a)
            becomes <float[1] h = {0.5}> { y = Mul (x, h) } within 1e-6
            try (float[N,2] x, float c = {2}) <rest = <axis = 1>>
            never (float x, float c = {3})";
        let book = book(text).expect("it parses");
        let rule = &book.rules[0];
        assert_eq!((rule.conditions.len(), rule.trials.len(), rule.within), (2, 2, 1e-6));
        assert!(rule.pattern[0].open && rule.pattern[0].rest.as_deref() == Some("rest"));
        assert!(rule.trials[0].applies && !rule.trials[1].applies);
        assert_eq!(book.costs["Div"], 3);
    }

    #[test]
    fn a_rule_that_computes_another_result_is_no_rule() {
        assert!(error("rule r (x) => (y) { z = Neg (x) } becomes x").contains("must give its result"));
        assert!(error("rule r (x) => (y) { y = Neg (x) } becomes z").contains("must give its result"));
        assert!(error("rule r (x) => (y) { y = Neg (x) }").contains("`becomes` is expected"));
    }
}
