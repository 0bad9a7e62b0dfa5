//! OAAX 1.x as a host sees it: the nine functions behind a door, and the struct of arrays.

mod rules;

use crate::{
    door::Door,
    subject::{Check, Diary, Port, Stop, Subject, Use, ensure},
    v2::{Answer, block, check_answer},
};
use oaax_core::abi::DType;
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    time::{Duration, Instant},
};

/// The names of the interface.
pub const NAMES: [&str; 9] = [
    "receive_output",
    "runtime_destruction",
    "runtime_error_message",
    "runtime_initialization",
    "runtime_initialization_with_args",
    "runtime_model_loading",
    "runtime_name",
    "runtime_version",
    "send_input",
];

#[rustfmt::skip] // One rule a line.
pub const RULES: &[crate::Rule] = &[
    rule("R1-1", "exactly the nine functions are exported", rules::exports),
    rule("R1-3", "init either way, once; unknown keys are ignored without a look at their values", rules::init),
    rule("R1-4", "load: before init, missing files, one model", rules::loading),
    rule("R1-5", "wrong inputs are refused and stay the caller's; a hundred may be sent ahead", rules::sending),
    rule("R1-6", "receive: promptly empty, else a whole output that the caller owns", rules::receiving),
    rule("R1-7", "one thread sends, another receives", rules::two_threads),
    rule("R1-8", "destruction frees everything, and the runtime may be started again", rules::cycles),
    rule("R1-9", "outputs come in the order of the inputs", rules::order),
    rule("R1-10", "the illustrative host fails gracefully", rules::illustrative),
];

/// No rule: whether a model can be used for the checks at all.
pub const LOADS: crate::Rule = rule("loads-1", "the model loads and runs", rules::loads);

const fn rule(id: &'static str, title: &'static str, run: fn(&Subject, &Diary) -> Check) -> crate::Rule {
    crate::Rule { id, title, run }
}

/// `tensors_struct`.
#[repr(C)]
pub struct Tensors {
    pub count: usize,
    pub names: *mut *mut c_char,
    pub dtypes: *mut c_int,
    pub ranks: *mut usize,
    pub shapes: *mut *mut usize,
    pub data: *mut *mut c_void,
}

/// The nine functions.
pub struct Host {
    _door: Door,
    initialization: unsafe extern "C" fn() -> c_int,
    with_args: unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_void) -> c_int,
    loading: unsafe extern "C" fn(*const c_char) -> c_int,
    send: unsafe extern "C" fn(*mut Tensors) -> c_int,
    receive: unsafe extern "C" fn(*mut *mut Tensors) -> c_int,
    destruction: unsafe extern "C" fn() -> c_int,
    texts: [unsafe extern "C" fn() -> *const c_char; 3],
}

/// Tensors of ours, or an output that is ours to free.
pub struct Owned(pub *mut Tensors);

// SAFETY: plain memory with one owner.
unsafe impl Send for Owned {}

