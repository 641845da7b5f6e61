//! More programs in a mount: what doc/PROGRAMS.md says of each, done with the flags that it names.
//!
//! `make test-more-programs` installs and runs them; `make test` leaves them out, because they
//! take minutes. PyTorch is the newest, on the CPU alone (`torch_without_cuda.py`).

use std::process::Command;

use crate::harness::{Mounted, is_staged, server};
use crate::servers;

/// A program, the flags of its mount, and what becomes of it.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) flags: &'static [&'static str],
    pub(super) outcome: Outcome,
    /// Run by bash in the mount. `$S` is a directory elsewhere, `$TOOLS` the installed programs.
    pub(super) script: &'static str,
}

pub(super) enum Outcome {
    Works,
    /// The script fails, and prints this.
    Says(&'static str),
}
use Outcome::{Says, Works};

const NOT_PERMITTED: Outcome = Says("Operation not permitted");

macro_rules! cases {
    ($($name:literal, $flags:expr, $outcome:expr, $script:expr;)*) => {
        &[$(Case { name: $name, flags: &$flags, outcome: $outcome, script: $script }),*]
    };
}

const CASES: &[Case] = cases! {
    "polars", ["--allow-overwrite"], Works, POLARS;
    "polars without flags", [], NOT_PERMITTED, POLARS;
    "DuckDB", [], Works, DUCKDB;
    "zarr", ["--allow-rename"], Works, ZARR;
    "zarr without flags", [], NOT_PERMITTED, ZARR;
    "zarr, chunks written again", ["--allow-rename", "--allow-overwrite"], Works, ZARR_AGAIN;
    "zarr, chunks written again without a flag", ["--allow-rename"], NOT_PERMITTED, ZARR_AGAIN;
    "TensorBoard", ["--allow-append"], Works, TENSORBOARD;
    "TensorBoard without flags", [], NOT_PERMITTED, TENSORBOARD;
    "webdataset", [], Works, WEBDATASET;
    "Hugging Face datasets", [], Works, DATASETS;
    "torch.distributed.checkpoint", ["--allow-rename"], Works, CHECKPOINT;
    "torch.distributed.checkpoint without flags", [], NOT_PERMITTED, CHECKPOINT;
    "torch.distributed.checkpoint over the last one",
        ["--allow-rename", "--allow-overwrite", "--allow-delete"], Works, CHECKPOINT_AGAIN;
    "torch.distributed.checkpoint over the last one without a flag",
        ["--allow-rename", "--allow-overwrite"], NOT_PERMITTED, CHECKPOINT_AGAIN;
    "litdata", ["--allow-rename", "--allow-delete"], Works, LITDATA;
    "litdata without a flag", ["--allow-delete"], Says("Invalid cross-device link"), LITDATA;
    "ImageMagick", ["--allow-overwrite"], Works,
        "/usr/bin/convert -size 200x100 gradient:red-blue a.png; for to in b.jpg c.gif d.bmp; do /usr/bin/convert a.png -resize 50% $to; \
         test $(/usr/bin/identify -format %wx%h $to) = 100x50; done; /usr/bin/mogrify -rotate 90 a.png; \
         test $(/usr/bin/identify -format %wx%h a.png) = 100x200";
    "ImageMagick without flags", [], Says("WriteBlob Failed"), "/usr/bin/convert -size 200x100 gradient:red-blue a.png";
    "ffmpeg", [], Works,
        "$FFMPEG $VIDEO a.mkv; $FFMPEG $VIDEO a.ts; $FFMPEG $VIDEO -movflags frag_keyframe+empty_moov a.mp4; \
         for f in a.mkv a.ts a.mp4; do test -s $f; $FFMPEG -i $f -f null -; done";
    "ffmpeg to MP4", [], Works, "$FFMPEG $VIDEO a.mp4; $FFMPEG -i a.mp4 -f null -";
    "nginx", ["--allow-other"], Works, NGINX;
    "npm install", ["--allow-overwrite"], Works, NPM;
    "npm install without flags", [], Says("EPERM"), NPM;
    "pip install --target", ["--posix-metadata"], Works, PIP;
    "pip install --target without flags", [], NOT_PERMITTED, PIP;
    "venv", ["--posix-metadata", "--allow-rename", "--allow-overwrite"], Works,
        "/usr/bin/python3 -m venv v; v/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix'; v/bin/pip --version";
    "venv without pip", ["--posix-metadata"], Works,
        "/usr/bin/python3 -m venv --without-pip v; v/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix'";
    "venv without flags", [], NOT_PERMITTED, "/usr/bin/python3 -m venv --without-pip v";
    "go build, to another place", [], Works, "$HELLO; go build -o $S/hello .; test $($S/hello) = hello";
    "go build, into the mount", ["--posix-metadata", "--allow-delete"], Works,
        "$HELLO; go build -o hello .; test $(./hello) = hello; test \"$(echo *)\" = 'go.mod hello main.go'; \
         rm main.go; sed s/hello/hallo/ $S/main.go > main.go; go build -o hello .; test $(./hello) = hallo";
    "go build, into the mount without flags", [], Says("Permission denied"), "$HELLO; go build -o hello .; ./hello";
};

/// What all scripts have. `$HELLO` makes a program of Go in the mount, and keeps its source in
/// `$S`.
const PRELUDE: &str = r#"
export GOFLAGS=-mod=mod GOTOOLCHAIN=local PATH=$PATH:/usr/local/go/bin
PYTHON=$TOOLS/more-programs/bin/python3
TORCH=$TOOLS/torch/bin/python3
FFMPEG="$($PYTHON -c 'import imageio_ffmpeg; print(imageio_ffmpeg.get_ffmpeg_exe())') -v error"
VIDEO="-f lavfi -i testsrc=d=2:s=320x240:r=25"
hello() {
  printf 'module hello\n\ngo 1.20\n' > go.mod
  printf 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("hello") }\n' | tee $S/main.go > main.go
}
HELLO=hello
"#;

