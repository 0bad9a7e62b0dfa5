//! A blob to a registry: present, mounted, whole, or in pieces.
//!
//! Promises: a blob that is there is not sent again; an upload that broke off goes on at the byte that the registry
//! has; a registry that refuses a whole body gets pieces, and one that refuses pieces gets the whole.

use std::io::Read;

use oaaxc_container::Digest;

use crate::{
    Progress, Step,
    client::{Client, header},
    error::{RegistryError, Result},
    http::{Body, refusal},
};

/// Piece size where a whole body was refused and none was asked for.
const PIECE: u64 = 16 << 20;

/// A blob that can be read from any byte on.
pub(crate) struct Source<'a> {
    pub digest: Digest,
    pub size: u64,
    pub open: &'a dyn Fn(u64) -> Result<Box<dyn Read + 'a>>,
}

/// How a blob came to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    Present,
    Mounted,
    Sent,
}

/// An upload in progress: where the next bytes go, and how many the registry has.
struct Session {
    url: String,
    have: u64,
}

impl Client {
    /// Brings a blob here; `siblings` are repositories of the same registry that may have it.
    pub(crate) fn upload(&self, source: &Source<'_>, siblings: &[&str], progress: Progress<'_>) -> Result<Arrived> {
        let step = |doing, done| progress(&Step { doing, digest: &source.digest, done, total: source.size });
        if self.has_blob(&source.digest)? {
            step("present", source.size);
            return Ok(Arrived::Present);
        }
        let mut session = None;
        for sibling in siblings {
            match self.mount(&source.digest, sibling)? {
                None => {
                    step("mount", source.size);
                    return Ok(Arrived::Mounted);
                }
                open => session = open,
            }
        }
        let mut session = match session {
            Some(session) => session,
            None => self.begin()?,
        };
        let mut chunk = self.http.options.chunk;
        let mut tries = 0;
        loop {
            let outcome = match chunk {
                0 => self.send_whole(source, &session, progress),
                size => self.send_pieces(source, &mut session, size, progress),
            };
            match outcome {
                Ok(()) => return Ok(Arrived::Sent),
                Err(RegistryError::Status { status: 405 | 411 | 413 | 416 | 501, .. }) if chunk == 0 => {
                    chunk = PIECE;
                    session = self.begin()?;
                }
                Err(error) if error.is_passing() && tries < self.http.options.retries => {
                    std::thread::park_timeout(self.http.options.pause * (1 << tries.min(6)));
                    tries += 1;
                    session = match self.state(&session) {
                        // A whole body cannot go on in the middle; pieces can.
                        Ok(state) if state.have > 0 && state.have < source.size => {
                            chunk = if chunk == 0 { source.size } else { chunk };
                            state
                        }
                        _ => self.begin()?,
                    };
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks for a blob of another repository: nothing if it is here now, else the upload that was begun instead.
    fn mount(&self, digest: &Digest, from: &str) -> Result<Option<Session>> {
        let url = self.url(&format!("blobs/uploads/?mount={digest}&from={from}"));
        let scope = format!("{} repository:{from}:pull", self.scope(true));
        let answer = self.http.send("POST", &url, &scope, &[], Body::None)?;
        match answer.status().as_u16() {
            201 => Ok(None),
            202 => Ok(Some(Session { url: self.http.location(&answer, &url)?, have: 0 })),
            _ => self.begin().map(Some),
        }
    }

    fn begin(&self) -> Result<Session> {
        let url = self.url("blobs/uploads/");
        self.http.retrying(|| {
            let answer = self.http.send("POST", &url, &self.scope(true), &[], Body::None)?;
            match answer.status().as_u16() {
                202 => Ok(Session { url: self.http.location(&answer, &url)?, have: 0 }),
                _ => Err(refusal("POST", &url, answer)),
            }
        })
    }

    /// What the registry has of an upload.
    fn state(&self, session: &Session) -> Result<Session> {
        let answer = self.http.send("GET", &session.url, &self.scope(true), &[], Body::None)?;
        if !matches!(answer.status().as_u16(), 200 | 204) {
            return Err(refusal("GET", &session.url, answer));
        }
        let url = self.http.location(&answer, &session.url).unwrap_or_else(|_| session.url.clone());
        Ok(Session { url, have: received(&header(&answer, "range")) })
    }

    fn send_whole(&self, source: &Source<'_>, session: &Session, progress: Progress<'_>) -> Result<()> {
        let url = with_digest(&session.url, &source.digest);
        let mut reader = Counted::new((source.open)(0)?, source, 0, progress);
        let headers = [("Content-Type", "application/octet-stream")];
        let answer = self.http.send("PUT", &url, &self.scope(true), &headers, Body::Stream(&mut reader, source.size))?;
        match answer.status().as_u16() {
            201 => Ok(()),
            _ => Err(refusal("PUT", &url, answer)),
        }
    }

    fn send_pieces(&self, source: &Source<'_>, session: &mut Session, size: u64, progress: Progress<'_>) -> Result<()> {
        while session.have < source.size {
            let length = size.min(source.size - session.have);
            let range = format!("{}-{}", session.have, session.have + length - 1);
            let inner = (source.open)(session.have)?.take(length);
            let mut reader = Counted::new(Box::new(inner), source, session.have, progress);
            let headers = [("Content-Type", "application/octet-stream"), ("Content-Range", range.as_str())];
            let body = Body::Stream(&mut reader, length);
            let answer = self.http.send("PATCH", &session.url, &self.scope(true), &headers, body)?;
            match answer.status().as_u16() {
                202 | 204 => {
                    let url = self.http.location(&answer, &session.url)?;
                    *session = Session { url, have: session.have + length };
                }
                _ => return Err(refusal("PATCH", &session.url, answer)),
            }
        }
        let url = with_digest(&session.url, &source.digest);
        let answer = self.http.send("PUT", &url, &self.scope(true), &[], Body::None)?;
        match answer.status().as_u16() {
            201 => Ok(()),
            _ => Err(refusal("PUT", &url, answer)),
        }
    }
}

fn with_digest(url: &str, digest: &Digest) -> String {
    format!("{url}{}digest={digest}", if url.contains('?') { "&" } else { "?" })
}

/// `0-99` says 100 bytes; `0-0` says none or one, and none is the safe reading.
fn received(range: &str) -> u64 {
    let end = range.trim_start_matches("bytes=").strip_prefix("0-").and_then(|end| end.parse::<u64>().ok());
    end.filter(|end| *end > 0).map_or(0, |end| end + 1)
}

/// Tells what was read.
struct Counted<'a> {
    inner: Box<dyn Read + 'a>,
    digest: Digest,
    done: u64,
    total: u64,
    progress: Progress<'a>,
}

impl<'a> Counted<'a> {
    fn new(inner: Box<dyn Read + 'a>, source: &Source<'_>, done: u64, progress: Progress<'a>) -> Counted<'a> {
        Counted { inner, digest: source.digest, done, total: source.size, progress }
    }
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.done += count as u64;
        (self.progress)(&Step { doing: "upload", digest: &self.digest, done: self.done, total: self.total });
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::received;

    #[test]
    fn a_range_says_how_much_was_received() {
        assert_eq!(received("0-99"), 100);
        assert_eq!(received("bytes=0-99"), 100);
        for none in ["0-0", "", "5-9", "0-", "0-x"] {
            assert_eq!(received(none), 0, "{none}");
        }
    }
}
