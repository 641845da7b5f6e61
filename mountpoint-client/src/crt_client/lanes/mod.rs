//! The CRT's clients, one lane for each network interface, and how long their connections live.

mod data_clients;
mod idle;

pub(super) use data_clients::{DataClients, Lane};
pub(super) use idle::Keeper;
