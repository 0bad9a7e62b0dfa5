//! A driver by itself, executed on Intel's OpenCL runtime for CPUs: both of its ways to make addresses.

use super::{Arguments, Block, Driver, Entered, opencl};
use oaax_testkit::gpu::{self, Gpu, THREADS};
use std::{ptr::null_mut, sync::Arc};

#[test]
fn shared_and_unified_memory_give_the_same_numbers() {
    oaax_testkit::opencl();
    let found = opencl::probe().expect("Intel's runtime");
    for unified in [true, false] {
        let driver: Arc<dyn Driver> = Arc::new(opencl::OpenCl::open(&found[0], unified).expect("opens"));
        let module = driver.load(&gpu::object(Gpu::Spirv), &["demo_scale_f32", "demo_add_f32"]).expect("loads");
        let missing = driver.load(&gpu::object(Gpu::Spirv), &["other"]).err().expect("no such kernel");
        assert_eq!(missing.message, "kernel other is not in its object");
        let _entered = Entered::new(&driver).expect("enters");
        let (block, queue) = (Block::new(&driver, 4 << 10).expect("allocates"), driver.open_queue().expect("a queue"));
        let x: Vec<f32> = (0..300).map(|i| i as f32).collect();
        let (mut z, bytes, start) = (vec![0f32; 300], 1200, block.address());
        let values = [start, start, start + 2048, 300, start + 3840, start + 3904, 2, 0];
        let mut arguments = Arguments { values: &values, addresses: &mut [null_mut(); 8], buffers: 3 };
        // SAFETY: the block holds the three values, the fault record and the scratch; the queue is waited for.
        unsafe {
            driver.upload(queue, start, x.as_ptr().cast(), bytes).expect("up");
            module.launch(queue, 1, 2, THREADS, &mut arguments).expect("launches");
            driver.copy(queue, start, start + 2048, bytes).expect("across");
            driver.download(queue, z.as_mut_ptr().cast(), start, bytes).expect("down");
        }
        driver.wait(queue).expect("waits");
        driver.close_queue(queue);
        assert!(z.iter().zip(&x).all(|(z, x)| *z == x + x), "unified: {unified}");
    }
}

#[test]
fn memory_beyond_the_device_is_an_error_that_says_how_much() {
    oaax_testkit::opencl();
    let found = opencl::probe().expect("Intel's runtime");
    let driver: Arc<dyn Driver> = Arc::new(opencl::OpenCl::open(&found[0], true).expect("opens"));
    let error = Block::new(&driver, 1 << 50).expect_err("a petabyte");
    assert_eq!(error.status, crate::error::Status::OutOfMemory);
    assert!(error.message.starts_with("1125899906842624 bytes cannot be allocated on "), "{error}");
    Block::new(&driver, 4096).expect("the device is as good as before");
}