const POLARS: &str = r#"$PYTHON -c '
import polars as pl
frame = pl.DataFrame({"a": range(50000), "c": [f"s{i % 5}" for i in range(50000)]})
frame.write_parquet("a.parquet"); assert pl.read_parquet("a.parquet").equals(frame)
frame.write_csv("a.csv"); assert pl.read_csv("a.csv").equals(frame)
frame.write_ipc("a.arrow"); assert pl.read_ipc("a.arrow").equals(frame)
frame.lazy().sink_parquet("s.parquet"); assert pl.scan_parquet("s.parquet").collect().equals(frame)
'"#;

const DUCKDB: &str = r#"$PYTHON -c '
import duckdb
db = duckdb.connect()
db.sql("create table t as select range a, range % 5 c from range(50000)")
db.sql("copy t to $$a.parquet$$")
db.sql("copy t to $$a.csv$$")
db.sql("copy t to $$parts$$ (format parquet, partition_by (c))")
for name in ["a.parquet", "a.csv", "parts/*/*.parquet"]:
    read = db.sql(f"select count(*), sum(a) from read_csv($${name}$$)" if "csv" in name else f"select count(*), sum(a) from read_parquet($${name}$$)")
    assert read.fetchall() == [(50000, 1249975000)], name
'"#;

const ZARR: &str = r#"$PYTHON -c '
import numpy as np, zarr
wanted = np.arange(10000).reshape(100, 100)
array = zarr.create_array(store="a.zarr", shape=(100, 100), chunks=(50, 50), dtype="f4")
array[:] = wanted
assert (zarr.open_array("a.zarr", mode="r")[:] == wanted).all()
'"#;

const ZARR_AGAIN: &str = r#"$PYTHON -c '
import zarr
array = zarr.create_array(store="a.zarr", shape=(100, 100), chunks=(50, 50), dtype="f4")
array[:] = 1
array[:] = 2
assert (zarr.open_array("a.zarr", mode="r")[:] == 2).all()
'"#;

