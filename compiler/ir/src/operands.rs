//! Reading a node's operands and what is known of them: shared by inference and lowering.

use oaaxc_base::{Code, Diagnostic};

use crate::attributes::ReadAttributes;
use crate::dtype::DType;
use crate::expr::Expr;
use crate::graph::{Graph, ValueId};
use crate::tensor::Tensor;
use crate::types::{Fact, TensorType, Type};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operands of a node in a graph.
pub trait ReadOperands: ReadAttributes {
    /// The graph that the node stands in.
    fn graph(&self) -> &Graph;

    /// Number of operands, trailing holes not counted.
    fn input_count(&self) -> usize {
        self.node().inputs.iter().rposition(Option::is_some).map_or(0, |i| i + 1)
    }
    /// Number of results, holes counted.
    fn output_count(&self) -> usize {
        self.node().outputs.len()
    }
    /// Whether the operand is given.
    fn has_input(&self, index: usize) -> bool {
        self.node().inputs.get(index).is_some_and(Option::is_some)
    }
    /// Whether the result is asked for.
    fn has_output(&self, index: usize) -> bool {
        self.node().outputs.get(index).is_some_and(Option::is_some)
    }
    /// The operand's value; an error where it is missing.
    fn input_value(&self, index: usize) -> Result<ValueId> {
        let value = self.node().inputs.get(index).copied().flatten();
        value.ok_or_else(|| self.fail(Code::OPERAND, format!("input {index} is missing")))
    }
    /// What is known of the operand.
    fn fact(&self, index: usize) -> Result<&Fact> {
        Ok(&self.graph().values[self.input_value(index)?].fact)
    }
    /// The operand's type.
    fn ty(&self, index: usize) -> Result<&Type> {
        Ok(&self.fact(index)?.ty)
    }
    /// The operand's tensor type; an error where it is none.
    fn tensor_type(&self, index: usize) -> Result<&TensorType> {
        self.ty(index)?.as_tensor().ok_or_else(|| self.fail(Code::TYPE, format!("input {index} must be a tensor")))
    }
    /// The operand's element type.
    fn dtype(&self, index: usize) -> Result<DType> {
        Ok(self.tensor_type(index)?.dtype)
    }
    /// The operand's sizes; an error where the rank is not known.
    fn shape(&self, index: usize) -> Result<Vec<Expr>> {
        self.tensor_type(index)?.shape.clone().ok_or_else(|| {
            let name = self.input_value(index).map(|v| self.graph().values[v].name.clone()).unwrap_or_default();
            self.fail(Code::RANK, format!("the rank of input {index} \"{name}\" is not known")).help(
                "give the model's inputs and intermediate values ranks, for example by running shape inference before export",
            )
        })
    }
    /// The operand's rank.
    fn rank(&self, index: usize) -> Result<usize> {
        Ok(self.shape(index)?.len())
    }
    /// The operand's elements, where they are known sizes.
    fn known(&self, index: usize) -> Option<Vec<Expr>> {
        self.fact(index).ok()?.known.clone()
    }
    /// The operand's elements, where they are known numbers. Any integer constant counts, small or not.
    fn known_ints(&self, index: usize) -> Option<Vec<i64>> {
        if let Some(known) = self.known(index) {
            return known.iter().map(Expr::as_const).collect();
        }
        let constant = self.constant(index)?;
        (constant.dtype.is_integer() || constant.dtype == DType::Bool).then(|| constant.to_i64s())
    }
    /// The constant behind the operand.
    fn constant(&self, index: usize) -> Option<&Tensor> {
        self.graph().constant(self.input_value(index).ok()?)
    }
    /// The inferred type of a result; only after inference.
    fn output_type(&self, index: usize) -> Option<&Type> {
        let value = self.node().outputs.get(index).copied().flatten()?;
        Some(&self.graph().values[value].fact.ty)
    }
}
