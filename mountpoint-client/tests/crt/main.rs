//! `CrtClient` against servers that are scripted answer by answer.

mod control;
mod get;
mod support;
