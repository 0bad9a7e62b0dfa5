//! OAAX 2.0 as a host sees it: the nine functions behind a door, and tensors as both sides pass them.

mod lifecycle;
mod loading;
mod requests;
mod robustness;

use crate::{
    door::Door,
    subject::{Check, Diary, Port, Stop, Subject, Use, ensure},
};
use oaax_core::abi::DType;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// The names of the interface.
pub const NAMES: [&str; 9] = [
    "runtime_cleanup",
    "runtime_enqueue_input",
    "runtime_get_error",
    "runtime_get_info",
    "runtime_get_name",
    "runtime_get_version",
    "runtime_init",
    "runtime_load_models",
    "runtime_retrieve_output",
];

/// The version node that the reference gives its symbols.
pub const NODE: &str = "OAAX_V2";

#[rustfmt::skip] // One rule a line.
pub const RULES: &[crate::Rule] = &[
    rule("R2-1", "exactly the nine functions are exported", robustness::exports),
    rule("R2-3", "name and version stand at any time; the version is SemVer", lifecycle::names),
    rule("R2-4", "calls before init say so", lifecycle::before_init),
    rule("R2-5", "init: twice, without arrays, unknown keys, bad values", lifecycle::init),
    rule("R2-6", "nothing is printed or written unasked; an unwritable log is no failure", lifecycle::silence),
    rule("R2-7", "after init and before load: no models", lifecycle::before_load),
    rule("R2-8", "load: wrong arguments, missing, garbage, all or nothing, twice", loading::errors),
    rule("R2-9", "a model from memory equals one from a file; nothing of the caller is needed later", loading::memory),
    rule("R2-10", "several models have the ids 0, 1 in their order", loading::several),
    rule("R2-11", "wrong inputs are refused with their codes and stay the caller's", requests::wrong_inputs),
    rule("R2-12", "enqueue does not wait; a hundred requests may be outstanding", requests::queue),
    rule("R2-13", "many threads: each id comes once, with its own results", requests::threads),
    rule("R2-14", "retrieve: poll, wait, block, and NULL pointers", requests::timeouts),
    rule("R2-15", "outputs are whole, and the caller's to free block by block", requests::outputs),
    rule("R2-16", "a request that fails is reported", requests::failure),
    rule("R2-17", "cleanup wakes, frees and joins", lifecycle::cleanup),
    rule("R2-18", "a hundred cycles are flat in memory and descriptors; cleanup is idempotent", lifecycle::cycles),
    rule("R2-19", "dlclose really unmaps, after cleanup", lifecycle::unload),
    rule("R2-19b", "dlclose and exit without cleanup do not crash", lifecycle::abandon),
    rule("R2-20", "two copies in one process do not interfere", robustness::two_copies),
    rule("R2-21", "no arguments and no damaged model crash it", robustness::fuzz),
    rule("R2-22", "the information is a compact JSON object with the three standard keys", robustness::info),
    rule("R2-23", "the upstream form of a host works: forty requests, unthrottled", requests::upstream),
];

/// No rule: whether a model can be used for the checks at all.
pub const LOADS: crate::Rule = rule("loads-2", "the model loads and runs", requests::loads);

const fn rule(id: &'static str, title: &'static str, run: fn(&Subject, &Diary) -> Check) -> crate::Rule {
    crate::Rule { id, title, run }
}

#[repr(C)]
pub struct Descriptor {
    pub name: *mut c_char,
    pub dtype: c_int,
    pub rank: c_int,
    pub shape: *mut c_int,
    pub bytes: usize,
    pub data: *mut c_void,
}

