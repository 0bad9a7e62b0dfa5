//! Hand-made kernels for devices, with the entry that the compiler's have, and artefacts of them.
//!
//! The kernels are LLVM IR text; LLVM's own `llc` and `lld` (of this house's LLVM) make code objects of them.

use crate::{folder, programs::LEVELS, run};
use oaax_abi::{DType, Dim, EntrySpec, Expr, Instruction, KernelId, KernelSpec, Program, ProgramBuilder, SlotId, Space};
use oaaxc_container::{Data, DeviceNeed, Manifest, Needs, Options, Package, PackageFile, Platform, Role, Variant, write_archive};
use std::{
    fs,
    path::Path,
    sync::{Mutex, PoisonError},
};

/// Threads of a group of these kernels.
pub const THREADS: u32 = 64;
/// Elements of a group.
const CHUNK: i64 = 256;

/// A kind of device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gpu {
    /// OpenCL: an archive of SPIR-V modules.
    Spirv,
    /// AMD: one HSACO.
    Gfx942,
    /// NVIDIA: one PTX text.
    Sm80,
}

impl Gpu {
    /// Id of the variant, kind of the device, names that it needs, level, and the file's ending.
    pub fn facts(self) -> (&'static str, &'static str, &'static [&'static str], &'static str, &'static str) {
        match self {
            Gpu::Spirv => ("spirv", "opencl", &[], "spirv64", "spv.a"),
            Gpu::Gfx942 => ("rocm-gfx942", "hip", &["gfx942"], "gfx942", "hsaco"),
            Gpu::Sm80 => ("cuda-sm_80", "cuda", &["sm_80"], "sm_80", "ptx"),
        }
    }

    /// The file of the code object.
    pub fn file(self) -> String {
        let (_, _, _, level, ending) = self.facts();
        format!("{level}.{ending}")
    }

    fn ids(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Gpu::Spirv => (
                "declare spir_func i64 @_Z12get_group_idj(i32)\ndeclare spir_func i64 @_Z12get_local_idj(i32)\n",
                "  %group = call spir_func i64 @_Z12get_group_idj(i32 0)\n  %thread = call spir_func i64 @_Z12get_local_idj(i32 0)\n",
                "spir_kernel",
            ),
            Gpu::Gfx942 => (
                "declare i32 @llvm.amdgcn.workgroup.id.x()\ndeclare i32 @llvm.amdgcn.workitem.id.x()\n",
                "  %g32 = call i32 @llvm.amdgcn.workgroup.id.x()\n  %t32 = call i32 @llvm.amdgcn.workitem.id.x()\n  \
                 %group = zext i32 %g32 to i64\n  %thread = zext i32 %t32 to i64\n",
                "amdgpu_kernel",
            ),
            Gpu::Sm80 => (
                "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\ndeclare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n",
                "  %g32 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n  %t32 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n  \
                 %group = zext i32 %g32 to i64\n  %thread = zext i32 %t32 to i64\n",
                "ptx_kernel",
            ),
        }
    }

    fn target(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Gpu::Spirv => ("spirv64-unknown-unknown", &[]),
            Gpu::Gfx942 => ("amdgcn-amd-amdhsa", &["-mcpu=gfx942"]),
            Gpu::Sm80 => ("nvptx64-nvidia-cuda", &["-mcpu=sm_80"]),
        }
    }
}

/// A hand-made kernel: symbol, buffers, dims, and what it does for element `%i` of the last dim; blocks end at `%latch`.
struct Source {
    symbol: &'static str,
    buffers: u32,
    dims: u32,
    /// Bytes of scratch of a group.
    scratch: i64,
    body: &'static str,
}

const ADD: &str = "
  %px = getelementptr float, ptr addrspace(1) %b0, i64 %i
  %py = getelementptr float, ptr addrspace(1) %b1, i64 %i
  %pz = getelementptr float, ptr addrspace(1) %b2, i64 %i
  %x = load float, ptr addrspace(1) %px
  %y = load float, ptr addrspace(1) %py
  %z = fadd float %x, %y
  store float %z, ptr addrspace(1) %pz
  br label %latch
";
const SCALE: &str = "
  %px = getelementptr float, ptr addrspace(1) %b0, i64 %i
  %pz = getelementptr float, ptr addrspace(1) %b2, i64 %i
  %x = load float, ptr addrspace(1) %px
  %w = load float, ptr addrspace(1) %b1
  %z = fmul float %x, %w
  store float %z, ptr addrspace(1) %pz
  br label %latch
