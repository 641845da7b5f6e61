//! Libraries that write arrays in place: Debian's Python packages and wheels, which
//! `make test-programs` installs.

use super::{on_both, stored};
use crate::servers;

const ARRAYS: &str = "
import numpy as np, h5py
a = np.lib.format.open_memmap('a.npy', mode='w+', dtype='f8', shape=(1000, 100))
a[:] = 1; a[500] = 2; a.flush(); del a
m = np.load('a.npy', mmap_mode='r+'); m[3, 7] = 9; m.flush(); del m
r = np.memmap('raw', dtype='i4', mode='w+', shape=(300000,)); r[::1000] = 5; del r
r = np.memmap('raw', dtype='i4', mode='r+'); assert r.sum() == 1500; r[1] = 1; r.flush(); del r
with h5py.File('h.h5', 'w') as f:
    d = f.create_dataset('x', data=np.arange(10000), maxshape=(None,), chunks=True); f.create_group('g')['y'] = np.ones(50000)
for _ in range(3):
    with h5py.File('h.h5', 'a') as f:
        d = f['x']; d.resize(len(d) + 5000, axis=0); d[-5000:] = -1; f['g/y'][10:20] = 3
with h5py.File('h.h5') as f:
    assert len(f['x']) == 25000 and f['x'][9999] == 9999 and f['x'][-1] == -1 and f['g/y'][15] == 3
np.savez('z.npz', a=np.eye(9), b=np.arange(100000)); assert np.load('z.npz')['b'][-1] == 99999
import pandas, shelve
pandas.DataFrame({'a': range(1000)}).to_csv('x.zip'); assert len(pandas.read_csv('x.zip')) == 1000
for round in range(3):
    with shelve.open('shelf') as shelf: shelf[f'key{round}'] = list(range(5000)); shelf['key0'] = round
with shelve.open('shelf') as shelf: assert shelf['key0'] == 2 and shelf['key2'][-1] == 4999
";

#[test]
fn arrays_are_changed_in_place() {
    on_both(|server, staged| {
        let program = staged.local.path().join("arrays.py");
        std::fs::write(&program, ARRAYS).unwrap();
        let python = servers::binary("python/bin/python3");
        staged.run(&format!("{} $L/arrays.py", python.display()));
        let raw = stored(server, "raw");
        assert_eq!((raw.len(), raw[0], raw[4]), (1_200_000, 5, 1));
        std::fs::write(staged.local.path().join("h.h5"), stored(server, "h.h5")).unwrap();
        staged.run(&format!(
        "{} -c \"import h5py, os; assert len(h5py.File(os.environ['L'] + '/h.h5')['x']) == 25000\"",
        python.display()
    ));
    });
}
