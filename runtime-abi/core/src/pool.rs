//! Workers that run the parts of one job at a time: they spin for a moment, then sleep.
//!
//! Promises: `run` returns when every part has ended; the caller works too; a worker that wakes too
//! late is not waited for; a second `run` while one is in progress works through its parts alone
//! (no lock is held while parts run, so nothing can deadlock).

use crate::thread::Thread;
use std::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
};

/// Looks at the clock-free counter before a worker sleeps: some tens of microseconds.
const SPINS: u32 = 1_000;
const CLOSED: usize = 1 << 31;

/// A job: `call(data, worker)` on each worker that comes in time.
#[derive(Clone, Copy)]
struct Job {
    call: unsafe fn(*const (), usize),
    data: *const (),
}

struct Shared {
    job: UnsafeCell<Job>,
    /// Workers inside the job, or `CLOSED` plus those still inside.
    active: AtomicUsize,
    /// Counts jobs, so that waiting workers see a new one.
    epoch: AtomicU32,
    sleepers: Mutex<usize>,
    wake: Condvar,
    stop: AtomicBool,
    busy: AtomicBool,
}

// SAFETY: `job` is written only while `active` is CLOSED with nobody inside, by the one that set
// `busy`, and read only by workers that entered through `active` afterwards.
unsafe impl Sync for Shared {}
// SAFETY: as above; the job's data pointer is only used while `run` keeps it alive.
unsafe impl Send for Shared {}

/// A fixed number of workers, the calling thread included.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<Thread>,
}

impl Pool {
    /// A pool of `workers` (at least one: the caller). Fewer if threads cannot be started.
    pub fn new(workers: usize) -> Pool {
        unsafe fn nothing(_: *const (), _: usize) {}
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(Job { call: nothing, data: std::ptr::null() }),
            active: AtomicUsize::new(CLOSED),
            epoch: AtomicU32::new(0),
            sleepers: Mutex::new(0),
            wake: Condvar::new(),
            stop: AtomicBool::new(false),
            busy: AtomicBool::new(false),
        });
        let spawn = |worker: usize| {
            let shared = shared.clone();
            Thread::spawn(move || work(&shared, worker)).ok()
        };
        let threads = (1..workers).map_while(spawn).collect();
        Pool { shared, threads }
    }

    /// Workers, the calling thread included.
    pub fn workers(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `part(worker)` on the calling thread and on every worker that comes in time; each call
    /// takes work from a counter of its own until there is none.
    pub fn run<F: Fn(usize) + Sync>(&self, part: &F) {
        unsafe fn call<F: Fn(usize) + Sync>(data: *const (), worker: usize) {
            // SAFETY: `data` is the `part` of the `run` that waits for this call.
            unsafe { (*data.cast::<F>())(worker) }
        }
        let shared = &*self.shared;
        if self.threads.is_empty() || shared.busy.swap(true, Ordering::Acquire) {
            return part(0);
        }
        // SAFETY: `busy` is ours and `active` is CLOSED with nobody inside (the last `run` waited).
        unsafe { *shared.job.get() = Job { call: call::<F>, data: (part as *const F).cast() } };
        shared.active.store(0, Ordering::SeqCst);
        shared.epoch.fetch_add(1, Ordering::SeqCst);
        if *lock(&shared.sleepers) > 0 {
            shared.wake.notify_all();
        }
        let close = Close(shared); // Waits for the workers even if `part` panics.
        part(0);
        drop(close);
    }
}

/// Ends a job: nobody enters any more, and those inside are waited for.
struct Close<'a>(&'a Shared);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.active.fetch_or(CLOSED, Ordering::AcqRel);
        let mut spins = 0u32;
        while self.0.active.load(Ordering::Acquire) != CLOSED {
            spins += 1;
            match spins % 256 {
                0 => std::thread::yield_now(),
                _ => spin_loop(),
            }
        }
        self.0.busy.store(false, Ordering::Release);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        drop(lock(&self.shared.sleepers));
        self.shared.wake.notify_all();
    }
}

fn lock(mutex: &Mutex<usize>) -> std::sync::MutexGuard<'_, usize> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A worker's life.
fn work(shared: &Shared, worker: usize) {
    let mut seen = 0;
    loop {
        seen = wait(shared, seen);
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let enter = |active: usize| (active & CLOSED == 0).then_some(active + 1);
        if shared.active.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter).is_err() {
            continue;
        }
        // SAFETY: we are counted in `active`, so `run` waits for us and the job stays as it is.
        unsafe {
            let job = *shared.job.get();
            (job.call)(job.data, worker);
        }
        shared.active.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Waits until the epoch is not `seen`; gives the new one.
fn wait(shared: &Shared, seen: u32) -> u32 {
    for _ in 0..SPINS {
        let epoch = shared.epoch.load(Ordering::Acquire);
        if epoch != seen {
            return epoch;
        }
        spin_loop();
    }
    let mut sleepers = lock(&shared.sleepers);
    *sleepers += 1;
    loop {
        let epoch = shared.epoch.load(Ordering::SeqCst);
        if epoch != seen {
            *sleepers -= 1;
            return epoch;
        }
        sleepers = shared.wake.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use super::Pool;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_part_runs_once_whoever_runs_it() {
        for workers in [1, 2, 4] {
            let pool = Pool::new(workers);
            for parts in [1usize, 3, 100] {
                let counts: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                let next = AtomicUsize::new(0);
                pool.run(&|_| {
                    while let Some(count) = counts.get(next.fetch_add(1, Ordering::Relaxed)) {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn runs_from_many_threads_and_inside_one_another_end() {
        let pool = Pool::new(3);
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let once = AtomicUsize::new(0);
                        pool.run(&|_| {
                            if once.fetch_add(1, Ordering::Relaxed) == 0 {
                                pool.run(&|worker| {
                                    let _ = worker;
                                });
                                total.fetch_add(1, Ordering::Relaxed);
                            }
                        });
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), 800);
    }
}
