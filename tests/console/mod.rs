//! The console and the pages of the documents: their files on every server, and every view in headless Chromium.

mod files;
mod form;
mod record;
mod reference;
mod views;
