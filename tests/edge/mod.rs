//! What stands in front of every family: host names, streams of HTTP/2.

mod hosts;
mod streams;