const TENSORBOARD: &str = r#"$PYTHON -c '
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter("logs", flush_secs=1)
for step in range(100):
    value = summary_pb2.Summary.Value(tag="loss", simple_value=step)
    writer.add_event(event_pb2.Event(step=step, summary=summary_pb2.Summary(value=[value])))
    if step % 20 == 0: writer.flush()
writer.close()
read = EventAccumulator("logs"); read.Reload()
assert [event.step for event in read.Scalars("loss")] == list(range(100))
'"#;

const WEBDATASET: &str = r#"$PYTHON -c '
import webdataset as wds
samples = [{"__key__": f"{i:03}", "txt": str(i), "cls": i} for i in range(50)]
with wds.TarWriter("one.tar") as one, wds.ShardWriter("s-%03d.tar", maxcount=20) as shards:
    for sample in samples: one.write(sample); shards.write(sample)
for name in ["one.tar", "s-{000..002}.tar"]:
    read = [int(sample["txt"]) for sample in wds.WebDataset(name, shardshuffle=False).decode()]
    assert read == list(range(50)), read
'"#;

const DATASETS: &str = r#"HF_HOME=$S $PYTHON -c '
import datasets
made = datasets.Dataset.from_dict({"a": list(range(5000)), "t": [str(i) for i in range(5000)]})
made.save_to_disk("d", num_shards=2)
assert datasets.load_from_disk("d")[:] == made[:]
datasets.DatasetDict({"train": made, "test": made}).save_to_disk("both")
assert datasets.load_from_disk("both")["test"][4999]["a"] == 4999
'"#;

/// A state dict as one process has it, and one of a process group, whose tensors are sharded.
const CHECKPOINT: &str = r#"$TORCH -c '
import os, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.tensor import DeviceMesh, Shard, distribute_tensor
saved = {"model": {"w": torch.randn(1000, 500), "b": torch.randn(1000)}, "step": 3}
dcp.save(saved, checkpoint_id="plain")
read = {"model": {"w": torch.zeros(1000, 500), "b": torch.zeros(1000)}, "step": 0}
dcp.load(read, checkpoint_id="plain")
assert torch.equal(read["model"]["w"], saved["model"]["w"]) and read["step"] == 3
dist.init_process_group("gloo", init_method="file://" + os.environ["S"] + "/group", rank=0, world_size=1)
mesh = DeviceMesh("cpu", [0])
whole = torch.randn(1024, 512)
dcp.save({"w": distribute_tensor(whole, mesh, [Shard(0)])}, checkpoint_id="sharded")
dcp.async_save({"w": distribute_tensor(whole, mesh, [Shard(0)])}, checkpoint_id="later").result()
for name in ["sharded", "later"]:
    read = {"w": distribute_tensor(torch.zeros(1024, 512), mesh, [Shard(0)])}
    dcp.load(read, checkpoint_id=name)
    assert torch.equal(read["w"].full_tensor(), whole)
    assert sorted(os.listdir(name)) == [".metadata", "__0_0.distcp"], os.listdir(name)
dist.destroy_process_group()
'"#;

const CHECKPOINT_AGAIN: &str = r#"$TORCH -c '
import torch, torch.distributed.checkpoint as dcp
for step in range(2):
    dcp.save({"w": torch.full((1000, 500), step)}, checkpoint_id="c")
    read = {"w": torch.zeros(1000, 500, dtype=torch.int64)}
    dcp.load(read, checkpoint_id="c")
    assert (read["w"] == step).all()
'"#;

/// Made, and made again over the first.
const LITDATA: &str = r#"
cat > $S/lit.py <<'END'
import litdata, os
def sample(i): return {"index": i, "text": str(i)}
if __name__ == "__main__":
    there = os.getcwd() + "/lit"
    for length, mode in [(200, None), (100, "overwrite")]:
        litdata.optimize(fn=sample, inputs=list(range(length)), output_dir=there, chunk_size=50, num_workers=1, mode=mode)
        assert [item["index"] for item in litdata.StreamingDataset(there)] == list(range(length))