impl Host {
    /// Opens the library.
    pub fn open(subject: &Subject, diary: &Diary) -> Result<Host, Stop> {
        diary.step("dlopen");
        let door = Door::open(&subject.library)?;
        let at = |name: &str| door.symbol(name);
        // SAFETY: the interface gives these names these types.
        unsafe {
            use std::mem::transmute as cast;
            type Plain = unsafe extern "C" fn() -> c_int;
            type Text = unsafe extern "C" fn() -> *const c_char;
            Ok(Host {
                initialization: cast::<*mut c_void, Plain>(at("runtime_initialization")?),
                with_args: cast::<*mut c_void, unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_void) -> c_int>(
                    at("runtime_initialization_with_args")?,
                ),
                loading: cast::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(at("runtime_model_loading")?),
                send: cast::<*mut c_void, unsafe extern "C" fn(*mut Tensors) -> c_int>(at("send_input")?),
                receive: cast::<*mut c_void, unsafe extern "C" fn(*mut *mut Tensors) -> c_int>(at("receive_output")?),
                destruction: cast::<*mut c_void, Plain>(at("runtime_destruction")?),
                texts: [
                    cast::<*mut c_void, Text>(at("runtime_error_message")?),
                    cast::<*mut c_void, Text>(at("runtime_version")?),
                    cast::<*mut c_void, Text>(at("runtime_name")?),
                ],
                _door: door,
            })
        }
    }

    pub fn initialization(&self) -> c_int {
        // SAFETY: no arguments. Below: arguments as the interface says, or wrong in a way that it must bear.
        unsafe { (self.initialization)() }
    }

    pub fn with_args(&self, keys: &[&CStr], values: &[*const c_void]) -> c_int {
        let keys: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr()).collect();
        // SAFETY: as above.
        unsafe { (self.with_args)(keys.len() as c_int, keys.as_ptr(), values.as_ptr()) }
    }

    pub fn load(&self, path: &std::path::Path) -> c_int {
        let path = CString::new(path.to_string_lossy().as_bytes()).unwrap_or_default();
        // SAFETY: as above.
        unsafe { (self.loading)(path.as_ptr()) }
    }

    pub fn send_raw(&self, tensors: *mut Tensors) -> c_int {
        // SAFETY: as above.
        unsafe { (self.send)(tensors) }
    }

    /// Hands tensors over; a refusal gives them back.
    pub fn send(&self, tensors: Owned) -> Result<(), (c_int, Owned)> {
        match self.send_raw(tensors.0) {
            0 => {
                std::mem::forget(tensors);
                Ok(())
            }
            status => Err((status, tensors)),
        }
    }

    /// `receive_output` once.
    pub fn receive(&self) -> Result<Owned, c_int> {
        let mut output = std::ptr::null_mut();
        // SAFETY: a place of ours.
        match unsafe { (self.receive)(&mut output) } {
            0 if output.is_null() => Err(0),
            0 => Ok(Owned(output)),
            status => Err(status),
        }
    }

    /// `receive_output` until an output is there, for 20 s.
    pub fn wait(&self) -> Result<Owned, Stop> {
        self.wait_for(Duration::from_secs(20))
    }

    /// `receive_output` until an output is there or patience ends.
    pub fn wait_for(&self, patience: Duration) -> Result<Owned, Stop> {
        let start = Instant::now();
        loop {
            match self.receive() {
                Ok(output) => return Ok(output),
                Err(0) => return Err(Stop::Broken("receive gives 0 and no output".to_owned())),
                Err(status) if start.elapsed() > patience => {
                    let error = self.error().unwrap_or_default();
                    return Err(Stop::Broken(format!(
                        "no output within {} ms, receive gives {status}: {error}",
                        patience.as_millis()
                    )));
                }
                // A library that does not wait itself must not be asked without a pause.
                Err(_) => crate::process::wait(1),
            }
        }
    }

    pub fn destruction(&self) -> c_int {
        // SAFETY: no arguments.
        unsafe { (self.destruction)() }
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

    /// Init and load of the subject's model, as every check of requests begins.
    pub fn ready(&self, model: &Use, diary: &Diary) -> Check {
        diary.step("runtime_initialization");
        let status = self.initialization();
        ensure!(status == 0, "init gives {status}: {}", self.error().unwrap_or_default());
        diary.step("runtime_model_loading of the model");
        let status = self.load(&model.path);
        ensure!(status == 0, "the model does not load, {status}: {}", self.error().unwrap_or_default());
        Ok(())
    }

    /// Runs one request to its end.
    pub fn run(&self, model: &Use, seed: u64) -> Result<Vec<Answer>, Stop> {
        if let Err((status, _)) = self.send(request(&model.inputs, seed)) {
            return Err(Stop::Broken(format!("send of a good input gives {status}: {}", self.error().unwrap_or_default())));
        }
        let answers = self.wait()?.answers()?;
        check_answer(model, seed, &answers)?;
        Ok(answers)
    }
}