#[repr(C)]
pub struct Tensors {
    pub id: c_int,
    pub count: c_int,
    pub tensors: *mut Descriptor,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Config {
    pub length: c_int,
    pub keys: *const *const c_char,
    pub values: *const *const c_char,
}

impl Config {
    pub const NONE: Config = Config { length: 0, keys: std::ptr::null(), values: std::ptr::null() };
}

#[repr(C)]
pub struct ModelConfig {
    pub path: *const c_char,
    pub data: *const u8,
    pub size: usize,
    pub config: Config,
}

/// The nine functions.
pub struct Host {
    door: Door,
    init: unsafe extern "C" fn(Config) -> c_int,
    load: unsafe extern "C" fn(c_int, *const ModelConfig) -> c_int,
    enqueue: unsafe extern "C" fn(c_int, *mut Tensors) -> c_int,
    retrieve: unsafe extern "C" fn(*mut c_int, *mut *mut Tensors, c_int) -> c_int,
    cleanup: unsafe extern "C" fn() -> c_int,
    texts: [unsafe extern "C" fn() -> *const c_char; 4],
}

/// Tensors of ours, or an output that is ours to free.
pub struct Owned(pub *mut Tensors);

// SAFETY: plain memory with one owner.
unsafe impl Send for Owned {}

/// What `retrieve` gave.
pub struct Retrieved {
    pub status: c_int,
    pub model: c_int,
    pub output: Option<Owned>,
}

impl Host {
    /// Opens the library.
    pub fn open(path: &std::path::Path, diary: &Diary) -> Result<Host, Stop> {
        diary.step("dlopen");
        let door = Door::open(path)?;
        let at = |name: &str| door.symbol(name);
        // SAFETY: the interface gives these names these types.
        unsafe {
            use std::mem::transmute as cast;
            Ok(Host {
                init: cast::<*mut c_void, unsafe extern "C" fn(Config) -> c_int>(at("runtime_init")?),
                load: cast::<*mut c_void, unsafe extern "C" fn(c_int, *const ModelConfig) -> c_int>(at("runtime_load_models")?),
                enqueue: cast::<*mut c_void, unsafe extern "C" fn(c_int, *mut Tensors) -> c_int>(at("runtime_enqueue_input")?),
                retrieve: cast::<*mut c_void, unsafe extern "C" fn(*mut c_int, *mut *mut Tensors, c_int) -> c_int>(at(
                    "runtime_retrieve_output",
                )?),
                cleanup: cast::<*mut c_void, unsafe extern "C" fn() -> c_int>(at("runtime_cleanup")?),
                texts: [
                    cast::<*mut c_void, unsafe extern "C" fn() -> *const c_char>(at("runtime_get_error")?),
                    cast::<*mut c_void, unsafe extern "C" fn() -> *const c_char>(at("runtime_get_version")?),
                    cast::<*mut c_void, unsafe extern "C" fn() -> *const c_char>(at("runtime_get_name")?),
                    cast::<*mut c_void, unsafe extern "C" fn() -> *const c_char>(at("runtime_get_info")?),
                ],
                door,
            })
        }
    }

    /// `runtime_init` with these keys.
    pub fn init(&self, entries: &[(Option<&str>, Option<&str>)]) -> c_int {
        let text = |text: Option<&str>| text.map(|text| CString::new(text).unwrap_or_default());
        let kept: Vec<_> = entries.iter().map(|(key, value)| (text(*key), text(*value))).collect();
        let start = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        let keys: Vec<_> = kept.iter().map(|(key, _)| start(key)).collect();
        let values: Vec<_> = kept.iter().map(|(_, value)| start(value)).collect();
        self.init_raw(Config { length: entries.len() as c_int, keys: keys.as_ptr(), values: values.as_ptr() })
    }

    /// `runtime_init` with this very struct.
    pub fn init_raw(&self, config: Config) -> c_int {
        // SAFETY: arrays as the interface says, or wrong in a way that it must bear.
        unsafe { (self.init)(config) }
    }

    /// `runtime_load_models` with these very arguments.
    pub fn load_raw(&self, count: c_int, configs: *const ModelConfig) -> c_int {
        // SAFETY: as above.
        unsafe { (self.load)(count, configs) }
    }

    /// Loads files.
    pub fn load(&self, paths: &[&std::path::Path]) -> c_int {
        let text = |path: &&std::path::Path| CString::new(path.to_string_lossy().as_bytes()).unwrap_or_default();
        let texts: Vec<CString> = paths.iter().map(text).collect();
        let config = |text: &CString| ModelConfig { path: text.as_ptr(), data: std::ptr::null(), size: 0, config: Config::NONE };
        let configs: Vec<ModelConfig> = texts.iter().map(config).collect();
        self.load_raw(configs.len() as c_int, configs.as_ptr())
    }

    /// Loads a model from memory.
    pub fn load_memory(&self, bytes: &[u8]) -> c_int {
        let config = ModelConfig { path: std::ptr::null(), data: bytes.as_ptr(), size: bytes.len(), config: Config::NONE };
        self.load_raw(1, &config)
    }

    /// `runtime_enqueue_input` with this very pointer.
    pub fn enqueue_raw(&self, model: c_int, tensors: *mut Tensors) -> c_int {
        // SAFETY: as above.
        unsafe { (self.enqueue)(model, tensors) }
    }

    /// Hands tensors over; a refusal gives them back.
    pub fn enqueue(&self, model: c_int, tensors: Owned) -> Result<(), (c_int, Owned)> {
        match self.enqueue_raw(model, tensors.0) {
            0 => {
                std::mem::forget(tensors);
                Ok(())
            }
            status => Err((status, tensors)),
        }
    }

