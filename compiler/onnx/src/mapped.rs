//! Files mapped into memory: the only `unsafe` of the importer.

use std::fs::File;
use std::io;

use bytes::Bytes;

/// Maps a whole file read-only. An empty file is empty bytes.
pub(crate) fn map(file: &File) -> io::Result<Bytes> {
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the map is private and read-only. Should another process cut the file short meanwhile, reads end in
    // a signal, not in undefined data; every mapping reader of models shares this.
    let map = unsafe { memmap2::MmapOptions::new().map_copy_read_only(file)? };
    Ok(Bytes::from_owner(map))
}
