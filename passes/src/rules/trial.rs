//! Tries rules: builds the graph of each trial, rewrites it with the rule alone, and compares what both evaluate to.

use std::collections::BTreeMap;

use oaaxc_ir::edit::NewNode;
use oaaxc_ir::graph::{Attributes, Def};
use oaaxc_ir::text::cursor::Number;
use oaaxc_ir::{DType, Datum, Expr, Fact, Graph, Scalar, Tensor, Type, ValueId, eval};

use super::text::{Book, Rule, Sample, Term, TextAttribute, Trial, book, float};

/// A small generator of its own: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 20
    }
}

/// Sizes that symbols take in turn.
const SIZES: [usize; 4] = [3, 1, 0, 2];

/// Numbers in which rules go wrong.
const EDGES: [f64; 8] = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40, 65504.0, -3.0e38];

/// What is wrong with a rule; nothing where every trial shows that it holds.
fn faults(book: &Book, rule: &Rule) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut terms: Vec<Term> = rule.conditions.clone();
    while let Some(term) = terms.pop() {
        if let Term::Call(name, inner) = term {
            terms.extend(inner);
            if !super::functions::is_known(&name) {
                out.push(format!("there is no function {name}"));
            }
        }
    }
    if !rule.trials.iter().any(|trial| trial.applies) {
        out.push("no `try` shows it".into());
    }
    out.extend(rule.trials.iter().enumerate().filter_map(|(i, trial)| {
        let why = check(book, rule, trial).err()?;
        Some(format!("trial {i}: {why}"))
    }));
    out.into_iter().map(|why| format!("{}: {why}", rule.name)).collect()
}

fn check(book: &Book, rule: &Rule, trial: &Trial) -> Result<(), String> {
    let mut random = Random(1);
    let (before, inputs) = build(rule, trial, &mut random)?;
    let mut after = before.clone();
    let alone = Book { rules: Vec::new(), commutative: book.commutative.clone(), costs: book.costs.clone() };
    let applied = apply_one(&mut after, &alone, rule);
    if applied != trial.applies {
        return Err(if applied { "it applies" } else { "it does not apply" }.into());
    }
    if !applied {
        return Ok(());
    }
    let name = |g: &Graph| g.values[g.root().outputs[0]].name.clone();
    if name(&before) != name(&after) {
        return Err("the output lost its name".into());
    }
    let mut compared = 0;
    for turn in 0..SIZES.len() {
        let mut sizes: BTreeMap<&String, usize> = BTreeMap::new();
        let data: Vec<Datum> = inputs
            .iter()
            .map(|sample| {
                let dims = sample.dims.iter().map(|d| match d {
                    Ok(n) => *n as usize,
                    Err(symbol) => {
                        let next = SIZES[(turn + sizes.len()) % SIZES.len()];
                        *sizes.entry(symbol).or_insert(next)
                    }
                });
                let dims = dims.collect();
                numbers(sample.dtype, dims, rule.within == 0.0, &mut random).into()
            })
            .collect();
        let Ok(left) = eval::evaluate(&before, data.clone()) else { continue };
        let right = eval::evaluate(&after, data).map_err(|d| format!("only the new side fails: {}", d.message))?;
        compare(&left[0], &right[0], rule.within)?;
        compared += 1;
    }
    if compared == 0 { Err("the old side fails for all sizes".into()) } else { Ok(()) }
}

/// Applies one rule at the output's node.
fn apply_one(graph: &mut Graph, book: &Book, rule: &Rule) -> bool {
    let uses = super::matching::Uses::of(graph);
    let Def::Node(root, _) = graph.values[graph.root().outputs[0]].def else { return false };
    let Some(found) = super::matching::find(graph, &uses, book, rule, root) else { return false };
    super::rewrite::rewrite(graph, &uses, book, rule, &found, &oaaxc_ops::find)
}

