//! Proves a program well formed: every id in range, every expression runnable, every instruction on
//! slots of the right kind. After this the interpreter can only meet faults that depend on data.

use crate::{
    dtype::DType,
    expr::{MAX_STACK, check_code},
    ids::{ExprId, Reg, SlotId, StringId},
    program::*,
    wire::{ParseError, refuse},
};

/// Registers at most (they are allocated for each run).
const MAX_REGISTERS: u32 = 1 << 20;
/// Threads of a work group at most.
const MAX_THREADS: u32 = 1024;

impl Program {
    /// Whether the program may be run; the error names the first offender.
    pub fn validate(&self) -> Result<(), ParseError> {
        if self.registers > MAX_REGISTERS {
            refuse!("{} registers are more than {MAX_REGISTERS}", self.registers);
        }
        self.validate_expressions()?;
        for (index, slot) in self.slots.iter().enumerate() {
            self.validate_slot(index, slot)?;
        }
        self.validate_ports()?;
        self.validate_plan()?;
        self.validate_kernels()?;
        for (index, step) in self.steps.iter().enumerate() {
            let checked = self.validate_step(index, &step.instruction).and_then(|()| self.string(step.node));
            if let Err(ParseError(reason)) = checked {
                refuse!("instruction {index}: {reason}");
            }
        }
        Ok(())
    }

    /// Expressions lie in the code, without overlap in sum, and fit the stack. Which registers they
    /// may read is checked where they are used.
    fn validate_expressions(&self) -> Result<(), ParseError> {
        let mut total = 0usize;
        for (index, &(start, length)) in self.expressions.iter().enumerate() {
            total = total.saturating_add(length as usize);
            let end = (start as usize).checked_add(length as usize);
            if end.is_none_or(|end| end > self.code.len()) || total > self.code.len() {
                refuse!("expression {index} lies outside the code or shares it");
            }
            if let Err(reason) = check_code(self.code_of(ExprId(index as u32)), usize::MAX) {
                refuse!("expression {index} {reason} (at most {MAX_STACK} values)");
            }
        }
        Ok(())
    }

    /// An expression over the program's registers.
    fn expression(&self, id: ExprId) -> Result<(), ParseError> {
        self.expression_over(id, self.registers as usize)
    }

    fn expression_over(&self, id: ExprId, registers: usize) -> Result<(), ParseError> {
        if id.index() >= self.expressions.len() {
            refuse!("expression {} does not exist", id.0);
        }
        match check_code(self.code_of(id), registers) {
            Ok(()) => Ok(()),
            Err(reason) => refuse!("expression {} {reason}", id.0),
        }
    }

    fn string(&self, id: impl Into<Option<StringId>>) -> Result<(), ParseError> {
        match id.into() {
            Some(id) if id.index() >= self.strings.len() => {
                refuse!("string {} does not exist", id.0)
            }
            _ => Ok(()),
        }
    }

    fn register(&self, reg: Reg) -> Result<(), ParseError> {
        if reg.0 >= self.registers {
            refuse!("register {} does not exist", reg.0);
        }
        Ok(())
    }

    fn slot(&self, id: SlotId) -> Result<&Slot, ParseError> {
        match self.slots.get(id.index()) {
            Some(slot) => Ok(slot),
            None => refuse!("slot {} does not exist", id.0),
        }
    }

    fn tensor(&self, id: SlotId) -> Result<&Slot, ParseError> {
        match self.slot(id)? {
            slot if slot.kind.is_cell() => refuse!("slot {} is a cell, a tensor is needed", id.0),
            slot => Ok(slot),
        }
    }

    /// A tensor that instructions and kernels may write.
    fn writable(&self, id: SlotId) -> Result<&Slot, ParseError> {
        match self.tensor(id)? {
            Slot { kind: SlotKind::Input(_) | SlotKind::Weight { .. }, .. } => refuse!("slot {} is read only", id.0),
            slot => Ok(slot),
        }
    }

    fn of_kind(&self, id: SlotId, kind: SlotKind) -> Result<(), ParseError> {
        match self.slot(id)?.kind == kind {
            true => Ok(()),
            false => refuse!("slot {} is not of kind {kind:?}", id.0),
        }
    }

