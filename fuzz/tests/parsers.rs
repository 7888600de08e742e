//! A target for everything that reads what others have written.

weir_fuzz::targets! {
    scenario: 300, weir_fuzz::scenario;
    configuration: 300, weir_fuzz::configuration;
    trace: 500, weir_fuzz::trace;
    frame: 2000, weir_fuzz::frame;
    journal: 500, weir_fuzz::journal;
    sensed: 1000, weir_fuzz::sensed;
}
