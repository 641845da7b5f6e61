//! The process: its command line, start, log, users, doctor and end.

mod background;
mod bench;
mod command_line;
mod completions;
mod doctor;
mod doctor_writes;
mod lifecycle;
mod logs;
mod sharing;
mod start_errors;
mod warm;
