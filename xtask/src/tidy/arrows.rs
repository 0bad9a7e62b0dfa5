//! The arrows between rooms: a floor uses only floors below, and each guest stays in its room.
//!
//! Edges of tests do not count: a test may look at its room from above.

use super::workspace::Workspace;

/// `from` never uses `to`. A name that ends in `/` means every room below it, `*` every room.
struct Never {
    from: &'static str,
    to: &'static str,
    except_from: &'static [&'static str],
    why: &'static str,
}

const fn never(from: &'static str, to: &'static str, why: &'static str) -> Never {
    Never { from, to, except_from: &[], why }
}

/// Targets that are shared floors, not leaves.
const SHARED_TARGETS: &[&str] = &["targets/api", "targets/emit", "targets/llvm", "targets/gpu"];

#[rustfmt::skip] // One arrow a line.
const NEVER: &[Never] = &[
    Never { from: "*", to: "compiler/driver", except_from: &["tests/", "xtask"], why: "the driver is the roof" },
    never("*", "xtask", "chores are no part of the product"),
    never("compiler/base", "compiler/", "base knows nothing of tensors"),
    never("compiler/base", "passes", "base is the lowest floor"),
    never("compiler/base", "targets/", "base is the lowest floor"),
    never("compiler/base", "container", "base is the lowest floor"),
    never("compiler/ir", "compiler/ops", "the IR knows no operator"),
    never("compiler/ir", "compiler/onnx", "the IR knows no file format"),
    never("compiler/ir", "passes", "passes stand on the IR"),
    never("compiler/ir", "targets/", "the IR knows no target"),
    never("compiler/ir", "container", "the IR knows no container"),
    never("compiler/ops", "compiler/onnx", "operators know no file format"),
    never("compiler/ops", "passes", "passes stand on the operators"),
    never("compiler/ops", "targets/", "operators read the device description, not a target"),
    never("compiler/ops", "container", "operators know no container"),
    never("compiler/onnx", "passes", "the importer hands over a graph and stops"),
    never("compiler/onnx", "targets/", "the importer knows no target"),
    never("compiler/onnx", "container", "the importer knows no container"),
    never("passes", "compiler/onnx", "passes see graphs, not files"),
    never("passes", "targets/", "passes read the device description, not a target"),
    never("passes", "container", "passes know no container"),
    never("targets/", "compiler/onnx", "targets see kernels, not files"),
    never("targets/", "passes", "a target gets a planned program"),
    never("targets/", "container", "the driver packs what targets give"),
    never("runtime-abi/", "compiler/", "the runtime knows nothing of the compiler"),
    never("runtime-abi/", "passes", "the runtime knows nothing of the compiler"),
    never("runtime-abi/", "targets/", "the runtime knows nothing of the compiler"),
    never("runtime-abi/", "container", "the runtime has its own reader of mapped files"),
    never("runtime-abi/", "container/", "the runtime speaks to no network and keeps no keys"),
    never("container", "container/registry", "packing needs no network"),
    never("container", "container/trust", "packing knows no keys"),
    never("container/trust", "container/registry", "trust is about bytes; callers bring them"),
    never("container/registry", "container/trust", "carrying knows no keys"),
    never("container", "compiler/ir", "the container never sees a graph"),
    never("container", "compiler/ops", "the container never sees a graph"),
    never("container", "compiler/onnx", "the container never sees a graph"),
    never("container", "passes", "the container never sees a graph"),
    never("container", "targets/", "the container packs bytes"),
];

/// A guest from outside and the only rooms that may name it.
struct Guest {
    name: &'static str,
    rooms: &'static [&'static str],
}

#[rustfmt::skip] // One guest a line.
const GUESTS: &[Guest] = &[
    Guest { name: "melior", rooms: &["targets/llvm"] },
    Guest { name: "mlir-sys", rooms: &["targets/llvm"] },
    Guest { name: "inkwell", rooms: &["targets/llvm"] },
    Guest { name: "llvm-sys", rooms: &["targets/llvm"] },
    Guest { name: "clap", rooms: &["compiler/driver"] },
    Guest { name: "signal-hook", rooms: &["compiler/driver"] },
    Guest { name: "prost", rooms: &["compiler/onnx", "targets/api", "targets/plugin", "tests/"] },
    Guest { name: "ureq", rooms: &["container/registry"] },
    Guest { name: "p256", rooms: &["container/trust"] },
    Guest { name: "ed25519-dalek", rooms: &["container/trust"] },
    Guest { name: "petgraph", rooms: &["compiler/ir", "compiler/base", "passes"] },
    Guest { name: "serde", rooms: &["container", "container/", "compiler/driver", "tests/", "xtask"] },
];

