//! `oaaxc inspect --html`: an artefact as one page that needs nothing else.
//!
//! Promises: no script, no link, no font from elsewhere; every word of the artefact is escaped; the same
//! artefact gives the same bytes. Sizes that the model leaves open are those of its canary, and said.

use std::collections::BTreeMap;
use std::fmt::Write;

use oaax_abi::{DimBind, InputShape, Instruction, Program, SlotId, SlotKind, Space, place};
use oaaxc_container::{Manifest, Report, Variant};

use super::inspect::show_value;
use super::table::bytes;

/// The most launches that are drawn as a graph.
const DRAWN: usize = 1500;

/// The page: `programs` are the host programs of the manifest's variants, where they could be read.
pub fn page(report: &Report, programs: &[Option<Program>]) -> String {
    let manifest = &report.manifest;
    let sizes = sizes(manifest);
    let mut out = String::new();
    let name = escape(&manifest.name);
    let _ = write!(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{name}</title>");
    let _ = writeln!(out, "<meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>");
    let _ = write!(out, "<h1>{name}</h1><p>by {} {}", escape(&manifest.producer.name), escape(&manifest.producer.version));
    let _ = write!(
        out,
        " · {} in {} files · manifest <code>sha256:{}</code>",
        bytes(report.bytes),
        report.files.len(),
        report.manifest_digest.hex()
    );
    out += if report.bound { "</p>\n" } else { " (not bound by anything outside)</p>\n" };
    signature(&mut out, manifest, &sizes);
    for (variant, program) in manifest.variants.iter().zip(programs) {
        section(&mut out, report, variant, program.as_ref(), &sizes);
    }
    out += "<h2>Files</h2><table><tr><th>file<th>role<th class=n>size</tr>\n";
    for file in &report.files {
        let _ = writeln!(
            out,
            "<tr><td><code>{}</code><td>{}<td class=n>{}</tr>",
            escape(&file.path),
            escape(&file.role),
            bytes(file.size)
        );
    }
    out += "</table></body></html>\n";
    out
}

/// Sizes by symbol: the canary's, else the least that the ranges allow, but at least 1.
fn sizes(manifest: &Manifest) -> BTreeMap<String, i64> {
    let least = manifest.symbols.iter().map(|(name, range)| (name.clone(), range.min.max(1) as i64));
    let mut sizes: BTreeMap<String, i64> = least.collect();
    for canary in manifest.canaries.iter().take(1) {
        sizes.extend(canary.dims.iter().map(|(name, size)| (name.clone(), *size as i64)));
    }
    sizes
}

fn signature(out: &mut String, manifest: &Manifest, sizes: &BTreeMap<String, i64>) {
    *out += "<h2>Inputs and outputs</h2><table>\n";
    for (title, values) in [("input", &manifest.inputs), ("output", &manifest.outputs)] {
        for value in values {
            let _ = writeln!(out, "<tr><td>{title}<td><code>{}</code></tr>", escape(&show_value(value)));
        }
    }
    for (name, range) in &manifest.symbols {
        let max = range.max.map_or_else(|| "∞".into(), |max| max.to_string());
        let shown = sizes.get(name).map_or_else(String::new, |size| format!(", shown here at {size}"));
        let _ = writeln!(out, "<tr><td>size<td><code>{}</code> from {} to {max}{shown}</tr>", escape(name), range.min);
    }
    *out += "</table>\n";
}

fn section(out: &mut String, report: &Report, variant: &Variant, program: Option<&Program>, sizes: &BTreeMap<String, i64>) {
    let needs = &variant.needs;
    let mut wants = needs.arch.clone();
    wants.extend(needs.cpu_levels.iter().cloned());
    wants.extend(needs.device.iter().map(|d| format!("{} {}", d.kind, d.names.join(" "))));
    let _ = write!(
        out,
        "<h2>{}</h2><p>target <code>{}</code>, needs {}",
        escape(&variant.id),
        escape(&variant.target),
        escape(&wants.join(", "))
    );
    for path in variant.objects.iter() {
        let size = report.files.iter().find(|f| f.path == *path).map_or(0, |f| f.size);
        let _ = write!(out, " · <code>{}</code> {}", escape(path), bytes(size));
    }
    *out += "</p>\n";
    let Some(program) = program else {
        *out += "<p>Its files are not in this image.</p>\n";
        return;
    };
    let registers = registers(program, sizes);
    kernels(out, program, &registers);
    memory(out, program, &registers);
    graph(out, program);
}

/// Registers as a run at these sizes sets them, as far as no data decides.
fn registers(program: &Program, sizes: &BTreeMap<String, i64>) -> Vec<i64> {
    let mut registers = vec![0; program.registers as usize];
    for input in &program.inputs {
        let InputShape::Ranked(rules) = &input.shape else { continue };
        for rule in rules {
            let DimBind::Bind(reg) = rule.bind else { continue };
            let named = sizes.get(program.text(rule.symbol)).copied();
            registers[reg.index()] = named.unwrap_or(rule.min.max(1));
        }
    }
    for step in &program.steps {
        let Instruction::Eval { to, value } = step.instruction else { continue };
        if let Ok(value) = program.eval(value, &registers) {
            registers[to.index()] = value;
        }
    }
    registers
}

fn launches(program: &Program) -> impl Iterator<Item = (usize, usize, &Vec<SlotId>, &Vec<oaax_abi::ExprId>)> {
    program.steps.iter().enumerate().filter_map(|(at, step)| match &step.instruction {
        Instruction::Launch { kernel, buffers, dims } => Some((at, kernel.index(), buffers, dims)),
        _ => None,
    })
}

fn kernels(out: &mut String, program: &Program, registers: &[i64]) {
    let mut used = vec![(0usize, 0i64); program.kernels.len()];
    for (_, kernel, _, dims) in launches(program) {
        let dims: Vec<i64> = dims.iter().map(|d| program.eval(*d, registers).unwrap_or(0)).collect();
        let operations = program.eval(program.kernels[kernel].operations, &dims).unwrap_or(0);
        used[kernel].0 += 1;
        used[kernel].1 = used[kernel].1.saturating_add(operations.max(0));
    }
    let total = used.iter().fold(0i64, |sum, u| sum.saturating_add(u.1)).max(1);
    let mut order: Vec<usize> = (0..used.len()).collect();
    order.sort_by_key(|&k| (std::cmp::Reverse(used[k].1), k));
    let _ = writeln!(
        out,
        "<h3>Kernels</h3><p>{} kernels in {} launches, {} operations a run.</p><div class=scroll><table><tr><th>kernel<th>place<th class=n>launches<th class=n>operations<th>share<th>ONNX nodes</tr>",
        used.len(),
        used.iter().map(|u| u.0).sum::<usize>(),
        count(total)
    );
    for k in order {
        let kernel = &program.kernels[k];
        let share = used[k].1 as f64 / total as f64 * 100.0;
        let origin: String = program.text(kernel.origin).chars().take(160).collect();
        let _ = writeln!(
            out,
            "<tr><td><code>{}</code><td>{}<td class=n>{}<td class=n>{}<td class=s><span class=bar style=\"width:{share:.1}px\"></span> {share:.1} %<td class=o>{}</tr>",
            escape(program.text(kernel.name)),
            space(kernel.space),
            used[k].0,
            count(used[k].1),
            escape(&origin)
        );
    }
    *out += "</table></div>\n";
}

fn space(space: Space) -> &'static str {
    match space {
        Space::Host => "host",
        Space::Device => "device",
    }
}