    /// `runtime_retrieve_output`.
    pub fn retrieve(&self, timeout: c_int) -> Retrieved {
        let (mut model, mut output) = (-77, std::ptr::null_mut());
        // SAFETY: two places of ours.
        let status = unsafe { (self.retrieve)(&mut model, &mut output, timeout) };
        Retrieved { status, model, output: (!output.is_null() && status == 0).then(|| Owned(output)) }
    }

    /// `runtime_retrieve_output` with these very pointers.
    pub fn retrieve_raw(&self, model: *mut c_int, output: *mut *mut Tensors, timeout: c_int) -> c_int {
        // SAFETY: places of the caller, or null, which must be borne.
        unsafe { (self.retrieve)(model, output, timeout) }
    }

    pub fn cleanup(&self) -> c_int {
        // SAFETY: no arguments.
        unsafe { (self.cleanup)() }
    }

    fn text(&self, index: usize) -> Option<String> {
        // SAFETY: gives null or a string that stands until the next call.
        unsafe {
            let text = (self.texts[index])();
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }

    pub fn error(&self) -> Option<String> {
        self.text(0)
    }

    pub fn version(&self) -> Option<String> {
        self.text(1)
    }

    pub fn name(&self) -> Option<String> {
        self.text(2)
    }

    pub fn info(&self) -> Option<String> {
        self.text(3)
    }

    /// Closes the library and says whether it is really gone.
    pub fn close(self) -> Result<(), String> {
        self.door.close()
    }

    /// Init and load of the subject's model, as every check of requests begins.
    pub fn ready(&self, model: &Use, diary: &Diary) -> Check {
        diary.step("runtime_init({0, NULL, NULL})");
        let status = self.init_raw(Config::NONE);
        ensure!(status == 0, "runtime_init gives {status}: {}", self.error().unwrap_or_default());
        diary.step("runtime_load_models(1, the model)");
        let status = self.load(&[&model.path]);
        ensure!(status == 0, "the model does not load, {status}: {}", self.error().unwrap_or_default());
        Ok(())
    }

    /// Runs one request to its end and gives the output's blocks, checked for form.
    pub fn run(&self, index: c_int, model: &Use, id: c_int, seed: u64) -> Result<Vec<Answer>, Stop> {
        let taken = self.enqueue(index, request(&model.inputs, id, seed));
        if let Err((status, _)) = taken {
            return Err(Stop::Broken(format!("enqueue of a good input gives {status}: {}", self.error().unwrap_or_default())));
        }
        let retrieved = self.retrieve(WAIT);
        let Some(output) = retrieved.output else {
            let error = self.error().unwrap_or_default();
            return Err(Stop::Broken(format!("retrieve({WAIT}) of a good request gives {}: {error}", retrieved.status)));
        };
        ensure!(retrieved.model == index, "an output of model {index} is said to be of model {}", retrieved.model);
        ensure!(output.id() == id, "the output of request {id} has the id {}", output.id());
        let answers = output.answers()?;
        check_answer(model, seed, &answers)?;
        Ok(answers)
    }
}

/// How long a good request may take, in milliseconds.
pub const WAIT: c_int = 20_000;

/// The model that most checks need.
pub fn model(subject: &Subject) -> Result<&Use, Stop> {
    subject.model.as_ref().ok_or_else(|| Stop::Skipped("no model that the library loads is given (--model)".to_owned()))
}

/// One output tensor, copied.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    pub name: String,
    pub dtype: c_int,
    pub shape: Vec<c_int>,
    pub data: Vec<u8>,
}

/// A block of the C heap with these bytes.
pub fn block(bytes: &[u8]) -> *mut c_void {
    // SAFETY: a new block of at least as many bytes.
    unsafe {
        let start = libc::malloc(bytes.len().max(1));
        assert!(!start.is_null(), "a few bytes of memory are there");
        bytes.as_ptr().copy_to_nonoverlapping(start.cast(), bytes.len());
        start
    }
}

/// A request with the contents of `seed`, every block its own.
pub fn request(inputs: &[Port], id: c_int, seed: u64) -> Owned {
    let descriptor = |port: &Port| {
        let name = CString::new(port.name.as_str()).unwrap_or_default();
        let shape: Vec<u8> = port.shape.iter().flat_map(|size| (*size as c_int).to_ne_bytes()).collect();
        Descriptor {
            name: block(name.as_bytes_with_nul()).cast(),
            dtype: port.dtype as c_int,
            rank: port.shape.len() as c_int,
            shape: block(&shape).cast(),
            bytes: port.bytes(),
            data: block(&port.data(seed)),
        }
    };
    // SAFETY: new blocks of the right sizes, filled at once.
    unsafe {
        let array: *mut Descriptor = libc::malloc(inputs.len().max(1) * size_of::<Descriptor>()).cast();
        let tensors: *mut Tensors = libc::malloc(size_of::<Tensors>()).cast();
        assert!(!array.is_null() && !tensors.is_null(), "a few bytes of memory are there");
        inputs.iter().enumerate().for_each(|(index, port)| array.add(index).write(descriptor(port)));
        tensors.write(Tensors { id, count: inputs.len() as c_int, tensors: array });
        Owned(tensors)
    }
}

impl Owned {
    pub fn id(&self) -> c_int {
        // SAFETY: valid while we own it.
        unsafe { (*self.0).id }
    }

