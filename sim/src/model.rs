//! What tells one state of the models from another.

/// Trace hashes of the reference runs in `tests/determinism.rs`, which fails where they are others.
///
/// Results of runs are kept beside them: once the behaviour of an algorithm, a queue, an end host or a link changes,
/// so do these, and what was computed before is not mixed with what is computed now.
pub const MODEL: [u64; 5] = [
    0x565d_46ba_ad02_1799,
    0x66df_2c27_865c_acb0,
    0xd172_1d54_555e_519b,
    0xb417_60f0_eb5f_5aae,
    0x9a77_70ca_48fe_8580,
];
