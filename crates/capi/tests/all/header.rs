//! The header says what the library has.

use crate::toolchain::{has, here, library};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// What cbindgen makes of the two files as one. Attributes of this edition are unknown to older ones.
fn made() -> String {
    let parts =
        ["src/types.rs", "src/abi.rs"].map(|part| fs::read_to_string(here(part)).expect("the source"));
    let of_file = |line: &&str| !line.starts_with("#![") && !line.starts_with("//!");
    let source: String = parts.concat().lines().filter(of_file).map(|line| format!("{line}\n")).collect();
    let source = source
        .replace("#[unsafe(no_mangle)]", "#[no_mangle]")
        .replace("/// # Safety", "/// The caller promises:");
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let copy = folder.path().join("abi.rs");
    fs::write(&copy, source).expect("there is room");
    let output = Command::new("cbindgen").arg("--config").arg(here("cbindgen.toml")).arg(copy).output();
    let output = output.expect("it is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn committed() -> String {
    fs::read_to_string(here("include/weir.h")).expect("the header")
}

#[test]
fn the_header_is_up_to_date() {
    if !has("the_header_is_up_to_date", "cbindgen") {
        return;
    }
    let made = made();
    if std::env::var_os("WEIR_REGENERATE").is_some() {
        fs::write(here("include/weir.h"), &made).expect("a writable folder");
    }
    let remedy = "include/weir.h is out of date: WEIR_REGENERATE=1 cargo test -p weir-capi --test all header";
    assert!(committed() == made, "{remedy}");
}

/// The functions that a header declares.
fn declared(header: &str) -> BTreeSet<String> {
    let words = header.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '('));
    let calls = words.filter_map(|word| word.split_once('(').map(|(name, _)| name));
    calls.filter(|name| name.starts_with("weir_")).map(str::to_string).collect()
}

/// The functions that the shared library has for others.
fn exported() -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library("libweir_capi.so")).output();
    let output = output.expect("nm comes with the linker");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_string).collect()
}

#[test]
fn the_library_has_what_the_header_declares_and_nothing_else() {
    let (declared, exported) = (declared(&committed()), exported());
    assert!(declared.len() > 20, "{declared:?}");
    assert_eq!(declared, exported);
}

#[test]
fn the_library_has_a_name_with_its_version() {
    let output = Command::new("readelf").arg("-d").arg(library("libweir_capi.so")).output().expect("as nm");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = env!("CARGO_PKG_VERSION");
    let name = version.rsplit_once('.').expect("three numbers").0;
    assert!(text.contains(&format!("[libweir.so.{name}]")), "{text}");
}

/// Struct by struct, where the fields lie: by the compiler of C, and by that of Rust.
#[test]
fn structs_lie_alike_in_c_and_in_rust() {
    use std::mem::{offset_of, size_of};
    use weir_capi::abi::*;
    let wanted = [
        ("sizeof(struct weir_options)", size_of::<weir_options>()),
        ("sizeof(struct weir_packet)", size_of::<weir_packet>()),
        ("sizeof(struct weir_departure)", size_of::<weir_departure>()),
        ("sizeof(struct weir_stats)", size_of::<weir_stats>()),
        ("sizeof(struct weir_gauge)", size_of::<weir_gauge>()),
        ("sizeof(struct weir_sample)", size_of::<weir_sample>()),
        ("sizeof(struct weir_step)", size_of::<weir_step>()),
        ("offsetof(struct weir_options, message_size)", offset_of!(weir_options, message_size)),
        ("offsetof(struct weir_packet, ecn)", offset_of!(weir_packet, ecn)),
        ("offsetof(struct weir_departure, verdict)", offset_of!(weir_departure, verdict)),
        ("offsetof(struct weir_stats, users_shared)", offset_of!(weir_stats, users_shared)),
        ("offsetof(struct weir_gauge, value)", offset_of!(weir_gauge, value)),
        ("offsetof(struct weir_sample, receiver)", offset_of!(weir_sample, receiver)),
        ("offsetof(struct weir_step, ecn)", offset_of!(weir_step, ecn)),
    ];
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let source = folder.path().join("layout.c");
    let asserts = wanted.map(|(what, size)| format!("_Static_assert({what} == {size}, \"{what}\");\n"));
    fs::write(&source, format!("#include <weir.h>\n{}", asserts.concat())).expect("there is room");
    // C++ has structs and constants of the same names.
    for language in [["-x", "c", "-std=c11"], ["-x", "c++", "-D_Static_assert=static_assert"]] {
        let flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"];
        let output = Command::new("cc").args(language).args(flags).arg(here("include")).arg(&source).output();
        let output = output.expect("a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
