//! One worker process as the pool sees it: start, ask with a deadline, end.

use std::{
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::wire::{Answer, GREETING, Request, decode_answer, receive, send};

/// How much of a worker's last words is kept.
const LAST_WORDS: usize = 4096;

/// A living worker.
pub(crate) struct Worker {
    child: Child,
    requests: ChildStdin,
    answers: File,
    words: Arc<Mutex<Vec<u8>>>,
    listener: Option<JoinHandle<()>>,
    /// Requests answered so far.
    pub served: usize,
}

/// Why a worker gave no answer; it is gone then.
pub(crate) enum Failure {
    /// Killed by us at the deadline.
    TimedOut,
    /// How it ended, and its last words.
    Died(String),
}

impl Worker {
    /// Starts a worker and waits for its greeting.
    pub fn start(program: &Path, arguments: &[String], limit: Duration) -> Result<Worker, String> {
        let mut child = Command::new(program)
            .args(arguments)
            // A Ctrl-C at the terminal is for the process that this worker works for, which then ends it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
        let requests = child.stdin.take().expect("stdin is piped");
        let answers = child.stdout.take().expect("stdout is piped");
        let mut errors = child.stderr.take().expect("stderr is piped");
        let words = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&words);
        let listener = std::thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(n @ 1..) = errors.read(&mut buffer) {
                let mut kept = kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                kept.extend(&buffer[..n]);
                let excess = kept.len().saturating_sub(LAST_WORDS);
                kept.drain(..excess);
            }
        });
        let mut worker =
            Worker { child, requests, answers: File::from(OwnedFd::from(answers)), words, listener: Some(listener), served: 0 };
        let mut greeting = vec![0; GREETING.len()];
        let mut reader = Deadline { file: &worker.answers, end: Instant::now() + limit };
        match reader.read_exact(&mut greeting) {
            Ok(()) if greeting == GREETING => Ok(worker),
            Ok(()) => Err(format!("{} is not a worker", program.display())),
            Err(_) => Err(format!("{} {}", program.display(), worker.end())),
        }
    }

    /// Sends a request and waits for its answer. After a failure the worker is dead.
    pub fn ask(&mut self, request: &Request, limit: Duration) -> Result<Answer, Failure> {
        let end = Instant::now() + limit;
        let sent = send(&mut self.requests, &request.encode());
        let received = sent.and_then(|()| receive(&mut Deadline { file: &self.answers, end }));
        match received {
            Ok(Some(message)) => match decode_answer(&message) {
                Some(answer) => {
                    self.served += 1;
                    Ok(answer)
                }
                None => Err(Failure::Died(format!("answered garbage; {}", self.end()))),
            },
            Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                self.end();
                Err(Failure::TimedOut)
            }
            Ok(None) | Err(_) => Err(Failure::Died(self.end())),
        }
    }

    /// Ends the process, if it has not ended by itself; says how it ended and its last words.
    fn end(&mut self) -> String {
        // A process that closed its pipe is about to exit: leave it a moment to do so by itself.
        let patience = Instant::now() + Duration::from_millis(500);
        let mut status = None;
        let closed = Deadline { file: &self.answers, end: Instant::now() }.read(&mut [0]);
        while matches!(closed, Ok(0)) && status.is_none() && Instant::now() < patience {
            status = self.child.try_wait().ok().flatten();
            std::thread::yield_now();
        }
        if status.is_none() {
            let _ = self.child.kill(); // It may have ended meanwhile.
            status = self.child.wait().ok();
        }
        if let Some(listener) = self.listener.take() {
            let _ = listener.join(); // The pipe is closed, so it has ended; it cannot panic.
        }
        let words = self.words.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let words = without_addresses(String::from_utf8_lossy(&words).trim());
        let how = match status {
            Some(s) => match (s.signal(), s.code()) {
                (Some(libc::SIGABRT), _) => "aborted".to_string(),
                (Some(signal), _) => format!("was ended by signal {signal}"),
                (None, Some(code)) => format!("ended with exit code {code}"),
                (None, None) => "ended".to_string(),
            },
            None => "ended".to_string(),
        };
        if words.is_empty() { how } else { format!("{how}: {words}") }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // An idle worker holds nothing worth a farewell. Errors mean that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Messages are the same in every run: `0x55cb876eb280` becomes `0x…`.
fn without_addresses(words: &str) -> String {
    let mut parts = words.split("0x");
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        let (number, rest) = part.split_at(digits);
        text += "0x";
        text += if digits > 8 { "…" } else { number };
        text += rest;
    }
    text
}

/// Reads from a pipe until a point in time.
struct Deadline<'a> {
    file: &'a File,
    end: Instant,
}

impl Read for Deadline<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.end.saturating_duration_since(Instant::now());
            let mut poll = libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let wait = left.as_millis().min(i32::MAX as u128) as i32;
            // SAFETY: one valid pollfd.
            match unsafe { libc::poll(&mut poll, 1, wait) } {
                0 if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
                0 => {}
                n if n < 0 => {
                    let e = io::Error::last_os_error();
                    if e.kind() != io::ErrorKind::Interrupted {
                        return Err(e);
                    }
                }
                _ => {
                    let mut file = self.file;
                    return file.read(buffer);
                }
            }
        }
    }
}