    /// The descriptors, to be spoilt by a check.
    pub fn descriptors(&mut self) -> &mut [Descriptor] {
        // SAFETY: the array has as many entries.
        unsafe { std::slice::from_raw_parts_mut((*self.0).tensors, (*self.0).count as usize) }
    }

    /// Copies of the tensors. Errors: the form is not what the interface promises.
    pub fn answers(&self) -> Result<Vec<Answer>, Stop> {
        // SAFETY: an output is ours; pointers are checked before use.
        unsafe {
            let tensors = &*self.0;
            ensure!(tensors.count >= 0 && (tensors.count == 0 || !tensors.tensors.is_null()), "an output has no tensors");
            let mut answers: Vec<Answer> = Vec::new();
            for index in 0..tensors.count as usize {
                let t = &*tensors.tensors.add(index);
                ensure!(!t.name.is_null(), "output {index} has no name");
                let name = CStr::from_ptr(t.name).to_string_lossy().into_owned();
                ensure!(t.rank >= 0 && (t.rank == 0 || !t.shape.is_null()), "output {name:?} has no shape");
                let shape = if t.rank == 0 { &[][..] } else { std::slice::from_raw_parts(t.shape, t.rank as usize) };
                ensure!(shape.iter().all(|size| *size >= 0), "output {name:?} has the shape {shape:?}");
                let dtype = u32::try_from(t.dtype).ok().and_then(DType::from_onnx);
                let elements = shape.iter().map(|size| *size as u64).product();
                let wanted = dtype.and_then(|dtype| dtype.bytes(elements));
                ensure!(
                    wanted == Some(t.bytes as u64),
                    "output {name:?} of type {} and shape {shape:?} has data_size {}, not {wanted:?}",
                    t.dtype,
                    t.bytes
                );
                ensure!(t.bytes == 0 || !t.data.is_null(), "output {name:?} has no data");
                ensure!(answers.iter().all(|other| other.name != name), "two outputs are called {name:?}");
                let data = if t.bytes == 0 { &[][..] } else { std::slice::from_raw_parts(t.data.cast::<u8>(), t.bytes) };
                answers.push(Answer { name, dtype: t.dtype, shape: shape.to_vec(), data: data.to_vec() });
            }
            Ok(answers)
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: block by block, as the interface says; a library that hands out anything else crashes here, in a process made for it.
        unsafe {
            for index in 0..(*self.0).count.max(0) as usize {
                let tensor = (*self.0).tensors.add(index);
                libc::free((*tensor).name.cast());
                libc::free((*tensor).shape.cast());
                libc::free((*tensor).data);
            }
            libc::free((*self.0).tensors.cast());
            libc::free(self.0.cast());
        }
    }
}

/// Whether the answer is what the model computes, where that is known.
pub fn check_answer(model: &Use, seed: u64, answers: &[Answer]) -> Check {
    if model.doubles {
        let numbers = |bytes: &[u8]| -> Vec<f32> {
            bytes.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
        };
        let wanted: Vec<f32> = numbers(&model.inputs[0].data(seed)).iter().map(|number| number * 2.0).collect();
        let found = answers.first().map(|answer| numbers(&answer.data)).unwrap_or_default();
        ensure!(found == wanted, "x + x is {found:?} where {wanted:?} is right");
    }
    Ok(())
}

/// Whether two answers to one request agree, floats but nearly.
pub fn agree(one: &[Answer], other: &[Answer]) -> bool {
    let same = |(a, b): (&Answer, &Answer)| {
        let form = a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.data.len() == b.data.len();
        let float = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let near = |(x, y): (&[u8], &[u8])| x == y || (float(x) - float(y)).abs() <= 1e-3 * float(x).abs().max(1.0);
        form && (a.data == b.data || (a.dtype == 1 && a.data.chunks_exact(4).zip(b.data.chunks_exact(4)).all(near)))
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}
