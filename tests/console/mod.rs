//! The console: its files on every server, and every view in headless Chromium.

mod files;
mod record;
mod views;
