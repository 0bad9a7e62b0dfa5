//! What this process looks like from outside: threads, descriptors, memory, time.

use std::time::Instant;

/// Threads of this process.
pub fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Threads, once they are as few as `wanted` or a second has passed: the system takes a moment to forget a joined one.
pub fn threads_settled(wanted: usize) -> usize {
    let start = Instant::now();
    while threads() > wanted && start.elapsed().as_millis() < 1000 {
        wait(5);
    }
    threads()
}

/// Open descriptors.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Resident memory in KiB.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Bytes that `malloc` has given out and not got back.
pub fn heap() -> i64 {
    // SAFETY: reads the allocator's counters.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks as i64 + info.hblkhd as i64
}

/// Bytes written to standard output so far, where it is a file; what the C library still holds is pushed out first.
pub fn printed() -> u64 {
    // SAFETY: null means all streams; the place is a plain struct that fstat fills.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        let mut data: libc::stat = std::mem::zeroed();
        if libc::fstat(1, &mut data) == 0 { data.st_size as u64 } else { 0 }
    }
}

/// Waits so many milliseconds, to let another thread get where the check wants it.
pub fn wait(milliseconds: i32) {
    // SAFETY: no descriptors are given.
    unsafe { libc::poll(std::ptr::null_mut(), 0, milliseconds) };
}

/// Milliseconds since `start`.
pub fn since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}
