//! A blob from a registry into a file.
//!
//! Promises: hashed while it is written; not a byte beyond its size is taken; what broke off goes on where the file ends,
//! in this run or the next; under its final name lies only what has the digest.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    path::Path,
};

use oaaxc_container::Digest;
use sha2::{Digest as _, Sha256};

use crate::{
    Progress, Step,
    client::Client,
    error::{RegistryError, Result},
};

const PIECE: usize = 256 << 10;

impl Client {
    /// Brings a blob to the file `path`; whether it had to travel.
    pub(crate) fn download(&self, digest: &Digest, size: u64, path: &Path, progress: Progress<'_>) -> Result<bool> {
        if path.is_file() && hash(path)?.0 == *digest {
            progress(&Step { doing: "present", digest, done: size, total: size });
            return Ok(false);
        }
        let partial = path.with_extension("partial");
        let mut tries = 0;
        loop {
            match self.go_on(digest, size, &partial, progress) {
                Ok(found) if found == *digest => break,
                Ok(found) => {
                    // What is wrong must not be gone on from.
                    fs::remove_file(&partial).map_err(|error| RegistryError::file("delete", &partial, &error))?;
                    return Err(RegistryError::Invalid(format!("the blob {digest} arrives with the digest {found}")));
                }
                Err(error) if error.is_passing() && tries < self.http.options.retries => {
                    std::thread::park_timeout(self.http.options.pause * (1 << tries.min(6)));
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
        fs::rename(&partial, path).map_err(|error| RegistryError::file("rename", &partial, &error))?;
        Ok(true)
    }

    /// From where the file ends to the blob's end; gives the digest of the whole file.
    fn go_on(&self, digest: &Digest, size: u64, path: &Path, progress: Progress<'_>) -> Result<Digest> {
        let failed = |error: std::io::Error| RegistryError::file("write", path, &error);
        let (mut state, mut done) = match path.is_file() {
            true => {
                let (_, length, state) = hash(path)?;
                (state, length)
            }
            false => (Sha256::new(), 0),
        };
        if done > size {
            File::create(path).map_err(failed)?;
            (state, done) = (Sha256::new(), 0);
        }
        let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
        if done < size {
            let mut reader = self.blob(digest, done)?;
            let mut piece = vec![0u8; PIECE];
            loop {
                let count =
                    reader.read(&mut piece).map_err(|error| RegistryError::Transport(format!("blob {digest}: {error}")))?;
                if count == 0 {
                    break;
                }
                if done + count as u64 > size {
                    // The file is of no use: its end is not the blob's.
                    drop(fs::remove_file(path));
                    return Err(RegistryError::Invalid(format!(
                        "the blob {digest} is longer than its descriptor says, {size} bytes"
                    )));
                }
                file.write_all(&piece[..count]).map_err(failed)?;
                state.update(&piece[..count]);
                done += count as u64;
                progress(&Step { doing: "download", digest, done, total: size });
            }
        }
        if done < size {
            return Err(RegistryError::Transport(format!("the blob {digest} ends after {done} of {size} bytes")));
        }
        file.sync_data().map_err(failed)?;
        Ok(Digest::from_bytes(state.finalize().into()))
    }
}

/// Digest, length and unfinished hash of a file.
fn hash(path: &Path) -> Result<(Digest, u64, Sha256)> {
    let failed = |error: std::io::Error| RegistryError::file("read", path, &error);
    let mut file = File::open(path).map_err(failed)?;
    let (mut state, mut length) = (Sha256::new(), 0);
    let mut piece = vec![0u8; PIECE];
    loop {
        match file.read(&mut piece).map_err(failed)? {
            0 => return Ok((Digest::from_bytes(state.clone().finalize().into()), length, state)),
            count => {
                state.update(&piece[..count]);
                length += count as u64;
            }
        }
    }
}