";
const GATHER: &str = "
  %pk = getelementptr i64, ptr addrspace(1) %b1, i64 %i
  %pz = getelementptr float, ptr addrspace(1) %b2, i64 %i
  %k = load i64, ptr addrspace(1) %pk
  %negative = icmp slt i64 %k, 0
  %wrapped = add i64 %k, %d0
  %at = select i1 %negative, i64 %wrapped, i64 %k
  %good = icmp ult i64 %at, %d0
  br i1 %good, label %take, label %bad
bad:
  %pair = cmpxchg ptr addrspace(1) %fault, i32 0, i32 1 monotonic monotonic
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %tell, label %latch
tell:
  %f1 = getelementptr i8, ptr addrspace(1) %fault, i64 4
  %f2 = getelementptr i8, ptr addrspace(1) %fault, i64 8
  %f3 = getelementptr i8, ptr addrspace(1) %fault, i64 12
  %f4 = getelementptr i8, ptr addrspace(1) %fault, i64 16
  %f5 = getelementptr i8, ptr addrspace(1) %fault, i64 24
  store i32 %launch, ptr addrspace(1) %f1
  store i32 1, ptr addrspace(1) %f2
  store i32 0, ptr addrspace(1) %f3
  store i64 %k, ptr addrspace(1) %f4
  store i64 %d0, ptr addrspace(1) %f5
  br label %latch
take:
  %px = getelementptr float, ptr addrspace(1) %b0, i64 %at
  %x = load float, ptr addrspace(1) %px
  store float %x, ptr addrspace(1) %pz
  br label %latch
";
/// Counts in its group's scratch the elements that are not 0, and writes the count; one group, one thread works.
const COUNT: &str = "
  %first = icmp eq i64 %i, 0
  br i1 %first, label %start, label %latch
start:
  store i64 0, ptr addrspace(1) %scratch
  br label %each
each:
  %j = phi i64 [ 0, %start ], [ %j1, %each ]
  %px = getelementptr float, ptr addrspace(1) %b0, i64 %j
  %x = load float, ptr addrspace(1) %px
  %some = fcmp une float %x, 0.0
  %one = zext i1 %some to i64
  %old = load i64, ptr addrspace(1) %scratch
  %new = add i64 %old, %one
  store i64 %new, ptr addrspace(1) %scratch
  %j1 = add i64 %j, 1
  %more = icmp slt i64 %j1, %d0
  br i1 %more, label %each, label %done
done:
  %count = load i64, ptr addrspace(1) %scratch
  store i64 %count, ptr addrspace(1) %b1
  br label %latch
";

const KERNELS: [Source; 4] = [
    Source { symbol: "demo_add_f32", buffers: 3, dims: 1, scratch: 0, body: ADD },
    Source { symbol: "demo_scale_f32", buffers: 3, dims: 1, scratch: 0, body: SCALE },
    Source { symbol: "demo_gather_f32_with_a_long_name", buffers: 3, dims: 2, scratch: 0, body: GATHER },
    Source { symbol: "demo_count_f32", buffers: 2, dims: 1, scratch: 8, body: COUNT },
];

impl Source {
    /// LLVM IR: the groups that were launched share the elements of the last dim.
    fn text(&self, gpu: Gpu) -> String {
        let (_, ids, convention) = gpu.ids();
        let buffers = (0..self.buffers).map(|b| format!("ptr addrspace(1) %b{b}"));
        let dims = (0..self.dims).map(|d| format!("i64 %d{d}"));
        let rest = ["ptr addrspace(1) %scratch", "ptr addrspace(1) %fault", "i64 %launched", "i32 %launch"];
        let parameters: Vec<String> = buffers.chain(dims).chain(rest.map(str::to_owned)).collect();
        let limit = match gpu {
            Gpu::Gfx942 => format!("\"amdgpu-flat-work-group-size\"=\"1,{THREADS}\""),
            Gpu::Sm80 => format!("\"nvvm.maxntid\"=\"{THREADS}\""),
            Gpu::Spirv => String::new(),
        };
        format!(
            "define {convention} void @{}({}) {limit} {{\nentry:\n{ids}  %before = mul i64 %group, {THREADS}\n  \
             %begin = add i64 %before, %thread\n  %stride = mul i64 %launched, {THREADS}\n  br label %head\nhead:\n  \
             %i = phi i64 [ %begin, %entry ], [ %next, %latch ]\n  %inside = icmp slt i64 %i, %d{}\n  \
             br i1 %inside, label %body, label %exit\nbody:{}latch:\n  %next = add i64 %i, %stride\n  br label %head\n\
             exit:\n  ret void\n}}\n",
            self.symbol,
            parameters.join(", "),
            self.dims - 1,
            self.body
        )
    }
}

