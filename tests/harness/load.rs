//! What benches and campaigns drive the real programs with, besides the client and the numbers of all tests: graphs and uploads
//! spelled as bytes, and programs that are built, started and killed.

pub mod form;
pub mod graphs;
pub mod server;
