//! A target for everything that reads what others have written.

weir_fuzz::targets! {
    scenario: 300, weir_fuzz::scenario;
    configuration: 300, weir_fuzz::configuration;
    upf_configuration: 300, weir_fuzz::upf_configuration;
    pfcp: 500, weir_fuzz::pfcp;
    pfcp_octets: 500, weir_fuzz::pfcp_octets;
    filters: 2000, weir_fuzz::filters;
    sdf_filter: 2000, weir_fuzz::sdf_filter;
    trace: 500, weir_fuzz::trace;
    frame: 2000, weir_fuzz::frame;
    journal: 500, weir_fuzz::journal;
    sensed: 1000, weir_fuzz::sensed;
    tc_message: 2000, weir_fuzz::tc_message;
}
