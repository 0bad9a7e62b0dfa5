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

/// The current text and older ones: equal texts are one, and a pointer stays good until the texts
/// are forgotten or as many newer ones were made as are kept.
pub struct Texts {
    current: AtomicPtr<c_char>,
    kept: Mutex<VecDeque<CString>>,
    most: usize,
}

impl Texts {
    /// No text; at most `most` will be kept.
    pub const fn new(most: usize) -> Texts {
        Texts { current: AtomicPtr::new(null_mut()), kept: Mutex::new(VecDeque::new()), most }
    }

    /// Makes `text` the current one.
    pub fn set(&self, text: &str) -> *const c_char {
        let end = text.find('\0').unwrap_or(text.len());
        let text = CString::new(&text[..end]).unwrap_or_default();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let text = match kept.iter().position(|old| *old == text) {
            Some(place) => kept.remove(place).unwrap_or(text),
            None => text,
        };
        let start = text.as_ptr().cast_mut();
        if kept.len() == self.most {
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

/// Levels above this log nothing: 4 is "error" in the usual count from trace (0) to off (6).
const ERROR_LEVEL: u32 = 4;

impl Log {
    /// No file.
    pub const fn new() -> Log {
        Log(Mutex::new(None))
    }

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

impl Default for Log {
    fn default() -> Log {
        Log::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Texts;

    #[test]
    fn equal_texts_are_one_and_pointers_stay_good() {
        let texts = Texts::new(3);
        let first = texts.set("a");
        texts.set("b");
        assert_eq!(texts.set("a"), first);
        texts.set("c");
        texts.set("d");
        assert_eq!(texts.set("a"), first);
        texts.clear();
        assert!(texts.get().is_null());
    }
}