    fn validate_slot(&self, index: usize, slot: &Slot) -> Result<(), ParseError> {
        match &slot.shape {
            Shape::Dims(dims) if dims.len() > MAX_RANK => {
                refuse!("slot {index} has {} dims", dims.len())
            }
            Shape::Dims(dims) => dims.iter().try_for_each(|dim| self.expression(*dim))?,
            Shape::Runtime if matches!(slot.kind, SlotKind::Weight { .. } | SlotKind::Arena(_)) => {
                refuse!("slot {index} needs dims")
            }
            Shape::Runtime => {}
        }
        if let Some(bytes) = slot.bytes {
            self.expression(bytes)?;
        }
        let host = slot.kind.is_cell() || matches!(slot.kind, SlotKind::Input(_) | SlotKind::Output(_));
        if host && slot.space != Space::Host {
            refuse!("slot {index} of kind {:?} is not on the host", slot.kind);
        }
        let id = Some(SlotId(index as u32));
        let owned = match slot.kind {
            SlotKind::Input(port) => self.inputs.get(port as usize).map(|input| input.slot) == id,
            SlotKind::Output(port) => self.outputs.get(port as usize).map(|output| output.slot) == id,
            SlotKind::Arena(entry) => self.plan.get(entry as usize).map(|entry| entry.slot) == id,
            SlotKind::Weight { offset, length, .. } => {
                offset % ALIGN == 0 && offset.checked_add(length).is_some() && slot.dtype != DType::String
            }
            _ => true,
        };
        match owned {
            true => Ok(()),
            false => refuse!("slot {index} does not agree with its table ({:?})", slot.kind),
        }
    }

    fn validate_ports(&self) -> Result<(), ParseError> {
        for (index, input) in self.inputs.iter().enumerate() {
            self.string(input.name)?;
            let slot = self.slot(input.slot)?;
            let cell = matches!(input.shape, InputShape::Cell);
            if cell != slot.kind.is_cell() || (!cell && slot.kind != SlotKind::Input(index as u32)) {
                refuse!("input {index} and its slot are of different kinds");
            }
            if input.dtype != slot.dtype {
                refuse!("input {index} and its slot differ in element type");
            }
            match &input.shape {
                InputShape::Ranked(rules) => {
                    let rank = match &slot.shape {
                        Shape::Dims(dims) => dims.len(),
                        Shape::Runtime => rules.len(),
                    };
                    if rank != rules.len() {
                        refuse!("input {index} has {} dim rules, its slot {rank} dims", rules.len());
                    }
                    rules.iter().try_for_each(|rule| self.validate_rule(rule))?;
                }
                InputShape::Unranked { rank, first } => {
                    self.register(*rank)?;
                    self.register(Reg(first.0.saturating_add(UNRANKED_DIMS - 1)))?;
                }
                InputShape::Cell => {}
            }
        }
        for (index, output) in self.outputs.iter().enumerate() {
            self.string(output.name)?;
            let slot = self.slot(output.slot)?;
            if output.dtype != slot.dtype {
                refuse!("output {index} and its slot differ in element type");
            }
            for dim in output.dims.iter().flatten() {
                self.string(dim.symbol)?;
            }
        }
        Ok(())
    }

    fn validate_rule(&self, rule: &DimRule) -> Result<(), ParseError> {
        self.string(rule.symbol)?;
        if rule.multiple < 1 || rule.min < 0 || rule.max < rule.min {
            refuse!("a dim rule allows no size");
        }
        match rule.bind {
            DimBind::Bind(reg) => self.register(reg),
            DimBind::Expect(expr) => self.expression(expr),
        }
    }

