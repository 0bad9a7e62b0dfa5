//! Programs survive encoding, and no bytes make the parser panic or accept what is out of range.

use oaax_abi::*;

/// A program that uses every section and every instruction.
fn everything() -> Program {
    let mut b = ProgramBuilder::new("everything", "test");
    let (n, m) = (b.register(), b.register());
    let x = b.input("x", DType::F32, &[Dim::bind(n, "N").within(1, 64, 2), Dim::expect(3, "")]);
    let (any, rank, first) = b.unranked_input("any", DType::I64);
    let list = b.sequence(DType::F32);
    b.cell_input("list", list);
    let y = b.output("y", DType::F32, &[(m.into(), ""), (3.into(), "")]);
    let w = b.weight(DType::F32, &[16.into()], 0, 64, 64);
    let (t, u) = (b.arena(DType::F32, &[n.into(), 3.into()], None), b.arena(DType::I4, &[n.into()], Some(640.into())));
    let heap = b.heap(DType::F32, Some(&[m.into()]), None);
    let view = b.alias(DType::F32, None);
    let (other, maybe) = (b.sequence(DType::F32), b.optional(DType::F32));
    b.output_from("cells", list, None);
    let (v2, v3) = (b.level("x86-64-v2"), b.level("x86-64-v3"));
    let objects = [b.object(v2, "v2.so"), b.object(v3, "v3.so")];
    let entry = |object| EntrySpec {
        object,
        symbol: "k".into(),
        groups: Expr::dim(0).ceil_div(64),
        scratch: Expr::dim(0).times(4),
        threads: 0,
    };
    let spec = KernelSpec {
        name: "k".into(),
        origin: "Conv_1, Relu_2".into(),
        places: vec!["Conv_1".into(), "Relu_2".into()],
        buffers: 2,
        dims: 1,
        space: Space::Host,
        entries: objects.map(entry).to_vec(),
        operations: Expr::dim(0).times(2),
        bytes: Expr::dim(0).times(8),
        generic: true,
    };
    let k = b.kernel(&spec);
    let device = b.level_in("gfx942", Space::Device);
    let object = b.object(device, "gfx942.hsaco");
    let device = b.arena(DType::F32, &[n.into(), 3.into()], None);
    b.on_device(device);
    let device_view = b.alias(DType::F32, None);
    b.on_device(device_view);
    let entries = vec![EntrySpec { object, symbol: "d".into(), groups: 1.into(), scratch: 0.into(), threads: 256 }];
    let on_device = b.kernel(&KernelSpec { name: "d".into(), space: Space::Device, entries, ..spec });
    let (zero, one) = (b.expr(0), b.expr(1));
    let message = b.string("no way");
    let (again, end) = (b.label(), b.label());
    b.node("Loop_1");
    b.eval(m, Expr::from(n).times(2).plus(first));
    b.check(Expr::from(rank).at_most(4), "rank too large");
    b.push(Instruction::Place);
    b.place_label(again);
    b.branch_if_zero(Expr::from(m).less(10), end);
    b.push(Instruction::Parallel { count: 2 });
    b.launch(k, &[x, t], &[n.into()]);
    b.launch(k, &[w, u], &[n.into()]);
    for instruction in [
        Instruction::Alloc { slot: heap, like: None },
        Instruction::Alloc { slot: heap, like: Some(t) },
        Instruction::Alias { slot: view, source: t, offset: Some(zero) },
        Instruction::Alias { slot: view, source: heap, offset: None },
        Instruction::Copy { to: y, from: view },
        Instruction::Copy { to: device, from: t },
        Instruction::Alias { slot: device_view, source: device, offset: None },
        Instruction::Launch { kernel: on_device, buffers: vec![device, device_view], dims: vec![zero] },
        Instruction::SequencePush { cell: list, item: device },
        Instruction::ReadCell { to: m, slot: any, index: zero },
        Instruction::WriteCell { slot: heap, index: zero, value: one },
        Instruction::ReadDim { to: m, slot: view, axis: zero },
        Instruction::ReadRank { to: m, slot: view },
        Instruction::Call { routine: message, slots: vec![x, list], arguments: vec![zero, one] },
        Instruction::SequenceNew { cell: list },
        Instruction::SequencePush { cell: list, item: t },
        Instruction::SequenceGet { to: view, cell: list, index: zero },
        Instruction::SequenceLength { to: m, cell: list },
        Instruction::SequenceInsert { cell: list, index: zero, item: heap },
        Instruction::SequenceErase { cell: list, index: zero },
        Instruction::CellAssign { to: other, from: list },
        Instruction::OptionalNone { cell: maybe },
        Instruction::OptionalSet { cell: maybe, item: t },
        Instruction::OptionalGet { to: view, cell: maybe },
        Instruction::OptionalHas { to: m, cell: maybe },
        Instruction::Free { slot: heap },
    ] {
        b.push(instruction);
    }
    b.jump(again);
    b.place_label(end);
    b.push(Instruction::Fail { message });
    b.finish().expect("valid")
}

