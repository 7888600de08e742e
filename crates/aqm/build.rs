//! Takes an algorithm from outside of this repository into the list: the file that `WEIR_ALGORITHM` names.
//! Where this repository's tests are built, it is that of the example, so that all of them have one from
//! outside.

use std::ffi::OsString;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-env-changed=WEIR_ALGORITHM");
    println!("cargo::rerun-if-changed=build.rs");
    let named = env::var_os("WEIR_ALGORITHM").filter(|named| !named.is_empty());
    let Some(named) = named.or_else(example) else { return };
    let refuse = |why: &str| -> ! {
        println!(
            "cargo::error=WEIR_ALGORITHM is {named:?}, which {why}. Remedy: name the file of an algorithm, by its full path"
        );
        std::process::exit(1);
    };
    let file = Path::new(&named);
    if !file.is_absolute() {
        refuse("is no full path");
    }
    let Ok(file) = file.canonicalize() else { refuse("cannot be found") };
    let Some(text) = file.to_str().filter(|_| file.is_file()) else { refuse("is no file") };
    println!("cargo::rerun-if-changed={text}");
    println!("cargo::rustc-cfg=outside");
    // A module by its path, and not its text, so that the compiler's messages name the author's file.
    let module = format!("#[path = {text:?}]\nmod author;\n");
    let out = env::var_os("OUT_DIR").map(|folder| Path::new(&folder).join("outside.rs"));
    if out.is_none_or(|out| fs::write(out, module).is_err()) {
        refuse("cannot be built in: OUT_DIR cannot be written");
    }
}

/// The file of the example, for the tests.
fn example() -> Option<OsString> {
    env::var_os("CARGO_FEATURE_TEST_ALGORITHM")?;
    let file = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join("../../examples/outside/src/ramp.rs");
    file.is_file().then(|| file.into())
}
