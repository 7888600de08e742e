//! What is simulated.

/// Twenty flows, as ns-2 runs them; the length is put in.
pub const TWENTY: &str = "title = \"20 flows\"\n[link]\nrate = \"1Gbit/s\"\n[path]\nrtt = \"50ms\"\n\
    [aqm]\nname = \"codel\"\n[[flows]]\ncount = 20\n[run]\nduration = \"SECONDSs\"\nwarmup = \"5s\"\n";

/// As many flows as the papers on AQM steering use at 10 Gbit/s.
pub const TEN: &str = "title = \"36 flows\"\n[link]\nrate = \"10Gbit/s\"\n[path]\nrtt = \"50ms\"\n\
    [aqm]\nname = \"gsp\"\n[policy]\n[[flows]]\ncount = 36\n[run]\nduration = \"10s\"\nwarmup = \"2s\"\n";

/// Two flows at 100 Gbit/s.
pub const SMALL: &str = "title = \"2 flows\"\n[link]\nrate = \"100Gbit/s\"\n[path]\nrtt = \"20ms\"\n\
    [aqm]\nname = \"codel\"\n[[flows]]\ncount = 2\n[run]\nduration = \"1s\"\nwarmup = \"500ms\"\n";

/// Ten thousand flows at the same rate.
pub const LARGE: &str = "title = \"10000 flows\"\n[link]\nrate = \"100Gbit/s\"\n[path]\nrtt = \"20ms\"\n\
    [aqm]\nname = \"codel\"\n[[flows]]\ncount = 10000\nstart_spread = \"100ms\"\n\
    [run]\nduration = \"1s\"\nwarmup = \"500ms\"\n";

/// One of the runs of a sweep.
pub const SWEPT: &str = "title = \"sweep\"\n[link]\nrate = \"1Gbit/s\"\n[path]\nrtt = \"50ms\"\n\
    [aqm]\nname = \"codel\"\n[[flows]]\ncount = 20\n[run]\nduration = \"10s\"\nwarmup = \"2s\"\n";

/// Flows that load a page of a kilobyte and then think for an hour.
pub fn idle(count: u32) -> String {
    format!(
        "title = \"idle\"\n[link]\nrate = \"1Gbit/s\"\n[path]\nrtt = \"10ms\"\n[aqm]\nname = \"codel\"\n\
         [[flows]]\ncount = {count}\nstart_spread = \"1s\"\n\
         [flows.web]\nobjects = 1\nobject_size = \"1kB\"\nthink = \"3600s\"\n\
         [run]\nduration = \"30s\"\nsample = \"10s\"\n"
    )
}
