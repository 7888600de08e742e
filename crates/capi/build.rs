//! Gives the shared library its name for the loader, which cargo-c does itself.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if is_linux && std::env::var_os("CARGO_FEATURE_CAPI").is_none() {
        let of = |part: &str| std::env::var(format!("CARGO_PKG_VERSION_{part}")).unwrap_or_default();
        // Before 1.0 a minor version may break the interface.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libweir.so.{}.{}", of("MAJOR"), of("MINOR"));
    }
}
