//! Applications in Python: each reads its job from standard input and prints one line of JSON.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use crate::dataset::FileSet;
use crate::workload::Script;

const COMMON: &str = include_str!("../scripts/common.py");

#[derive(Serialize)]
struct Job {
    files: Vec<PathBuf>,
    size: u64,
    seconds: f64,
}

#[derive(Deserialize)]
struct Found {
    operations: u64,
    bytes: u64,
    elapsed_s: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
}

/// Runs `script` over the files below `root`, for about `limit` at most.
pub(super) fn run(root: &Path, files: FileSet, script: Script, limit: Duration) -> Result<Outcome> {
    let job = Job {
        files: (0..files.count)
            .map(|index| root.join(files.key(index)))
            .collect(),
        size: files.size,
        seconds: limit.as_secs_f64(),
    };
    parse(&execute(&job, script, script.source())?)
}

/// Makes the file that `script` reads, once in `scratch`; `None` if it reads files of the bucket's
/// own.
pub(super) fn make(scratch: &Path, files: FileSet, script: Script) -> Result<Option<PathBuf>> {
    let Some(source) = script.maker() else {
        return Ok(None);
    };
    let path = scratch.join(format!("made-{}", files.seed(0)));
    if !path.exists() {
        let job = Job {
            files: vec![path.clone()],
            size: files.size,
            seconds: 0.0,
        };
        execute(&job, script, source)?;
    }
    Ok(Some(path))
}

/// Runs a source with the imports of `script`, and returns its output.
fn execute(job: &Job, script: Script, source: &str) -> Result<Vec<u8>> {
    let mut child = Command::new(interpreter(script)?)
        .args(["-c", &format!("{COMMON}\n{source}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start python3")?;
    let mut input = child.stdin.take().context("the script's standard input")?;
    // A script that ends before it has read its job says why itself.
    let _ended = input.write_all(&serde_json::to_vec(job)?);
    drop(input);
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "the script ended with {}",
        output.status
    );
    Ok(output.stdout)
}

/// The first Python that has the script's imports: Debian's torch is not seen by another Python in
/// front of it.
fn interpreter(script: Script) -> Result<&'static str> {
    if !script.needs_torch() {
        return Ok("python3");
    }
    let has_torch = |python: &&str| {
        let mut question = Command::new(python);
        question.args([
            "-c",
            "import importlib.util as u; exit(not u.find_spec('torch'))",
        ]);
        question.status().is_ok_and(|status| status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has_torch);
    found.context("there is no PyTorch: install the Debian package python3-torch")
}

fn parse(output: &[u8]) -> Result<Outcome> {
    let found: Found = serde_json::from_slice(output).context("the script's result")?;
    ensure!(found.operations > 0, "the script has done nothing");
    let microseconds = |value: f64| Duration::from_secs_f64(value / 1e6);
    Ok(Outcome {
        elapsed: Duration::from_secs_f64(found.elapsed_s),
        operations: found.operations,
        bytes: found.bytes,
        latency_p50: found.p50_us.map(microseconds),
        latency_p99: found.p99_us.map(microseconds),
        latency_p999: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Dataset;

    /// Requests that the loads of one file do not count.
    const HEADER: u64 = 100 << 10;

    /// Every script over files of a local directory.
    #[test]
    fn scripts_read_all_that_they_are_told() {
        let root = tempfile::tempdir().unwrap();
        let files = FileSet {
            count: 4,
            size: 1 << 20,
            ..Dataset::new(true).images
        };
        for index in 0..files.count {
            let path = root.path().join(files.key(index));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, files.content(index, 0, files.size)).unwrap();
        }
        let all = files.count * files.size;
        for (script, bytes) in [
            (Script::Archive, Some(all)),
            (Script::Folder, Some(all)),
            (Script::SafeTensors, Some(all)),
            (Script::Shared, Some(8 * files.size)),
            (Script::MappedLoad, Some(files.size - HEADER)),
            (Script::ReadLoad, Some(files.size - HEADER)),
            (Script::Streamer, Some(files.size)),
            (Script::Prefetch, Some(all)),
            (Script::Stat, Some(0)),
            (Script::Heads, Some(files.count * 15 * 4096)),
            (Script::Parquet, None),
            (Script::Loader, None),
        ] {
            let outcome = run(root.path(), files, script, Duration::from_secs(60)).unwrap();
            assert!(outcome.operations > 0, "{script:?}");
            if let Some(bytes) = bytes {
                assert_eq!(outcome.bytes, bytes, "{script:?}");
            }
        }
    }

    /// Scripts that need PyTorch are parsed by a Python that may lack it.
    #[test]
    fn scripts_with_torch_are_python() {
        let torch = [Script::TorchLoader, Script::TorchLoad];
        assert!(torch.into_iter().all(Script::needs_torch));
        let sources = torch.map(Script::source).into_iter();
        for source in sources.chain(torch.into_iter().filter_map(Script::maker)) {
            let mut python = Command::new("python3");
            python.args(["-c", "import ast, sys; ast.parse(sys.argv[1])"]);
            let whole = format!("{COMMON}\n{source}");
            assert!(python.arg(&whole).status().unwrap().success(), "{source}");
        }
    }

    #[test]
    fn a_script_that_fails_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let files = Dataset::new(true).images.first(1);
        assert!(run(root.path(), files, Script::Stat, Duration::from_secs(1)).is_err());
        assert!(parse(b"{\"operations\": 0, \"bytes\": 0, \"elapsed_s\": 1}").is_err());
    }
}
