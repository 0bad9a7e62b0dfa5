//! The placement rule against its checker, and live ranges of loops and parallel groups.

use oaax_abi::*;

fn entry(first: u32, last: u32, may_alias: Option<u32>) -> PlanEntry {
    PlanEntry { slot: SlotId(0), space: Space::Host, bytes: ExprId(0), first, last, may_alias }
}

#[test]
fn buffers_that_do_not_meet_share_bytes() {
    let plan = [entry(0, 1, None), entry(1, 2, None), entry(2, 3, None)];
    let placement = place(&plan, &[100, 100, 100]).expect("small");
    assert_eq!(placement.offsets, [0, 128, 0]);
    assert_eq!(placement.totals[0], 256);
    check_placement(&plan, &[100, 100, 100], &placement).expect("sound");
}

#[test]
fn a_buffer_takes_over_anothers_bytes_where_it_may() {
    let plan = [entry(0, 1, None), entry(1, 2, Some(0)), entry(2, 3, Some(1))];
    let placement = place(&plan, &[64, 64, 64]).expect("small");
    assert_eq!(placement.totals[0], 64);
    check_placement(&plan, &[64, 64, 64], &placement).expect("sound");
    let placement = place(&plan, &[64, 128, 64]).expect("small");
    check_placement(&plan, &[64, 128, 64], &placement).expect("sound");
    assert_eq!(placement.totals[0], 192, "other sizes cannot share");
}

#[test]
fn each_space_has_its_own_arena() {
    let device = |first, last, may_alias| PlanEntry { space: Space::Device, ..entry(first, last, may_alias) };
    let plan = [entry(0, 1, None), device(0, 1, None), device(1, 2, Some(0)), device(2, 3, None)];
    let mut placement = place(&plan, &[64, 128, 64, 128]).expect("small");
    check_placement(&plan, &[64, 128, 64, 128], &placement).expect("sound");
    assert_eq!((&placement.offsets[..], placement.totals), (&[0, 0, 128, 0][..], [64, 192]));
    placement.totals = [192, 64];
    assert!(check_placement(&plan, &[64, 128, 64, 128], &placement).is_err());
}

#[test]
fn random_plans_place_soundly_and_a_moved_buffer_is_found() {
    let mut state = 7u64;
    let mut random = |limit: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % limit
    };
    let mut found = 0;
    for _ in 0..200 {
        let count = 1 + random(20) as usize;
        let mut plan: Vec<PlanEntry> = Vec::new();
        for index in 0..count {
            let first = random(30) as u32;
            let dying = (0..index).find(|old| plan[*old].last == first).map(|old| old as u32);
            plan.push(entry(first, first + random(6) as u32, dying));
        }
        let bytes: Vec<u64> = plan.iter().map(|_| random(4) * 100).collect();
        let mut placement = place(&plan, &bytes).expect("small");
        check_placement(&plan, &bytes, &placement).expect("sound");
        let last = placement.offsets.len() - 1;
        placement.offsets[last] = placement.offsets[last].wrapping_sub(64);
        found += check_placement(&plan, &bytes, &placement).is_err() as u32;
    }
    assert!(found > 100, "{found}");
}

#[test]
fn an_arena_beyond_any_memory_is_refused() {
    assert_eq!(place(&[entry(0, 0, None)], &[u64::MAX - 3]), None);
}

/// before; loop { a → b; b → c }; after. `parallel`: both launches in one group.
fn looping(parallel: bool) -> Program {
    let mut b = ProgramBuilder::new("m", "test");
    let n = b.register();
    let level = b.level("v");
    let object = b.object(level, "o");
    let entries = vec![EntrySpec { object, symbol: "k".into(), groups: 1.into(), scratch: 0.into(), threads: 0 }];
    let k = b.kernel(&KernelSpec { buffers: 2, entries, ..KernelSpec::default() });
    let slots: Vec<SlotId> = (0..4).map(|_| b.arena(DType::F32, &[n.into()], None)).collect();
    let (again, end) = (b.label(), b.label());
    b.launch(k, &[slots[0], slots[3]], &[]); // 0
    b.place_label(again);
    b.branch_if_zero(n, end); // 1
    if parallel {
        b.push(Instruction::Parallel { count: 2 }); // 2
    }
    b.launch(k, &[slots[0], slots[1]], &[]);
    b.launch(k, &[slots[1], slots[2]], &[]);
    b.jump(again);
    b.place_label(end);
    b.may_alias(slots[2], slots[1]);
    b.finish().expect("valid")
}

fn ranges(program: &Program) -> Vec<(u32, u32)> {
    program.plan.iter().map(|entry| (entry.first, entry.last)).collect()
}

#[test]
fn ranges_span_the_loops_that_they_enter() {
    let program = looping(false);
    assert_eq!(ranges(&program), [(0, 4), (2, 3), (3, 3), (0, 0)]);
    assert_eq!(program.plan[2].may_alias, Some(1));
    check_ranges(&program).expect("sound");
}

#[test]
fn ranges_cover_whole_parallel_groups() {
    let program = looping(true);
    assert_eq!(ranges(&program), [(0, 5), (2, 4), (2, 4), (0, 0)]);
    assert_eq!(program.plan[2].may_alias, None);
    check_ranges(&program).expect("sound");
}

#[test]
fn a_range_that_is_too_short_is_found() {
    let mut program = looping(false);
    program.plan[0].last = 2;
    assert!(check_ranges(&program).expect_err("leaves the loop").0.contains("crosses the border"));
    program.plan[0].last = 1;
    assert!(check_ranges(&program).expect_err("used later").0.contains("uses plan entry 0"));
}

#[test]
fn what_an_alias_carries_round_a_loop_lives_through_all_of_it() {
    let mut b = ProgramBuilder::new("m", "test");
    let n = b.register();
    let level = b.level("v");
    let object = b.object(level, "o");
    let entries = vec![EntrySpec { object, symbol: "k".into(), groups: 1.into(), scratch: 0.into(), threads: 0 }];
    let k = b.kernel(&KernelSpec { buffers: 2, entries, ..KernelSpec::default() });
    let [start, next, other] = [0; 3].map(|_| b.arena(DType::F32, &[n.into()], None));
    let state = b.alias(DType::F32, Some(&[n.into()]));
    let (again, end) = (b.label(), b.label());
    b.push(Instruction::Alias { slot: state, source: start, offset: None }); // 0
    b.place_label(again);
    b.branch_if_zero(n, end); // 1
    b.launch(k, &[state, other], &[]); // 2
    b.launch(k, &[other, next], &[]); // 3
    b.push(Instruction::Alias { slot: state, source: next, offset: None }); // 4
    b.jump(again); // 5
    b.place_label(end);
    let mut program = b.finish().expect("valid");
    assert_eq!(ranges(&program), [(0, 5), (0, 5), (2, 3)]);
    check_ranges(&program).expect("sound");
    program.plan[1].last = 4;
    program.plan[1].first = 1;
    assert!(check_ranges(&program).is_err());
}