fn compile(gpu: Gpu, sources: &[&Source], work: &Path) -> Vec<u8> {
    let (triple, options) = gpu.target();
    let kernels: String = sources.iter().map(|source| source.text(gpu)).collect();
    let text = format!("target triple = \"{triple}\"\n{}{kernels}", gpu.ids().0);
    let (input, output) = (work.join("k.ll"), work.join("k.out"));
    fs::write(&input, text).expect("writable folder");
    let form = if gpu == Gpu::Sm80 { "-filetype=asm" } else { "-filetype=obj" };
    let paths = [input.to_str().expect("UTF-8"), "-o", output.to_str().expect("UTF-8")];
    run("llc-22", &[&["-O2", form, "-mtriple", triple], options, &paths[..]].concat());
    if gpu == Gpu::Gfx942 {
        let linked = work.join("k.hsaco");
        run("ld.lld-22", &["-shared", "--no-undefined", paths[2], "-o", linked.to_str().expect("UTF-8")]);
        return fs::read(linked).expect("written by the linker");
    }
    fs::read(output).expect("written by the compiler")
}

/// The code object of all hand-made kernels.
pub fn object(gpu: Gpu) -> Vec<u8> {
    static MADE: Mutex<Vec<(Gpu, Vec<u8>)>> = Mutex::new(Vec::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, bytes)) = made.iter().find(|row| row.0 == gpu) {
        return bytes.clone();
    }
    let work = folder(&format!("gpu-{gpu:?}"));
    let bytes = match gpu {
        Gpu::Spirv => {
            let modules = KERNELS.iter().map(|source| (format!("{}.spv", source.symbol), compile(gpu, &[source], &work)));
            archive(&modules.collect::<Vec<_>>())
        }
        _ => compile(gpu, &KERNELS.iter().collect::<Vec<_>>(), &work),
    };
    made.push((gpu, bytes.clone()));
    bytes
}

/// An `ar` archive in GNU's form with a table of long names.
pub fn archive(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut names = String::new();
    let mut rows = Vec::new();
    for (name, data) in members {
        match name.len() < 16 {
            true => rows.push((format!("{name}/"), data)),
            false => {
                rows.push((format!("/{}", names.len()), data));
                names += &format!("{name}/\n");
            }
        }
    }
    let table = names.into_bytes();
    let all = Some(("//".to_owned(), &table)).filter(|_| !table.is_empty()).into_iter().chain(rows);
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, data) in all {
        bytes.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100644, data.len()).bytes());
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
    }
    bytes
}

/// A builder with the device's level and object, and behind it the host's.
fn builder(name: &str, gpu: Gpu, with_host: bool) -> ProgramBuilder {
    let mut b = ProgramBuilder::new(name, "testkit");
    let device = b.level_in(gpu.facts().3, Space::Device);
    b.object(device, &gpu.file());
    for level in LEVELS.iter().filter(|_| with_host) {
        let index = b.level(level);
        b.object(index, level);
    }
    b
}

fn kernel(b: &mut ProgramBuilder, symbol: &str, groups: Expr) -> KernelId {
    let source = KERNELS.iter().find(|source| source.symbol == symbol).expect("a kernel of this file");
    let entry = EntrySpec { object: 0, symbol: symbol.to_owned(), groups, scratch: source.scratch.into(), threads: THREADS };
    b.kernel(&KernelSpec {
        name: symbol.to_owned(),
        buffers: source.buffers,
        dims: source.dims,
        space: Space::Device,
        entries: vec![entry],
        ..KernelSpec::default()
    })
}

fn chunks(dim: u32) -> Expr {
    Expr::dim(dim).ceil_div(CHUNK)
}