#[test]
fn encoding_round_trips() {
    let program = everything();
    let bytes = program.encode();
    assert_eq!(Program::parse(&bytes), Ok(program.clone()));
    assert_eq!(everything().encode(), bytes, "building twice gives equal bytes");
    assert_eq!(program.eval(program.plan[1].bytes, &[]), Ok(640));
}

#[test]
fn any_cut_and_any_flipped_byte_is_survived() {
    let bytes = everything().encode();
    for length in 0..bytes.len() {
        let _ = Program::parse(&bytes[..length]);
    }
    assert!(Program::parse(&bytes[..bytes.len() / 2]).is_err());
    let mut accepted = 0;
    for index in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[index] ^= flip;
            accepted += Program::parse(&bytes).is_ok_and(|program| program.validate().is_ok()) as u32;
        }
    }
    assert!(0 < accepted, "flips of text leave a valid program");
}

#[test]
fn a_program_of_another_version_says_so() {
    let mut bytes = everything().encode();
    bytes[8] = 9;
    let error = Program::parse(&bytes).expect_err("version 9");
    assert_eq!(error.0, "has format version 9, this runtime reads version 2");
}

#[test]
fn unknown_sections_are_skipped_unless_critical() {
    let program = everything();
    for (kind, accepted) in [(99u32, true), (0x8000_0001, false)] {
        let bytes = program.encode();
        let count = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        let (header, body) = bytes.split_at(16 + 24 * count);
        let mut file = header.to_vec();
        file[12..16].copy_from_slice(&(count as u32 + 1).to_le_bytes());
        for index in 0..count {
            let at = 16 + 24 * index + 8;
            let offset = u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) + 24;
            file[at..at + 8].copy_from_slice(&offset.to_le_bytes());
        }
        file.extend_from_slice(&kind.to_le_bytes());
        file.extend_from_slice(&4u32.to_le_bytes());
        file.extend_from_slice(&0u64.to_le_bytes());
        file.extend_from_slice(&1u64.to_le_bytes());
        file.extend_from_slice(body);
        assert_eq!(Program::parse(&file).is_ok(), accepted, "section {kind:#x}");
    }
}

#[test]
fn the_validator_names_the_first_offender() {
    let check = |change: fn(&mut Program), expected: &str| {
        let mut program = everything();
        change(&mut program);
        let error = program.validate().expect_err(expected);
        assert!(error.0.contains(expected), "{error} lacks {expected:?}");
    };
    check(|p| p.registers = 1, "register");
    check(|p| p.plan[0].last = 0, "ends before it begins");
    check(|p| p.kernels[0].entries[1].object = 0, "object of another level");
    check(|p| p.kernels[0].space = Space::Device, "has 2 entries for 1 levels");
    check(|p| p.kernels[1].entries[0].threads = 0, "has 0 threads");
    check(|p| p.levels[1].space = Space::Device, "more than one device level");
    check(|p| p.slots[p.inputs[0].slot.index()].space = Space::Device, "is not on the host");
    check(|p| p.plan[0].space = Space::Device, "in different spaces");
    check(
        |p| {
            let launch = p.steps.iter_mut().find_map(|step| match &mut step.instruction {
                Instruction::Launch { kernel: KernelId(1), buffers, .. } => Some(buffers),
                _ => None,
            });
            launch.expect("there is one")[0] = SlotId(0);
        },
        "not in the space of the kernel",
    );
    check(|p| p.inputs[0].dtype = DType::I8, "differ in element type");
    check(|p| p.steps[0].instruction = Instruction::Jump { target: 999 }, "jumps to 999");
    check(|p| p.steps[0].instruction = Instruction::Free { slot: SlotId(0) }, "cannot be freed");
    check(
        |p| p.steps[0].instruction = Instruction::WriteCell { slot: SlotId(0), index: ExprId(0), value: ExprId(0) },
        "read only",
    );
}

#[test]
fn an_unplaced_label_is_refused() {
    let mut b = ProgramBuilder::new("m", "test");
    let label = b.label();
    b.jump(label);
    assert!(b.finish().is_err());
}
