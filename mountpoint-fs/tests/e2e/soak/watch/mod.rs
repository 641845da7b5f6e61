//! Looks at every mount once a second, tells what it saw, and fails the run at a limit.

mod policy;
mod sample;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use policy::{MEASURES, above, growth, leak};
pub(super) use sample::{Handles, handles};
use sample::{Sample, Tail, sample};

use super::Soak;

/// Longer than any call takes, which has several requests that may each take a minute or more.
const CALL_MAX: Duration = Duration::from_secs(300);

const SECOND: Duration = Duration::from_secs(1);

/// Everything that was seen: the samples of each process, by its place and its number there.
#[derive(Default)]
pub(super) struct Series(BTreeMap<(usize, u64), Vec<Sample>>);

/// Watches until the run is over.
pub(super) fn run(soak: &Soak) -> Series {
    let mut series = Series::default();
    let mut tails: Vec<Tail> = soak.places.iter().map(|_| Tail::default()).collect();
    let mut table = table(soak);
    let (start, mut next_line) = (Instant::now(), 60);
    while !soak.is_over() {
        let began = Instant::now();
        for (number, place) in soak.places.iter().enumerate() {
            let Some((life, sample)) = sample(&soak.program, place, &mut tails[number]) else {
                continue;
            };
            let name = place.kind.name();
            let second = start.elapsed().as_secs();
            let numbers = sample.map(|value| format!("{value}")).join(",");
            writeln!(table, "{second},{name},{life},{numbers}").unwrap();
            let above = MEASURES
                .iter()
                .zip(sample)
                .find_map(|(of, value)| above(of, value));
            assert!(above.is_none(), "{name}: {}", above.unwrap());
            series.0.entry((number, life)).or_default().push(sample);
        }
        let hanging = soak.tally.hanging(CALL_MAX);
        assert!(hanging.is_empty(), "calls hang: {hanging:#?}");
        if start.elapsed().as_secs() >= next_line {
            next_line += 60;
            tell(soak, &series, &tails, start.elapsed());
        }
        soak.pause_watch(SECOND.saturating_sub(began.elapsed()));
    }
    tell(soak, &series, &tails, start.elapsed());
    series
}

/// The file of all samples.
fn table(soak: &Soak) -> BufWriter<File> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/soak");
    std::fs::create_dir_all(&folder).unwrap();
    let kind = if soak.settings.is_smoke { "smoke-" } else { "" };
    let path: PathBuf = folder.join(format!("{kind}{}.csv", soak.settings.seed));
    let mut table = BufWriter::new(File::create(path).unwrap());
    let names = MEASURES.map(|measure| measure.name).join(",");
    writeln!(table, "second,mount,life,{names}").unwrap();
    table
}

/// A few lines of what the load did, and of what the mounts take.
#[expect(
    clippy::print_stdout,
    reason = "a run takes long, and tells how far it is"
)]
fn tell(soak: &Soak, series: &Series, tails: &[Tail], since: Duration) {
    let tally = &soak.tally;
    println!(
        "{:>6} s: {} rounds, {} operations, {} MiB; {}",
        since.as_secs(),
        tally.rounds.load(Ordering::Relaxed),
        tally.operations.load(Ordering::Relaxed),
        tally.bytes.load(Ordering::Relaxed) >> 20,
        tally.failures()
    );
    for (number, place) in soak.places.iter().enumerate() {
        let last = series.0.range((number, 0)..(number + 1, 0)).next_back();
        let Some(((_, life), samples)) = last else {
            continue;
        };
        let [
            anon,
            file,
            files,
            sockets,
            threads,
            inodes,
            folder,
            log,
            reserved,
        ] = *samples.last().unwrap();
        let mib = |bytes: f64| bytes / 1_048_576.0;
        println!(
            "         {:10} life {life}: anon {:.0} MiB (data {:.0}), file {:.0} MiB, {files} files, \
             {sockets} sockets, {threads} threads, {inodes} inodes, folder {:.0} MiB, log {} lines ({log})",
            place.kind.name(),
            mib(anon),
            mib(reserved),
            mib(file),
            mib(folder),
            tails[number].lines()
        );
    }
}

impl Series {
    /// Judges the growth of every process and prints the series of what grew.
    #[expect(clippy::print_stdout, reason = "shows what is judged")]
    pub(super) fn judge(&self, soak: &Soak) {
        let mut leaks = Vec::new();
        for ((place, life), samples) in &self.0 {
            for (at, measure) in MEASURES.iter().enumerate() {
                let values: Vec<f64> = samples.iter().map(|sample| sample[at]).collect();
                let name = format!("{} life {life}", soak.places[*place].kind.name());
                if let Some(leak) = leak(measure, &values) {
                    let step = values.len().div_ceil(60);
                    println!(
                        "{name} {}: {:?}",
                        measure.name,
                        values.chunks(step).map(mean).collect::<Vec<_>>()
                    );
                    leaks.push(format!("{name}: {leak}"));
                } else if let Some((second, more)) = growth(&values)
                    && values.len() >= 120
                {
                    let most = values.iter().copied().fold(0.0, f64::max);
                    println!(
                        "{name} {}: {second:.0} {more:+.0}, at most {most:.0}",
                        measure.name
                    );
                }
            }
        }
        assert!(leaks.is_empty(), "{leaks:#?}");
    }
}

fn mean(values: &[f64]) -> f64 {
    (values.iter().sum::<f64>() / values.len() as f64).round()
}
