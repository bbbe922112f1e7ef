//! What benches and campaigns drive the real programs with: a client that looks at little, graphs and uploads spelled as bytes,
//! numbers from several seeds, and programs that are built, started and killed.

pub mod form;
pub mod graphs;
pub mod http;
pub mod random;
pub mod server;
pub mod usage;