/// A request with the contents of `seed`, every block its own.
pub fn request(inputs: &[Port], seed: u64) -> Owned {
    fn array<T: Copy>(items: &[T]) -> *mut T {
        // SAFETY: the bytes of plain numbers and pointers.
        block(unsafe { std::slice::from_raw_parts(items.as_ptr().cast(), size_of_val(items)) }).cast()
    }
    let name = |port: &Port| block(CString::new(port.name.as_str()).unwrap_or_default().as_bytes_with_nul()).cast::<c_char>();
    let shape = |port: &Port| array(&port.shape.iter().map(|size| *size as usize).collect::<Vec<_>>());
    let tensors = Tensors {
        count: inputs.len(),
        names: array(&inputs.iter().map(name).collect::<Vec<_>>()),
        dtypes: array(&inputs.iter().map(|port| port.dtype as c_int).collect::<Vec<_>>()),
        ranks: array(&inputs.iter().map(|port| port.shape.len()).collect::<Vec<_>>()),
        shapes: array(&inputs.iter().map(shape).collect::<Vec<_>>()),
        data: array(&inputs.iter().map(|port| block(&port.data(seed))).collect::<Vec<_>>()),
    };
    let raw: *mut Tensors = block(&[0; size_of::<Tensors>()]).cast();
    // SAFETY: a new block of the struct's size.
    unsafe { raw.write(tensors) };
    Owned(raw)
}

impl Owned {
    /// The struct, to be spoilt by a check.
    pub fn tensors(&mut self) -> &mut Tensors {
        // SAFETY: ours.
        unsafe { &mut *self.0 }
    }

    /// Copies of the tensors. Errors: the form is not what the interface promises.
    pub fn answers(&self) -> Result<Vec<Answer>, Stop> {
        // SAFETY: an output is ours; pointers are checked before use.
        unsafe {
            let t = &*self.0;
            ensure!(!t.names.is_null(), "an output has no names");
            let arrays = [t.dtypes.is_null(), t.ranks.is_null(), t.shapes.is_null(), t.data.is_null()];
            ensure!(!arrays.contains(&true), "an output lacks an array");
            let mut answers = Vec::new();
            for index in 0..t.count {
                ensure!(!(*t.names.add(index)).is_null(), "output {index} has no name");
                let name = CStr::from_ptr(*t.names.add(index)).to_string_lossy().into_owned();
                let (rank, start) = (*t.ranks.add(index), *t.shapes.add(index));
                ensure!(rank <= 64 && (rank == 0 || !start.is_null()), "output {name:?} has no shape, or rank {rank}");
                let shape = if rank == 0 { &[][..] } else { std::slice::from_raw_parts(start, rank) };
                let number = *t.dtypes.add(index);
                let dtype = u32::try_from(number).ok().filter(|number| *number != 10).and_then(DType::from_onnx);
                let dtype = dtype.ok_or_else(|| Stop::Broken(format!("output {name:?} has the type {number}, which is none")))?;
                let bytes = dtype.bytes(shape.iter().map(|size| *size as u64).product()).unwrap_or(0) as usize;
                let data = *t.data.add(index);
                ensure!(bytes == 0 || !data.is_null(), "output {name:?} has no data");
                let data = if bytes == 0 { &[][..] } else { std::slice::from_raw_parts(data.cast::<u8>(), bytes) };
                let shape = shape.iter().map(|size| *size as c_int).collect();
                answers.push(Answer { name, dtype: number, shape, data: data.to_vec() });
            }
            Ok(answers)
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: block by block in the order that hosts use; a library that hands out anything else crashes here, in a process made for it.
        unsafe {
            let t = &*self.0;
            libc::free(t.dtypes.cast());
            libc::free(t.ranks.cast());
            for array in [t.data, t.shapes.cast(), t.names.cast()] {
                (0..if array.is_null() { 0 } else { t.count }).for_each(|index| libc::free(*array.add(index)));
                libc::free(array.cast());
            }
            libc::free(self.0.cast());
        }
    }
}