fn copy(b: &mut ProgramBuilder, to: SlotId, from: SlotId) {
    b.push(Instruction::Copy { to, from });
}

/// `z = x × 0.5 + y` on the device: inputs go up, the weight is there, the result comes down. With `with_host` the
/// sum is taken on the host.
pub fn scaled_sum(gpu: Gpu, with_host: bool) -> Program {
    let mut b = builder("scaled_sum", gpu, with_host);
    let n = b.register();
    let x = b.input("x", DType::F32, &[Dim::bind(n, "N").within(1, 1 << 24, 1)]);
    let y = b.input("y", DType::F32, &[Dim::expect(n, "N")]);
    let w = b.weight(DType::F32, &[], 0, 64, 4);
    let w = b.on_device(w);
    let [dx, dy, t, dz] = [0; 4].map(|_| {
        let slot = b.arena(DType::F32, &[n.into()], None);
        b.on_device(slot)
    });
    let z = b.output("z", DType::F32, &[(n.into(), "N")]);
    let (scale, add) = (kernel(&mut b, "demo_scale_f32", chunks(0)), kernel(&mut b, "demo_add_f32", chunks(0)));
    b.node("Mul_0");
    copy(&mut b, dx, x);
    b.launch(scale, &[dx, w, t], &[n.into()]);
    b.node("Add_1");
    if with_host {
        let host = b.arena(DType::F32, &[n.into()], None);
        let entries = (0..LEVELS.len() as u32).map(|level| EntrySpec {
            object: level + 1,
            symbol: "demo_add_f32".to_owned(),
            groups: Expr::dim(0).ceil_div(1024),
            scratch: 0.into(),
            threads: 0,
        });
        let name = "host_add".to_owned();
        let spec = KernelSpec { name, buffers: 3, dims: 1, entries: entries.collect(), ..KernelSpec::default() };
        let on_host = b.kernel(&spec);
        copy(&mut b, host, t);
        b.launch(on_host, &[host, y, z], &[n.into()]);
        return b.finish().expect("a valid program");
    }
    copy(&mut b, dy, y);
    b.launch(add, &[t, dy, dz], &[n.into()]);
    copy(&mut b, z, dz);
    b.finish().expect("a valid program")
}

/// `z[M] = x[index[M]]`: faults that the device records; and the count of what is not 0 in `x`, read through a cell.
pub fn gather(gpu: Gpu) -> Program {
    let mut b = builder("gather", gpu, false);
    let (n, m, k) = (b.register(), b.register(), b.register());
    let x = b.input("x", DType::F32, &[Dim::bind(n, "N")]);
    let index = b.input("index", DType::I64, &[Dim::bind(m, "M")]);
    let z = b.output("z", DType::F32, &[(m.into(), "M")]);
    let count = b.output("count", DType::I64, &[(1.into(), "")]);
    let mut device = |dtype, dim: Expr| {
        let slot = b.arena(dtype, &[dim], None);
        b.on_device(slot)
    };
    let (dx, dindex, dz) = (device(DType::F32, n.into()), device(DType::I64, m.into()), device(DType::F32, m.into()));
    let dcount = device(DType::I64, 1.into());
    let gather = kernel(&mut b, "demo_gather_f32_with_a_long_name", chunks(1));
    let counter = kernel(&mut b, "demo_count_f32", 1.into());
    let zero = b.expr(0);
    b.node("Count_0");
    copy(&mut b, dx, x);
    b.push(Instruction::WriteCell { slot: dcount, index: zero, value: zero });
    b.launch(counter, &[dx, dcount], &[n.into()]);
    b.push(Instruction::ReadCell { to: k, slot: dcount, index: zero });
    let value = b.expr(k);
    b.push(Instruction::WriteCell { slot: count, index: zero, value });
    b.node("Gather_1");
    copy(&mut b, dindex, index);
    b.launch(gather, &[dx, dindex, dz], &[n.into(), m.into()]);
    copy(&mut b, z, dz);
    b.finish().expect("a valid program")
}