/// The memory plan: time goes right, addresses go up.
fn memory(out: &mut String, program: &Program, registers: &[i64]) {
    *out += "<h3>Memory plan</h3>\n";
    let sizes: Option<Vec<u64>> =
        program.plan.iter().map(|e| program.eval(e.bytes, registers).ok().and_then(|b| u64::try_from(b).ok())).collect();
    let Some((sizes, placement)) = sizes.and_then(|sizes| place(&program.plan, &sizes).map(|p| (sizes, p))) else {
        *out += "<p>Sizes that data decides: placed during the run.</p>\n";
        return;
    };
    let steps = program.steps.len().max(1) as f64;
    for (index, total) in placement.totals.iter().enumerate().filter(|(_, total)| **total > 0) {
        let place = if index == Space::Host.index() { "host" } else { "device" };
        let kept: u64 = program.plan.iter().zip(&sizes).filter(|(e, _)| e.space.index() == index).map(|(_, s)| *s).sum();
        let _ = write!(
            out,
            "<p>{place}: {} for buffers of {} in all; time goes right, addresses go up.</p><svg viewBox=\"0 0 1000 260\" role=\"img\">",
            bytes(*total),
            bytes(kept)
        );
        for (at, entry) in program.plan.iter().enumerate().filter(|(_, e)| e.space.index() == index) {
            let x = f64::from(entry.first) / steps * 1000.0;
            let width = (f64::from(entry.last - entry.first) + 1.0) / steps * 1000.0;
            let height = sizes[at] as f64 / *total as f64 * 250.0;
            let y = 255.0 - (placement.offsets[at] as f64 / *total as f64 * 250.0) - height;
            let hue = at * 47 % 360;
            let _ = write!(
                out,
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"hsl({hue} 55% 55%)\"><title>buffer {at}: {} at {}, instructions {} to {}</title></rect>",
                width.max(0.5),
                height.max(0.5),
                bytes(sizes[at]),
                placement.offsets[at],
                entry.first,
                entry.last
            );
        }
        *out += "</svg>\n";
    }
}

