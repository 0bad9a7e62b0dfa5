//! `oaax-testkit FOLDER`: writes the demo artefacts that the host examples run.

use oaax_testkit::{programs, write_model};
use std::path::Path;

fn main() {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: oaax-testkit FOLDER");
        std::process::exit(2);
    };
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder).expect("the folder can be made");
    for program in [programs::scaled_sum(), programs::nonzero(), programs::gather(), programs::repeated_sum()] {
        let path = folder.join(format!("{}.oaax", program.name));
        write_model(&program, &path);
        println!("{}", path.display());
    }
}