/// `y` = x + x + … by a loop over heap values of the device and an alias carried round it; the values of each turn
/// also go into a sequence, which comes out.
pub fn repeated_sum(gpu: Gpu) -> Program {
    let mut b = builder("repeated_sum", gpu, false);
    let (n, times, done) = (b.register(), b.register(), b.register());
    let x = b.input("x", DType::F32, &[Dim::bind(n, "N")]);
    let count = b.input("times", DType::I64, &[]);
    let y = b.output("y", DType::F32, &[(n.into(), "N")]);
    let list = b.sequence(DType::F32);
    b.output_from("turns", list, None);
    let dx = b.arena(DType::F32, &[n.into()], None);
    let dx = b.on_device(dx);
    let next = b.heap(DType::F32, Some(&[n.into()]), None);
    let next = b.on_device(next);
    let state = b.alias(DType::F32, Some(&[n.into()]));
    let state = b.on_device(state);
    b.output_from("last", state, Some(&[(n.into(), "N")]));
    let add = kernel(&mut b, "demo_add_f32", chunks(0));
    let zero = b.expr(0);
    b.node("Loop_0");
    b.push(Instruction::ReadCell { to: times, slot: count, index: zero });
    copy(&mut b, dx, x);
    let (again, end) = (b.label(), b.label());
    b.push(Instruction::Alias { slot: state, source: dx, offset: Some(zero) });
    b.eval(done, 1);
    b.place_label(again);
    b.branch_if_zero(Expr::from(done).less(times), end);
    b.push(Instruction::Alloc { slot: next, like: None });
    b.launch(add, &[state, dx, next], &[n.into()]);
    b.push(Instruction::Alias { slot: state, source: next, offset: None });
    b.push(Instruction::SequencePush { cell: list, item: state });
    b.eval(done, Expr::from(done).plus(1));
    b.jump(again);
    b.place_label(end);
    copy(&mut b, y, state);
    b.finish().expect("a valid program")
}

/// A package of variants for devices, best first, and behind them perhaps the CPU's (`cpu`, over the C kernels).
pub fn package(variants: &[(Gpu, Program)], cpu: Option<&Program>, fallback: Option<&str>) -> Package {
    let name = variants.first().map(|row| &row.1).or(cpu).map_or(String::new(), |program| program.name.clone());
    let mut weights = vec![0u8; 4096];
    weights[64..68].copy_from_slice(&0.5f32.to_le_bytes());
    let (mut manifest, mut files) = (Manifest::new(name, "0.1.0"), Vec::new());
    let mut file =
        |path: &str, role: Role, bytes: Vec<u8>| files.push(PackageFile { path: path.to_owned(), role, data: Data::from(bytes) });
    file("weights/0.bin", Role::Weights, weights);
    let arch = oaax_arch();
    let all = variants.iter().map(|(gpu, program)| (Some(*gpu), program)).chain(cpu.map(|program| (None, program)));
    for (gpu, program) in all {
        let (id, kind, names, ..) = gpu.map_or(("cpu", "", &[][..], "", ""), Gpu::facts);
        let role = || Role::Target(id.to_owned());
        let folder = format!("targets/{id}");
        file(&format!("{folder}/program.bin"), role(), program.encode());
        let mut objects = Vec::new();
        for object in &program.objects {
            let level = program.levels[object.level as usize];
            let (path, bytes) = match (level.space, gpu) {
                (Space::Device, Some(gpu)) => (format!("{folder}/{}", gpu.file()), crate::gpu::object(gpu)),
                _ => {
                    let name = program.text(level.name).replace('+', "-");
                    (format!("{folder}/{name}.so"), crate::demo_object().to_vec())
                }
            };
            file(&path, role(), bytes);
            objects.push(path);
        }
        let device = gpu.map(|_| DeviceNeed {
            kind: kind.to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            memory: None,
        });
        manifest.variants.push(Variant {
            id: id.to_owned(),
            target: id.replacen('-', ":", 1),
            needs: Needs { arch: vec![arch.to_owned()], device, ..Needs::default() },
            program: format!("{folder}/program.bin"),
            objects,
            weights: vec!["weights/0.bin".to_owned()],
            ..Variant::default()
        });
    }
    if let Some(policy) = fallback {
        manifest.fallback.policy = policy.to_owned();
    }
    Package { manifest, files, platforms: vec![Platform::linux(arch)], options: Options::default() }
}

fn oaax_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Writes such a package as `model.oaax`.
pub fn write(path: &Path, variants: &[(Gpu, Program)], cpu: Option<&Program>, fallback: Option<&str>) {
    write_archive(&package(variants, cpu, fallback), path).expect("the archive is written");
}
