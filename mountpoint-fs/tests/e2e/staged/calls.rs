//! System calls on staged files, beside the same calls on the local disk.

use crate::harness::{put, server};

use super::{BOTH, Staged, staged, stored};

/// Calls on the files of one folder: on the local disk, then in the mount.
const CALLS: &str = r"
import ctypes, fcntl, mmap, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
def allocate(fd, mode, at, length):
    if libc.fallocate(fd, mode, at, length) != 0:
        raise OSError(ctypes.get_errno(), 'fallocate')
def calls(root):
    fd = os.open(root + '/f', os.O_RDWR)
    os.pwrite(fd, b'X' * 10, 5000); os.pwrite(fd, b'Y' * 10, 4995); os.pwrite(fd, b'Z', 20000)
    yield os.pread(fd, 30000, 0)
    os.ftruncate(fd, 7000); os.ftruncate(fd, 9000); yield os.pread(fd, 30000, 0)
    other = os.open(root + '/f', os.O_WRONLY | os.O_APPEND); os.write(other, b'end'); os.write(other, b'end')
    yield os.pread(fd, 30000, 0), os.fstat(fd).st_size, os.stat(root + '/f').st_size
    allocate(fd, 3, 100, 5000); yield os.pread(fd, 30000, 0)
    allocate(fd, 0x10, 8990, 100); yield os.pread(fd, 30000, 0)
    allocate(fd, 0, 0, 12000); allocate(fd, 1, 0, 50000); yield os.fstat(fd).st_size
    copied = os.copy_file_range(fd, other, 3000, 6000, None) if False else os.pwrite(other, b'copy', 0)
    yield copied, os.pread(fd, 30000, 0)
    with mmap.mmap(fd, 12000) as mapped:
        mapped[6000:6010] = b'mapped one'; mapped[11000:11003] = b'two'
        yield mapped[5990:6020], os.pread(other_reader := os.open(root + '/f', os.O_RDONLY), 30, 5990)
        os.pwrite(fd, b'written', 6002); yield mapped[5990:6020]
        mapped.flush()
    os.close(other_reader)
    fcntl.flock(fd, fcntl.LOCK_EX); fcntl.lockf(other, fcntl.LOCK_EX, 10, 0); fcntl.flock(fd, fcntl.LOCK_UN)
    os.truncate(root + '/f', 11500); yield os.pread(fd, 30000, 0)
    os.fsync(fd); os.close(other); os.close(fd); yield open(root + '/f', 'rb').read()
    fd = os.open(root + '/new', os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try: os.open(root + '/new', os.O_RDWR | os.O_CREAT | os.O_EXCL)
    except FileExistsError: yield 'exists'
    os.write(fd, b'abc'); os.lseek(fd, 0, 0); yield os.read(fd, 10)
    os.rename(root + '/new', root + '/f'); os.write(fd, b'def'); yield open(root + '/f', 'rb').read()
    os.unlink(root + '/f'); os.pwrite(fd, b'Q', 1); yield os.pread(fd, 10, 0), os.path.exists(root + '/f')
    os.close(fd)
    fd = os.open(root + '/sync', os.O_RDWR | os.O_CREAT | os.O_SYNC, 0o644); os.write(fd, b'stored'); os.close(fd)
    fd = os.open(root + '/direct', os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644); page = mmap.mmap(-1, 4096); page.write(b'd' * 4096)
    os.write(fd, page); os.close(fd); yield open(root + '/direct', 'rb').read(), open(root + '/sync', 'rb').read()
    with open(root + '/shared', 'wb') as f: f.truncate(1 << 20)
    if os.fork() == 0:
        with open(root + '/shared', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m: m[500000:500005] = b'child'
        os._exit(0)
    with open(root + '/shared', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m:
        m[0:6] = b'parent'; assert os.wait()[1] == 0; yield m[0:6] + m[500000:500005]
    fds = [os.open(root + '/shared', os.O_RDWR) for _ in range(3)]
    for i, fd in enumerate(fds): os.pwrite(fd, bytes([65 + i]) * 100, i * 50)
    for fd in fds: os.close(fd)
    yield open(root + '/shared', 'rb').read()
";

/// A program that makes other files from a stamp looks at its time.
#[test]
fn an_empty_file_that_is_opened_with_o_trunc_has_a_new_time() {
    for make in BOTH {
        let server = server();
        let staged = make(&server, &["--posix-metadata"]);
        let set = ": > f; touch -d 2001-01-01 f";
        staged.run(&format!("{set}; test $(date -r f +%Y) = 2001"));
        staged.run(": > f; test $(date -r f +%Y) != 2001");
        assert!(staged.mounted.unmount().success());
        let again = make(&server, &["--posix-metadata"]);
        again.run("test $(date -r f +%Y) != 2001");
    }
}

#[test]
fn calls_do_what_they_do_on_a_local_disk() {
    let (server, staged) = staged();
    let content: Vec<u8> = (0..10_000_u32).map(|at| (at % 251) as u8).collect();
    put(&server, "f", content.clone());
    std::fs::create_dir(staged.local.path().join("d")).unwrap();
    std::fs::write(staged.local.path().join("d/f"), content).unwrap();
    staged.python(&format!(
        "{CALLS}
import itertools
for step, (there, here) in enumerate(itertools.zip_longest(calls(L + '/d'), calls('.'))):
    assert there == here, (step, there if len(repr(there)) < 500 else '...', here if len(repr(here)) < 500 else '...')
"
    ));
    let local = |name: &str| std::fs::read(staged.local.path().join("d").join(name)).unwrap();
    for name in ["sync", "direct", "shared"] {
        assert!(stored(&server, name) == local(name), "{name}");
    }
    assert_eq!(
        server.store().keys("test-bucket"),
        ["direct", "shared", "sync"]
    );
}

/// Many processes write their parts of one file.
#[test]
fn processes_write_one_file_at_once() {
    let (server, staged) = staged();
    staged.python(
        "
with open('f', 'wb') as f: f.truncate(8 * 300000)
children = []
for child in range(8):
    if (pid := os.fork()) == 0:
        fd = os.open('f', os.O_RDWR)
        for at in range(0, 300000, 10000): os.pwrite(fd, bytes([child]) * 10000, child * 300000 + at)
        os.close(fd)
        os._exit(0)
    children.append(pid)
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
",
    );
    let expected: Vec<u8> = (0..8_u8).flat_map(|child| vec![child; 300_000]).collect();
    assert!(stored(&server, "f") == expected);
}

/// Each change by root and by a user without privileges, on files of several modes.
#[test]
fn set_id_bits_go_as_on_a_local_disk() {
    for args in [&[][..], &["--write-back"]] {
        let server = server();
        let args = [&["--posix-metadata", "--allow-other"], args].concat();
        let staged = Staged::new(&server, &args);
        staged.python(
            "
os.chmod(L, 0o777)
def opened(path, flags, act=lambda fd: None):
    fd = os.open(path, flags)
    try: act(fd)
    finally: os.close(fd)
def copy(path):
    opened(path, os.O_RDWR, lambda fd: os.copy_file_range(fd, fd, 100, 0, 4000))
changes = {
    'read': lambda path: open(path).read(),
    'write': lambda path: opened(path, os.O_RDWR, lambda fd: os.pwrite(fd, b'y', 5)),
    'append': lambda path: opened(path, os.O_WRONLY | os.O_APPEND, lambda fd: os.write(fd, b'z')),
    'truncate': lambda path: os.truncate(path, 10),
    'ftruncate': lambda path: opened(path, os.O_RDWR, lambda fd: os.ftruncate(fd, 20)),
    'O_TRUNC': lambda path: opened(path, os.O_WRONLY | os.O_TRUNC),
    'fallocate': lambda path: opened(path, os.O_RDWR, lambda fd: os.posix_fallocate(fd, 0, 9000)),
    'copy_file_range': copy,
    'chown': lambda path: os.chown(path, 5, 5) if os.geteuid() == 0 else None,
    'utime': lambda path: os.utime(path) ,
}
def modes(folder):
    found = {}
    os.makedirs(folder)
    for name, change in changes.items():
        for user in (0, 1000):
            for mode in (0o6777, 0o4767, 0o2767, 0o2777, 0o777):
                path = f'{folder}/{name}-{user}-{mode:o}'
                open(path, 'wb').write(b'x' * 8000)
                os.chmod(path, mode)
                os.seteuid(user)
                try: change(path)
                finally: os.seteuid(0)
                found[path[len(folder):]] = oct(os.stat(path).st_mode & 0o7777)
    return found
there, here = modes(L + '/m'), modes('m')
different = [(name, here[name], there[name]) for name in here if here[name] != there[name]]
assert not different, different
assert here['/write-1000-6777'] == '0o777' and here['/write-0-6777'] == '0o6777', here
os.chmod(L, 0o700)
",
        );
    }
}

/// Linux drops old pages only behind writes that the application waits for in the call.
#[test]
fn asynchronous_direct_writes_leave_no_old_pages() {
    let (_server, staged) = staged();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/async_direct_writes.py");
    for way in ["aio", "io_uring"] {
        staged.run(&format!("python3 {program} {way} {way} 400"));
    }
}
