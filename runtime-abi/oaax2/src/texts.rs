//! Strings that the host may read after a call returned, and the log file.

use std::{
    collections::VecDeque,
    ffi::{CString, c_char},
    fs::File,
    io::Write,
    ptr::null_mut,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicPtr, Ordering},
    },
};

/// How many texts a [`Texts`] keeps: a pointer stays good while as many newer ones are made.
const KEPT: usize = 64;

/// The current text and some older ones, so that a pointer that was just given stays good.
pub struct Texts {
    current: AtomicPtr<c_char>,
    kept: Mutex<VecDeque<CString>>,
}

/// The last error.
pub static ERROR: Texts = Texts::new();
/// The last state.
pub static INFO: Texts = Texts::new();

impl Texts {
    const fn new() -> Texts {
        Texts { current: AtomicPtr::new(null_mut()), kept: Mutex::new(VecDeque::new()) }
    }

    /// Makes `text` the current one.
    pub fn set(&self, text: &str) -> *const c_char {
        let end = text.find('\0').unwrap_or(text.len());
        let text = CString::new(&text[..end]).unwrap_or_default();
        let start = text.as_ptr().cast_mut();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(text);
        self.current.store(start, Ordering::Release);
        start
    }

    /// The current text, or null.
    pub fn get(&self) -> *const c_char {
        self.current.load(Ordering::Acquire)
    }

    /// Forgets all texts.
    pub fn clear(&self) {
        self.current.store(null_mut(), Ordering::Release);
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        drop(kept);
    }
}

/// Errors go to the file that the host named, if it can be written; never anywhere else.
pub struct Log(Mutex<Option<File>>);

/// The log.
pub static LOG: Log = Log(Mutex::new(None));

/// Levels above this log nothing: 4 is "error" in the usual count from trace (0) to off (6).
const ERROR_LEVEL: u32 = 4;

impl Log {
    /// Opens `path` to append; a file that cannot be written is no failure, as OAAX demands.
    pub fn open(&self, path: Option<&str>, level: u32) {
        let file = path.filter(|_| level <= ERROR_LEVEL);
        let file = file.and_then(|path| File::options().append(true).create(true).open(path).ok());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }

    /// Writes a line.
    pub fn write(&self, message: &str) {
        if let Some(file) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(file, "oaaxc: {message}");
        }
    }

    /// Closes the file.
    pub fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