/// All that may end in the runtime's libraries beside its own rooms: it must stay small enough to
/// read, and must not drag the compiler in.
#[rustfmt::skip] // One kind a line.
const RUNTIME_GUESTS: &[&str] = &[
    "libc", "memmap2", "sha2", "digest", "block-buffer", "crypto-common", "generic-array", "typenum", "cpufeatures", "cfg-if",
    // Features of `digest` that container/trust asks for; they are in the tree of the whole workspace only, and the
    // runtime built by itself (scripts/build-runtime, with a limit on its size) has none of them.
    "const-oid", "subtle", "zeroize",
];

/// Rooms whose programs users run: the independent decoder of the tests must not be in them.
const SHIPPED: &[&str] = &["compiler/driver", "runtime-abi/"];

fn is_in(room: &str, pattern: &str) -> bool {
    match pattern {
        "*" => true,
        _ if pattern.ends_with('/') => room.starts_with(pattern),
        _ => room == pattern,
    }
}

/// Every arrow that must not be there.
pub fn check(workspace: &Workspace) -> Vec<String> {
    let mut faults = Vec::new();
    for (room, package) in workspace.members() {
        for used in package.uses.iter().map(|id| &workspace.packages[id]) {
            match &used.room {
                Some(other) => faults.extend(arrow(room, other)),
                None => faults.extend(guest(room, &used.name)),
            }
        }
        let linked = workspace.linked(package);
        if SHIPPED.iter().any(|shipped| is_in(room, shipped)) && linked.iter().any(|p| p.name == "protobuf") {
            faults.push(format!("{room}: links protobuf, which is for tests alone"));
        }
        if is_in(room, "runtime-abi/") {
            for other in linked {
                if other.room.is_none() && !RUNTIME_GUESTS.contains(&other.name.as_str()) {
                    faults.push(format!("{room}: links {}, and the runtime's tree stays tiny", other.name));
                }
            }
        }
    }
    faults
}

fn arrow(from: &str, to: &str) -> Option<String> {
    let is_leaf = |room: &str| is_in(room, "targets/") && !SHARED_TARGETS.contains(&room);
    if is_leaf(to) && is_in(from, "targets/") {
        return Some(format!("{from} uses {to}: one target never knows another, they share emit, llvm and gpu"));
    }
    let broken = NEVER.iter().find(|never| {
        from != to
            && is_in(from, never.from)
            && is_in(to, never.to)
            && !never.except_from.iter().any(|except| is_in(from, except))
    })?;
    Some(format!("{from} uses {to}: {}", broken.why))
}

fn guest(room: &str, name: &str) -> Option<String> {
    let guest = GUESTS.iter().find(|guest| guest.name == name)?;
    let allowed = guest.rooms.iter().any(|pattern| is_in(room, pattern));
    (!allowed).then(|| format!("{room} uses {name}: it belongs to {} alone", guest.rooms.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_that_points_up_is_a_fault() {
        assert!(arrow("compiler/ir", "compiler/ops").is_some());
        assert!(arrow("compiler/ops", "compiler/ir").is_none());
        assert!(arrow("passes", "targets/cpu").is_some());
        assert!(arrow("runtime-abi/core", "compiler/base").is_some());
        assert!(arrow("runtime-abi/core", "runtime-abi/abi").is_none());
        assert!(arrow("passes", "runtime-abi/abi").is_none());
    }

    #[test]
    fn only_tests_stand_on_the_driver() {
        assert!(arrow("tests/conformance", "compiler/driver").is_none());
        assert!(arrow("container", "compiler/driver").is_some());
    }

    #[test]
    fn a_leaf_target_uses_shared_floors_only() {
        assert!(arrow("targets/cpu", "targets/llvm").is_none());
        assert!(arrow("targets/cpu", "targets/rocm").is_some());
        assert!(arrow("targets/api", "targets/cpu").is_some());
        assert!(arrow("compiler/driver", "targets/cpu").is_none());
    }

    #[test]
    fn a_guest_outside_its_room_is_a_fault() {
        assert!(guest("targets/llvm", "melior").is_none());
        assert!(guest("targets/cpu", "melior").is_some());
        assert!(guest("compiler/ir", "serde").is_some());
        assert!(guest("compiler/ir", "half").is_none());
    }
}