    fn validate_plan(&self) -> Result<(), ParseError> {
        for (index, entry) in self.plan.iter().enumerate() {
            self.of_kind(entry.slot, SlotKind::Arena(index as u32))?;
            self.expression(entry.bytes)?;
            if entry.space != self.space(entry.slot) {
                refuse!("plan entry {index} and its slot are in different spaces");
            }
            if entry.last < entry.first {
                refuse!("plan entry {index} ends before it begins");
            }
            if let Some(other) = entry.may_alias {
                let Some(old) = self.plan.get(other as usize) else { refuse!("plan entry {other} does not exist") };
                if old.space != entry.space {
                    refuse!("plan entry {index} may alias {other}, which is in another space");
                }
                if other as usize == index || old.last != entry.first {
                    refuse!("plan entry {index} may alias {other}, which does not die where it begins");
                }
            }
        }
        Ok(())
    }

    fn validate_kernels(&self) -> Result<(), ParseError> {
        self.levels.iter().try_for_each(|level| self.string(level.name))?;
        if self.levels_of(Space::Device).count() > 1 {
            refuse!("has more than one device level");
        }
        for (index, object) in self.objects.iter().enumerate() {
            self.string(object.name)?;
            if object.level as usize >= self.levels.len() {
                refuse!("object {index} is of a level that does not exist");
            }
        }
        for (index, kernel) in self.kernels.iter().enumerate() {
            self.string(kernel.name)?;
            self.string(kernel.origin)?;
            kernel.places.iter().try_for_each(|place| self.string(*place))?;
            let count = self.levels_of(kernel.space).count();
            if kernel.entries.len() != count {
                refuse!("kernel {index} has {} entries for {count} levels", kernel.entries.len());
            }
            self.expression_over(kernel.operations, kernel.dims as usize)?;
            self.expression_over(kernel.bytes, kernel.dims as usize)?;
            if count == 0 && kernel.space == Space::Device {
                refuse!("kernel {index} is for a device, and there is no device level");
            }
            for ((level, _), entry) in self.levels_of(kernel.space).zip(&kernel.entries) {
                self.string(entry.symbol)?;
                if self.objects.get(entry.object as usize).map(|object| object.level as usize) != Some(level) {
                    refuse!("kernel {index} at level {level} is in an object of another level");
                }
                let threads = if kernel.space == Space::Host { 0..=0 } else { 1..=MAX_THREADS };
                if !threads.contains(&entry.threads) {
                    refuse!("kernel {index} at level {level} has {} threads in a group", entry.threads);
                }
                self.expression_over(entry.groups, kernel.dims as usize)?;
                self.expression_over(entry.scratch, kernel.dims as usize)?;
            }
        }
        Ok(())
    }