/// Launches in rows by their depth, joined where one reads what another wrote.
fn graph(out: &mut String, program: &Program) {
    let list: Vec<_> = launches(program).collect();
    let _ = writeln!(out, "<h3>Launches</h3>");
    if list.len() > DRAWN {
        let _ = writeln!(out, "<p>{} launches: too many to draw.</p>", list.len());
        return;
    }
    // The last launch that touched a slot comes before the next one; an alias is its source.
    let mut root: BTreeMap<SlotId, SlotId> = BTreeMap::new();
    let mut last: BTreeMap<SlotId, usize> = BTreeMap::new();
    let mut edges = Vec::new();
    let mut depth = vec![0usize; list.len()];
    let mut next = 0;
    for step in &program.steps {
        match &step.instruction {
            Instruction::Alias { slot, source, .. } => {
                let source = *root.get(source).unwrap_or(source);
                root.insert(*slot, source);
            }
            Instruction::Launch { buffers, .. } => {
                for slot in buffers {
                    let slot = *root.get(slot).unwrap_or(slot);
                    let shared = matches!(program.slots[slot.index()].kind, SlotKind::Weight { .. } | SlotKind::Input(_));
                    if shared {
                        continue;
                    }
                    if let Some(from) = last.insert(slot, next).filter(|from| *from != next) {
                        edges.push((from, next));
                        depth[next] = depth[next].max(depth[from] + 1);
                    }
                }
                next += 1;
            }
            _ => {}
        }
    }
    let mut width: BTreeMap<usize, usize> = BTreeMap::new();
    let place: Vec<(usize, usize)> = depth
        .iter()
        .map(|&row| {
            let column = width.entry(row).or_default();
            *column += 1;
            (*column - 1, row)
        })
        .collect();
    let columns = width.values().copied().max().unwrap_or(1);
    let (w, h) = (columns * 190 + 10, (width.len().max(1)) * 44 + 10);
    let _ = write!(out, "<div class=scroll><svg width=\"{w}\" height=\"{h}\" role=\"img\">");
    let centre = |i: usize| (place[i].0 * 190 + 95, place[i].1 * 44);
    for (from, to) in edges {
        let ((x1, y1), (x2, y2)) = (centre(from), centre(to));
        let _ = write!(out, "<line x1=\"{x1}\" y1=\"{}\" x2=\"{x2}\" y2=\"{}\"/>", y1 + 36, y2 + 8);
    }
    for (i, (at, kernel, _, _)) in list.iter().enumerate() {
        let kernel = &program.kernels[*kernel];
        let node = program.steps[*at].node.map_or("", |node| program.text(node));
        let label: String = program.text(kernel.name).chars().take(24).collect();
        let (x, y) = (place[i].0 * 190 + 5, place[i].1 * 44 + 8);
        let class = space(kernel.space);
        let _ = write!(
            out,
            "<g class={class}><rect x=\"{x}\" y=\"{y}\" width=\"180\" height=\"28\" rx=\"5\"/><text x=\"{}\" y=\"{}\">{}</text><title>{} · {} · {class}</title></g>",
            x + 8,
            y + 18,
            escape(&label),
            escape(program.text(kernel.name)),
            escape(node)
        );
    }
    *out += "</svg></div>\n";
}

/// `1.2 G` of a number.
fn count(n: i64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..1_000_000 => format!("{:.1} k", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", n as f64 / 1e6),
        _ => format!("{:.2} G", n as f64 / 1e9),
    }
}

/// Text as HTML.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8886;--soft:#8882}\
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em}\
h2{margin-top:2em;border-bottom:1px solid var(--line)}code{font-size:.92em}\
table{border-collapse:collapse}td,th{padding:.15em .7em;text-align:left;border-bottom:1px solid var(--soft);vertical-align:top}\
.n{text-align:right;white-space:nowrap}.o{color:#888;font-size:.85em}.scroll{overflow:auto;max-height:34em}\
.s{white-space:nowrap}.bar{display:inline-block;height:.7em;background:#47a}svg{display:block;max-width:none;border:1px solid var(--soft)}\
svg[viewBox]{width:100%}svg text{font:11px system-ui,sans-serif;fill:#111}svg line{stroke:#8888}\
.host rect{fill:#bcd}.device rect{fill:#dcb}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_says_is_text_on_the_page() {
        let report_name = "<script>alert(1)</script>&\"\u{7}";
        assert_eq!(escape(report_name), "&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;\u{fffd}");
    }

    #[test]
    fn numbers_are_short() {
        let texts: Vec<String> = [0, 999, 1500, 2_500_000, 3_210_000_000].iter().map(|n| count(*n)).collect();
        assert_eq!(texts, ["0", "999", "1.5 k", "2.5 M", "3.21 G"]);
    }
}