/// The graph of a rule's left side, and its inputs. The first node before it and the last after it are its own.
fn build<'a>(rule: &Rule, trial: &'a Trial, random: &mut Random) -> Result<(Graph, Vec<&'a Sample>), String> {
    let mut graph = Graph::new("trial");
    let root = graph.root;
    let mut values: BTreeMap<&str, ValueId> = BTreeMap::new();
    let mut inputs = Vec::new();
    for sample in &trial.parameters {
        let value = match &sample.constant {
            Some(elements) => {
                let dims = sample.dims.iter().map(|d| d.as_ref().map(|n| *n as usize).map_err(|n| format!("{n} is open")));
                let dims: Vec<usize> = dims.collect::<Result<_, _>>()?;
                let scalar = |n: &Number| match n {
                    Number::Int(v) => Scalar::from_i64(*v),
                    n => Scalar::from_f64(float(*n)),
                };
                let tensor = match elements.is_empty() {
                    true => numbers(sample.dtype, dims, false, random),
                    false => Tensor::from_scalars(sample.dtype, dims, elements.iter().map(scalar)),
                };
                graph.add_constant(sample.name.clone(), tensor)
            }
            None => {
                let size = |d: &Result<i64, String>, graph: &mut Graph| match d {
                    Ok(n) => Expr::constant(*n),
                    Err(name) => Expr::sym(graph.symbols.named(name)),
                };
                let dims = sample.dims.iter().map(|d| size(d, &mut graph)).collect();
                let given = graph.add_value(
                    format!("{}_given", sample.name),
                    Fact::of(Type::tensor(sample.dtype, dims)),
                    Def::Input(root),
                );
                graph.blocks[root].inputs.push(given);
                inputs.push(sample);
                // A node of its own, so that an output may become it.
                append(&mut graph, "", "Identity", Attributes::new(), vec![Some(given)], &sample.name)?
            }
        };
        values.insert(&sample.name, value);
    }
    for node in &rule.pattern {
        let mut attributes = node.rest.as_ref().and_then(|rest| trial.rests.get(rest)).cloned().unwrap_or_default();
        for (name, attribute) in &node.attributes {
            match attribute {
                TextAttribute::Literal(literal) => drop(attributes.insert(name.clone(), literal.clone())),
                TextAttribute::Term(Term::Attribute(bound), _) => {
                    attributes.extend(trial.attributes.get(bound).map(|value| (name.clone(), value.clone())));
                }
                TextAttribute::Term(..) => return Err(format!("the pattern computes {name}")),
            }
        }
        let operands = node.inputs.iter().map(|i| i.as_ref().and_then(|name| values.get(name.as_str()).copied())).collect();
        let value = append(&mut graph, &node.domain, &node.operator, attributes, operands, &node.output)?;
        values.insert(&node.output, value);
    }
    graph.blocks[root].outputs = vec![values[rule.result.as_str()]];
    Ok((graph, inputs))
}

fn append(
    graph: &mut Graph,
    domain: &str,
    operator: &str,
    attributes: Attributes,
    inputs: Vec<Option<ValueId>>,
    name: &str,
) -> Result<ValueId, String> {
    let op = oaaxc_ops::find(domain, operator).ok_or_else(|| format!("there is no operator {operator}"))?;
    let outputs = vec![Some(name.to_string())];
    let new = NewNode { op, opset: 28, attributes, inputs, outputs, blocks: vec![], origin: Default::default() };
    let root = graph.root;
    let node = graph.append(root, new).map_err(|d| d.message)?;
    graph.nodes[node].outputs[0].ok_or_else(|| "no result".into())
}

fn numbers(dtype: DType, dims: Vec<usize>, edges: bool, random: &mut Random) -> Tensor {
    let count = dims.iter().product::<usize>();
    let one = |random: &mut Random| {
        let bits = random.next();
        if !dtype.is_float() {
            return Scalar::from_i64((bits ^ random.next() << 32) as i64);
        }
        match (bits % 3, edges) {
            (0, true) => Scalar::from_f64(EDGES[(bits / 3) as usize % EDGES.len()]),
            _ => Scalar::from_f64((bits % 4001) as f64 / 1000.0 - 2.0),
        }
    };
    let scalars: Vec<Scalar> = (0..count).map(|_| one(random)).collect();
    Tensor::from_scalars(dtype, dims, scalars)
}