    fn validate_step(&self, index: usize, instruction: &Instruction) -> Result<(), ParseError> {
        use Instruction::*;
        let alias = |id| self.of_kind(id, SlotKind::Alias);
        let host_alias = |id| match self.space(id) {
            Space::Host => alias(id),
            Space::Device => refuse!("slot {} gets an element of a cell and is not on the host", id.0),
        };
        match instruction {
            Eval { to, value } => self.register(*to).and(self.expression(*value)),
            Check { condition, message } => self.expression(*condition).and(self.string(*message)),
            Place | Jump { target: 0 } => Ok(()),
            Alloc { slot, like } => {
                let found = self.writable(*slot)?;
                if !matches!(found.kind, SlotKind::Heap | SlotKind::Output(_)) {
                    refuse!("slot {} cannot be allocated", slot.0);
                }
                match like {
                    Some(like) => self.tensor(*like).map(|_| ()),
                    None if found.shape == Shape::Runtime => {
                        refuse!("slot {} has no dims to allocate", slot.0)
                    }
                    None => Ok(()),
                }
            }
            Free { slot } => match self.slot(*slot)?.kind {
                SlotKind::Heap | SlotKind::Alias | SlotKind::Sequence | SlotKind::Optional => Ok(()),
                kind => refuse!("slot {} of kind {kind:?} cannot be freed", slot.0),
            },
            Alias { slot, source, offset } => {
                alias(*slot)?;
                if self.tensor(*source)?.space != self.space(*slot) {
                    refuse!("slot {} is an alias of slot {} in another space", slot.0, source.0);
                }
                offset.map_or(Ok(()), |offset| self.expression(offset))
            }
            Launch { kernel, buffers, dims } => {
                let Some(kernel) = self.kernels.get(kernel.index()) else { refuse!("kernel {} does not exist", kernel.0) };
                if kernel.buffers as usize != buffers.len() || kernel.dims as usize != dims.len() {
                    refuse!(
                        "launches with {} buffers and {} dims, the kernel takes {} and {}",
                        buffers.len(),
                        dims.len(),
                        kernel.buffers,
                        kernel.dims
                    );
                }
                for id in buffers {
                    if self.tensor(*id)?.space != kernel.space {
                        refuse!("slot {} is not in the space of the kernel, {:?}", id.0, kernel.space);
                    }
                }
                dims.iter().try_for_each(|dim| self.expression(*dim))
            }
            Parallel { count } => {
                let group = index.checked_add(1).and_then(|start| self.steps.get(start..start.checked_add(*count as usize)?));
                match group.is_some_and(|group| group.iter().all(|step| matches!(step.instruction, Launch { .. }))) {
                    true => Ok(()),
                    false => refuse!("a parallel group holds other things than launches"),
                }
            }
            Copy { to, from } => self.writable(*to).and(self.tensor(*from)).map(|_| ()),
            ReadCell { to, slot, index } => {
                self.tensor(*slot)?;
                self.register(*to).and(self.expression(*index))
            }
            WriteCell { slot, index, value } => {
                self.writable(*slot)?;
                self.expression(*index).and(self.expression(*value))
            }
            ReadDim { to, slot, axis } => {
                self.tensor(*slot)?;
                self.register(*to).and(self.expression(*axis))
            }
            ReadRank { to, slot } => self.tensor(*slot).and(self.register(*to)),
            Branch { condition, target } => self.expression(*condition).and(self.target(*target)),
            Jump { target } => self.target(*target),
            Call { routine, slots, arguments } => {
                self.string(*routine)?;
                slots.iter().try_for_each(|id| self.slot(*id).map(|_| ()))?;
                arguments.iter().try_for_each(|id| self.expression(*id))
            }
            SequenceNew { cell } => self.of_kind(*cell, SlotKind::Sequence),
            SequencePush { cell, item } => self.of_kind(*cell, SlotKind::Sequence).and(self.tensor(*item)).map(|_| ()),
            SequenceGet { to, cell, index } => {
                host_alias(*to)?;
                self.of_kind(*cell, SlotKind::Sequence).and(self.expression(*index))
            }
            SequenceLength { to, cell } => self.of_kind(*cell, SlotKind::Sequence).and(self.register(*to)),
            SequenceInsert { cell, index, item } => {
                self.tensor(*item)?;
                self.of_kind(*cell, SlotKind::Sequence).and(self.expression(*index))
            }
            SequenceErase { cell, index } => self.of_kind(*cell, SlotKind::Sequence).and(self.expression(*index)),
            CellAssign { to, from } => {
                let (to, from) = (self.slot(*to)?.kind, self.slot(*from)?.kind);
                match to.is_cell() && to == from {
                    true => Ok(()),
                    false => refuse!("assigns {from:?} to {to:?}"),
                }
            }
            OptionalNone { cell } => self.of_kind(*cell, SlotKind::Optional),
            OptionalSet { cell, item } => self.of_kind(*cell, SlotKind::Optional).and(self.slot(*item)).map(|_| ()),
            OptionalGet { to, cell } => {
                self.of_kind(*cell, SlotKind::Optional)?;
                self.of_kind(*to, SlotKind::Sequence).or(host_alias(*to))
            }
            OptionalHas { to, cell } => self.of_kind(*cell, SlotKind::Optional).and(self.register(*to)),
            Fail { message } => self.string(*message),
        }
    }

    /// A jump's target: an instruction or the end.
    fn target(&self, target: u32) -> Result<(), ParseError> {
        match target as usize <= self.steps.len() {
            true => Ok(()),
            false => refuse!("jumps to {target}, behind the end"),
        }
    }
}

impl SlotKind {
    /// A sequence or optional cell.
    pub fn is_cell(self) -> bool {
        matches!(self, SlotKind::Sequence | SlotKind::Optional)
    }
}