END
HOME=$S DATA_OPTIMIZER_CACHE_FOLDER=$S/chunks DATA_OPTIMIZER_DATA_CACHE_FOLDER=$S/data $TORCH $S/lit.py
"#;

const NGINX: &str = r#"
echo hi > small; head -c 3000000 /dev/urandom > large
cat > $S/nginx.conf <<END
user nobody nogroup; pid $S/pid; error_log $S/error.log; events {}
http {
  access_log off; sendfile on;
  client_body_temp_path $S/b; proxy_temp_path $S/p; fastcgi_temp_path $S/f; uwsgi_temp_path $S/u; scgi_temp_path $S/c;
  server { listen unix:$S/socket; root $PWD; }
}
END
$TOOLS/more-programs/nginx/usr/sbin/nginx -e $S/error.log -c $S/nginx.conf
trap 'kill $(cat $S/pid)' EXIT
for name in small large; do
  /usr/bin/python3 -c '
import socket, sys
client = socket.socket(socket.AF_UNIX); client.connect(sys.argv[1])
client.sendall(f"GET /{sys.argv[2]} HTTP/1.0\r\n\r\n".encode())
answer = client.makefile("rb").read()
assert b" 200 " in answer[:20], answer[:200]
sys.stdout.buffer.write(answer.split(b"\r\n\r\n", 1)[1])' $S/socket $name | cmp - $name
done
"#;

const NPM: &str = r#"
mkdir $S/dep; echo '{"name":"dep","version":"1.0.0","main":"i.js"}' > $S/dep/package.json; echo 'module.exports = 7' > $S/dep/i.js
(cd $S; npm pack --silent ./dep)
echo '{"name":"x","version":"1.0.0"}' > package.json
npm install --no-audit --no-fund --offline $S/dep-1.0.0.tgz
node -e 'process.exit(require("./node_modules/dep") == 7 ? 0 : 1)'
"#;

const PIP: &str = r#"
$PYTHON -m pip install --quiet --no-index --find-links $TOOLS/more-programs/wheels --target site six
PYTHONPATH=site $PYTHON -c 'import six; assert six.__file__.endswith("site/six.py")'
"#;

/// Runs the case on a mount of its own. The reason if it does otherwise than it should.
fn check(case: &Case) -> Result<(), String> {
    if is_staged() && matches!(case.outcome, Says(_)) {
        return Ok(());
    }
    let server = server();
    let mounted = Mounted::new(&server, case.flags);
    run(&mounted, case)
}

/// Runs the script of the case in a mount.
pub(super) fn run(mounted: &Mounted, case: &Case) -> Result<(), String> {
    let python = servers::binary("more-programs/bin/python3");
    let tools = python.ancestors().nth(3).expect("it is three levels below");
    let elsewhere = tempfile::tempdir().unwrap();
    let script = format!("exec 2>&1; {PRELUDE}\n{}", case.script);
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(mounted.path())
        .env("S", elsewhere.path())
        .env("TOOLS", tools)
        .env("PROJECT", concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let is_expected = match case.outcome {
        Works => output.status.success(),
        Says(text) => !output.status.success() && said.contains(text),
    };
    let end: String = said.chars().rev().take(2_000).collect();
    let end: String = end.chars().rev().collect();
    is_expected
        .then_some(())
        .ok_or_else(|| format!("{}: {}\n{end}", case.name, output.status))
}

#[test]
#[ignore = "its programs are installed by `make test-more-programs`"]
fn programs_work_with_the_flags_of_the_table() {
    check_all(CASES, check);
}

/// Checks every case, and fails with the reasons of all that do otherwise than they should.
#[expect(
    clippy::print_stdout,
    reason = "a run takes minutes, and tells how far it is"
)]
pub(super) fn check_all(cases: &[Case], check: impl Fn(&Case) -> Result<(), String>) {
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let outcome = check(case);
            println!(
                "{} {:?}: {}",
                case.name,
                case.flags,
                if outcome.is_ok() {
                    "as expected"
                } else {
                    "OTHERWISE"
                }
            );
            outcome.err()
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
