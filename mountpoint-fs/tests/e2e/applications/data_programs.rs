//! Libraries that write tables, tensors and arrays. Each statement of doc/PROGRAMS.md is tried,
//! with its content.
//!
//! The libraries are Debian's Python packages and wheels, which `make test-programs` installs.

use std::process::{Command, Output, Stdio};

use crate::harness::{BUCKET, Mounted, server};
use crate::servers;

/// Runs a Python program in the mount.
fn python(mounted: &Mounted, program: &str) -> Output {
    Command::new(servers::binary("python/bin/python3"))
        .args(["-c", program])
        .current_dir(mounted.path())
        .env("OMP_NUM_THREADS", "2")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[track_caller]
fn succeeds(mounted: &Mounted, program: &str) {
    let output = python(mounted, program);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}\n{said}", output.status);
}

const TABLES: &str = "
import os, numpy as np, pandas as pd, pyarrow as pa
import pyarrow.csv, pyarrow.dataset, pyarrow.feather, pyarrow.orc, pyarrow.parquet as pq
frame = pd.DataFrame({'a': np.arange(50000), 'b': np.random.rand(50000), 'c': [f's{i % 5}' for i in range(50000)]})
same = lambda read: pd.testing.assert_frame_equal(read, frame)
frame.to_parquet('a.parquet'); same(pd.read_parquet('a.parquet'))
frame.to_feather('a.feather'); same(pd.read_feather('a.feather'))
frame.to_pickle('a.pickle'); same(pd.read_pickle('a.pickle'))
for name in ['a.csv', 'a.csv.gz', 'a.csv.bz2']:
    frame.to_csv(name, index=False); same(pd.read_csv(name, float_precision='round_trip'))
frame.to_json('a.json', orient='records', lines=True)
assert len(pd.read_json('a.json', orient='records', lines=True)) == len(frame)
table = pa.Table.from_pandas(frame)
pq.write_table(table, 't.parquet', row_group_size=1000)
assert pq.read_table('t.parquet').equals(table) and pq.read_table('t.parquet', memory_map=True).equals(table)
with pq.ParquetWriter('groups.parquet', table.schema) as writer:
    for batch in table.to_batches(max_chunksize=7000): writer.write_batch(batch)
assert pq.read_table('groups.parquet').equals(table)
pa.dataset.write_dataset(table, 'partitioned', format='parquet', partitioning=['c'])
assert pa.dataset.dataset('partitioned', partitioning=['c']).to_table().num_rows == len(frame)
pq.write_to_dataset(table, 'pieces', partition_cols=['c'])
assert pq.read_table('pieces').num_rows == len(frame)
pa.csv.write_csv(table, 't.csv'); assert pa.csv.read_csv('t.csv').num_rows == len(frame)
pa.orc.write_table(table, 't.orc'); assert pa.orc.read_table('t.orc').equals(table.replace_schema_metadata())
with pa.OSFile('t.arrow', 'wb') as sink, pa.ipc.new_file(sink, table.schema) as writer: writer.write_table(table)
with pa.memory_map('t.arrow') as source: assert pa.ipc.open_file(source).read_all().equals(table)
";

#[test]
fn tables_are_written_and_read() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    succeeds(&mounted, TABLES);
    let keys = server.store().keys(BUCKET);
    assert!(keys.iter().any(|key| key == "a.parquet"), "{keys:?}");
    let parts = |prefix: &str| keys.iter().filter(|key| key.starts_with(prefix)).count();
    assert_eq!((parts("partitioned/"), parts("pieces/")), (5, 5));
}

const TENSORS: &str = "
import numpy as np, os, torch
weights = {f'layer{i}': torch.randn(1000, 1000) for i in range(8)}
def same(read):
    assert read.keys() == weights.keys() and all(torch.equal(read[name], weights[name]) for name in weights)
torch.save(weights, 'weights.pt'); same(torch.load('weights.pt'))
torch.save(weights, 'old.pt', _use_new_zipfile_serialization=False); same(torch.load('old.pt'))
with open('opened.pt', 'wb') as file: torch.save(weights, file)
same(torch.load('opened.pt'))
model = torch.nn.Sequential(torch.nn.Linear(100, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
torch.save(model.state_dict(), 'model.pt')
model.load_state_dict(torch.load('model.pt'))
torch.jit.script(model).save('script.pt')
x = torch.randn(5, 100)
assert torch.equal(torch.jit.load('script.pt')(x), model(x))
array = np.random.rand(500, 500)
np.save('array.npy', array)
assert np.array_equal(np.load('array.npy'), array) and np.array_equal(np.load('array.npy', mmap_mode='r'), array)
array.tofile('array.bin')
assert np.array_equal(np.fromfile('array.bin').reshape(500, 500), array)
os.mkdir('samples')
for i in range(40): np.save(f'samples/{i}.npy', np.full((50, 50), i))
class Samples(torch.utils.data.Dataset):
    def __len__(self): return 40
    def __getitem__(self, i): return torch.from_numpy(np.load(f'samples/{i}.npy'))
loader = torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=2, shuffle=True)
assert sorted(int(sample[0, 0]) for batch in loader for sample in batch) == list(range(40))
";

#[test]
fn tensors_are_written_and_read() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    succeeds(&mounted, TENSORS);
}

