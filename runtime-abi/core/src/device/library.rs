//! Libraries of vendors, opened at run time. They are never unloaded: their threads and exit handlers
//! would run into nothing.

use std::{
    ffi::{CStr, CString, c_char, c_void},
    ptr::NonNull,
};

/// An open library.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    handle: NonNull<c_void>,
    /// The name under which it was found.
    pub name: &'static str,
}

// SAFETY: a handle of dlopen may be used from any thread.
unsafe impl Send for Library {}
// SAFETY: as above; dlsym is thread-safe.
unsafe impl Sync for Library {}

impl Library {
    /// The first of `names` that opens, or a sentence that says what was looked for.
    pub fn open(names: &[&'static str]) -> Result<Library, String> {
        let mut reason = String::new();
        for name in names {
            let text = CString::new(*name).map_err(|_| "a library's name holds a NUL".to_owned())?;
            let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;
            // SAFETY: a NUL-terminated name; running the library's initialisers is what opening a driver means.
            match NonNull::new(unsafe { libc::dlopen(text.as_ptr(), flags) }) {
                Some(handle) => return Ok(Library { handle, name }),
                None => {
                    let found = error();
                    let missing = found.contains("cannot open shared object file: No such file");
                    reason = if missing { reason } else { format!(": {found}") };
                }
            }
        }
        Err(format!("no library {} in the loader's search path{reason}", names.join(", ")))
    }

    /// The address of a symbol, or a sentence that names it.
    pub fn symbol(&self, symbol: &CStr) -> Result<NonNull<c_void>, String> {
        // SAFETY: the handle stays good (see the file's head), the symbol is NUL-terminated.
        let address = unsafe { libc::dlsym(self.handle.as_ptr(), symbol.as_ptr()) };
        NonNull::new(address).ok_or_else(|| format!("{} lacks {}", self.name, symbol.to_string_lossy()))
    }
}

/// What dlopen says.
fn error() -> String {
    // SAFETY: dlerror gives null or a string that lives until the next call on this thread.
    unsafe { text(libc::dlerror()) }
}

/// A C string as text; empty for null.
///
/// # Safety
/// `text` is null or NUL-terminated.
pub unsafe fn text(text: *const c_char) -> String {
    match text.is_null() {
        true => String::new(),
        // SAFETY: by this function's contract.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    }
}

/// Declares a table of C functions and its constructor from a [`Library`]: `field: "symbol" fn(types) -> type;`.
macro_rules! calls {
    ($(#[$meta:meta])* $visibility:vis struct $table:ident { $($field:ident: $symbol:literal fn($($kind:ty),*) -> $result:ty;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        $visibility struct $table {
            $(pub $field: unsafe extern "C" fn($($kind),*) -> $result,)*
        }

        impl $table {
            /// Looks every symbol up.
            $visibility fn new(library: &$crate::device::library::Library) -> ::std::result::Result<$table, String> {
                Ok($table {
                    $($field: {
                        let symbol = const {
                            match ::std::ffi::CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                                Ok(symbol) => symbol,
                                Err(_) => panic!("symbols hold no NUL"),
                            }
                        };
                        // SAFETY: the vendor's header declares the symbol with this type.
                        unsafe {
                            ::std::mem::transmute::<*mut ::std::ffi::c_void, unsafe extern "C" fn($($kind),*) -> $result>(
                                library.symbol(symbol)?.as_ptr(),
                            )
                        }
                    },)*
                })
            }
        }
    };
}
pub(crate) use calls;

#[cfg(test)]
mod tests {
    use super::Library;

    #[test]
    fn what_was_looked_for_is_named() {
        let error = Library::open(&["libnot-there.so.1", "libnot-there.so"]).expect_err("no such library");
        assert_eq!(error, "no library libnot-there.so.1, libnot-there.so in the loader's search path");
        let library = Library::open(&["libnot-there.so.1", "libc.so.6"]).expect("the C library");
        assert_eq!(library.name, "libc.so.6");
        assert!(library.symbol(c"malloc").is_ok());
        assert_eq!(library.symbol(c"no_such_symbol"), Err("libc.so.6 lacks no_such_symbol".to_owned()));
    }
}
