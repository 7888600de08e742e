//! The tests of `weir-wire`, in one program, which links once.

mod corpus;
mod differential;
mod frame;
mod gtpu;
mod ip;
mod pure_ack;
mod round_trip;
mod transport;