/// Equal types, sizes and numbers: to the bit (any NaN is a NaN), or within a tolerance.
fn compare(left: &Datum, right: &Datum, within: f64) -> Result<(), String> {
    let (Datum::Tensor(left), Datum::Tensor(right)) = (left, right) else { return Err("no tensors".into()) };
    if left.dtype != right.dtype || left.dims != right.dims {
        return Err(format!("{}{:?} became {}{:?}", left.dtype, left.dims, right.dtype, right.dims));
    }
    for (i, (a, b)) in left.scalars().zip(right.scalars()).enumerate() {
        let is_close = || (a.as_f64() - b.as_f64()).abs() <= within * a.as_f64().abs().max(1.0);
        let is_nan = left.dtype.is_float() && a.as_f64().is_nan() && b.as_f64().is_nan();
        if a != b && !is_nan && !(within > 0.0 && is_close()) {
            return Err(format!("element {i} was {:?} and is {:?}", a.as_f64(), b.as_f64()));
        }
    }
    Ok(())
}

fn faults_of(text: &str) -> Vec<String> {
    let book = book(text).expect("it parses");
    book.rules.iter().flat_map(|rule| faults(&book, rule)).collect()
}

#[test]
fn every_rule_holds_on_its_trials() {
    let book = super::book();
    let all: Vec<String> = book.rules.iter().flat_map(|rule| faults(&book, rule)).collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn a_wrong_rule_is_caught() {
    let wrong = [
        // -0 + 0 is 0.
        "rule r (x, c) => (y) { y = Add (x, c) } where is(c, 0) becomes x try (float[N,3] x, float c = {0})",
        "rule r (x) => (y) { y = Neg (x) } becomes { y = Abs (x) } try (float[N,3] x)",
        "rule r (x) => (y) { a = Cast <to = @u> (x) y = Cast <to = @t> (a) } becomes { y = Cast <to = @t> (x) }
         try (int32[N,3] x) <u = 1, t = 7>",
        "rule r (x, c) => (y) { y = Div (x, c) } becomes { r = Reciprocal (c) y = Mul (x, r) }
         try (float[N,9] x, float c = {3})",
        "rule r (x) => (y) { a = Transpose <perm = @p> (x) y = Transpose <perm = @q> (a) }
         becomes { y = Transpose <perm = compose(@q, @p, x)> (x) } try (float[2,2,2] x) <p = [1,2,0], q = [0,2,1]>",
    ];
    for text in wrong {
        let text = format!("cost Div = 3 cost Neg = 3 {text}");
        let found = faults_of(&text);
        assert!(found.iter().any(|why| why.contains("was")), "{text}\n{found:?}");
    }
}

#[test]
fn a_rule_without_a_trial_or_that_does_not_apply_is_a_fault() {
    assert_eq!(faults_of("rule r (x) => (y) { y = Neg (x) } becomes x"), ["r: no `try` shows it"]);
    let no_cheaper = "rule r (x) => (y) { y = Abs (x) } becomes { y = Neg (x) } try (float[N] x)";
    assert_eq!(faults_of(no_cheaper), ["r: trial 0: it does not apply"]);
    let unknown = "rule r (x) => (y) { y = Identity (x) } where nonsense(x) becomes x try (float[N] x)";
    assert_eq!(faults_of(unknown), ["r: there is no function nonsense", "r: trial 0: it does not apply"]);
}

#[test]
fn a_trial_that_never_may_apply_is_a_fault_where_it_does() {
    let text = "rule r (x) => (y) { y = Identity (x) } becomes x try (float[N] x) never (float[N] x)";
    assert_eq!(faults_of(text), ["r: trial 1: it applies"]);
}
