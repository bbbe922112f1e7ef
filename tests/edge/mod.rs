//! What stands in front of every family: host names, streams of HTTP/2, metrics, the folder of the web page.

mod hosts;
mod metrics;
mod page;
mod streams;