/// safetensors writes a temporary file and renames it over the last one before it closes it.
const SAFETENSORS: &str = "
import numpy as np, os, safetensors, safetensors.numpy, torch
from safetensors.torch import load_file, save_file
for step in range(2):
    weights = {f'layer{i}': torch.randn(1000, 1000) for i in range(8)}
    save_file(weights, 'weights.safetensors', metadata={'step': str(step)})
    read = load_file('weights.safetensors')
    assert read.keys() == weights.keys() and all(torch.equal(read[name], weights[name]) for name in weights)
    with safetensors.safe_open('weights.safetensors', framework='pt') as file:
        assert file.metadata() == {'step': str(step)}
        assert torch.equal(file.get_slice('layer3')[10:20], weights['layer3'][10:20])
array = np.random.rand(500, 500)
safetensors.numpy.save_file({'a': array}, 'array.safetensors')
assert np.array_equal(safetensors.numpy.load_file('array.safetensors')['a'], array)
assert sorted(os.listdir()) == ['array.safetensors', 'weights.safetensors']
";

#[test]
fn safetensors_are_written_and_read() {
    let server = server();
    let mounted = Mounted::new(&server, &["--allow-rename", "--allow-overwrite"]);
    succeeds(&mounted, SAFETENSORS);
    assert_eq!(
        server.store().keys(BUCKET),
        ["array.safetensors", "weights.safetensors"]
    );
}

/// A checkpoint of 256 MiB, twice renamed over the last one, then written over itself.
const CHECKPOINTS: &str = "
import numpy as np, os, torch
for step in range(2):
    state = {'step': step, 'weights': [torch.randn(1 << 20) for _ in range(64)]}
    torch.save(state, 'checkpoint.tmp')
    os.replace('checkpoint.tmp', 'checkpoint.pt')
    read = torch.load('checkpoint.pt')
    assert read['step'] == step and all(map(torch.equal, read['weights'], state['weights']))
assert os.stat('checkpoint.pt').st_size > 1 << 28
torch.save({'step': 2}, 'checkpoint.pt')
assert torch.load('checkpoint.pt') == {'step': 2}
np.savetxt('table.txt', np.eye(3))
assert np.array_equal(np.loadtxt('table.txt'), np.eye(3))
";

#[test]
fn checkpoints_replace_each_other() {
    let server = server();
    let flags = ["--allow-overwrite", "--allow-rename", "--allow-delete"];
    let mounted = Mounted::new(&server, &flags);
    succeeds(&mounted, CHECKPOINTS);
    assert_eq!(server.store().keys(BUCKET), ["checkpoint.pt", "table.txt"]);
}

/// Programs that go back in their files.
const IN_PLACE: &str = "
import h5py, numpy as np, pandas as pd, zipfile
np.savez('x.npz', a=np.eye(9)); assert (np.load('x.npz')['a'] == np.eye(9)).all()
m = np.memmap('mapped', mode='w+', shape=(9, 9)); m[3, 4] = 7; m.flush(); del m
assert np.memmap('mapped', mode='r', shape=(9, 9)).sum() == 7
pd.DataFrame({'a': [1]}).to_csv('x.zip'); assert len(pd.read_csv('x.zip')) == 1
with zipfile.ZipFile('x.zip', 'a') as archive: archive.writestr('more', b'more' * 99)
assert zipfile.ZipFile('x.zip').testzip() is None
with h5py.File('x.h5', 'w') as file: file.create_dataset('a', data=list(range(9999)), maxshape=(None,))
with h5py.File('x.h5', 'a') as file: file['b'] = [1, 2]; file['a'].resize((10000,)); file['a'][5] = 0
with h5py.File('there', 'r+') as file: file['a'][7] = 77
";

/// What another mount reads of them.
const STORED: &str = "
import h5py, numpy as np, pandas as pd, zipfile
assert (np.load('x.npz')['a'] == np.eye(9)).all()
assert np.memmap('mapped', mode='r', shape=(9, 9))[3, 4] == 7
archive = zipfile.ZipFile('x.zip'); assert archive.testzip() is None and len(archive.namelist()) == 2
with h5py.File('x.h5') as file: assert len(file['a']) == 10000 and list(file['a'][4:7]) == [4, 0, 6] and list(file['b']) == [1, 2]
with h5py.File('there') as file: assert list(file['a'][6:9]) == [6, 77, 8]
";

/// An HDF5 file that is built in memory and then written sequentially.
const HDF5: &str = "
import h5py, io
buffer = io.BytesIO()
with h5py.File(buffer, 'w') as file: file['a'] = list(range(9999))
with open('there', 'wb') as file: file.write(buffer.getbuffer())
with h5py.File('there', 'r') as file: assert list(file['a']) == list(range(9999))
";

#[test]
fn what_writes_in_no_order_works() {
    let server = server();
    let flags = ["--allow-changes"];
    let mounted = Mounted::new(&server, &flags);
    succeeds(&mounted, HDF5);
    succeeds(&mounted, IN_PLACE);
    drop(mounted);
    let keys = server.store().keys(BUCKET);
    assert_eq!(keys, ["mapped", "there", "x.h5", "x.npz", "x.zip"]);
    succeeds(&Mounted::new(&server, &flags), STORED);
}

/// New files need no flag, an existing one does.
#[test]
fn without_flags_new_files_are_written_in_no_order() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    succeeds(&mounted, HDF5);
    let there = server.store().object(BUCKET, "there").unwrap().etag();
    succeeds(
        &mounted,
        "import h5py, numpy; numpy.savez('x', a=numpy.eye(9)); h5py.File('y', 'w')['a'] = [1] * 9999",
    );
    let output = python(&mounted, "import h5py; h5py.File('there', 'r+')['b'] = 1");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("[Errno 9]"),
        "{said}"
    );
    assert_eq!(server.store().keys(BUCKET), ["there", "x.npz", "y"]);
    let now = server.store().object(BUCKET, "there").unwrap().etag();
    assert_eq!(now, there);
}
