//! What disturbs the mounts: faults of the server, its outages, new keys, kills.

mod history;
mod schedule;

use std::time::Duration;

use mountpoint_client::testing::server::{Rule, synthetic_bytes};
use rand::Rng as _;
use rand::rngs::StdRng;

pub(super) use history::History;
use schedule::{Disturbance, next};

use super::Soak;
use super::load::reader::KNOWN;
use super::place::Place;

/// Disturbs the mounts until the run stops; then every fault is over.
pub(super) fn run(soak: &Soak, mut numbers: StdRng) {
    while !soak.is_stopped() {
        let count = soak.history.count();
        let disturbance = next(&mut numbers, &soak.settings, (count, soak.allows_kills()));
        let calm = if soak.settings.is_smoke { 300 } else { 1500 };
        soak.pause(Duration::from_millis(numbers.random_range(0..calm)));
        let name = disturbance.name();
        let event = soak.history.begin(&name, disturbance.explains());
        soak.tally.failed(&format!("({})", disturbance.kind()));
        act(soak, disturbance);
        soak.history.end(event);
    }
}

fn act(soak: &Soak, disturbance: Disturbance) {
    let server = &soak.server;
    match disturbance {
        Disturbance::Faults(rules, length) => {
            let ids: Vec<_> = rules
                .into_iter()
                .map(|rule: Rule| server.faults().add(rule))
                .collect();
            soak.pause(length);
            for id in ids {
                server.faults().remove(id);
            }
        }
        Disturbance::Outage(length) => {
            server.stop();
            soak.pause(length);
            server.start_again().unwrap();
        }
        Disturbance::NewKeys => soak.keys.rotate(server),
        Disturbance::Kill(place) => soak.places[place].kill(soak.mounting()),
        Disturbance::Anew(place) => anew(soak, &soak.places[place]),
    }
}

fn anew(soak: &Soak, place: &Place) {
    let (name, size) = KNOWN;
    let content = synthetic_bytes(soak.settings.seed + 3, 0..size);
    place.mount_anew(soak.mounting(), name, &content);
}

/// Changes objects behind the mounts until the run stops.
pub(super) fn change_objects(soak: &Soak, mut numbers: StdRng) {
    while !soak.is_stopped() {
        soak.hot.change(&soak.server, &mut numbers);
        soak.pause(Duration::from_millis(numbers.random_range(0..500)));
    }
}
