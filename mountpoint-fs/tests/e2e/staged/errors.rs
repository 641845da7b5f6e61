//! Calls that fail: with the errno of a local disk, or with the one that doc/SEMANTICS.md names.

use super::Staged;
use crate::harness::{put, server};

/// Each call is tried on the local disk, then in the mount.
const CALLS: &str = r#"
import ctypes, errno, fcntl, mmap, shutil, stat, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
libc.renameat2.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
def check(result):
    if result != 0: raise OSError(ctypes.get_errno(), 'failed')
def allocate(fd, mode, at, length): check(libc.fallocate(fd, mode, at, length))
def rename2(a, b, flags): check(libc.renameat2(-100, a.encode(), -100, b.encode(), flags))
LONG, W, R = 'n' * 256, os.O_WRONLY, os.O_RDONLY
def calls():
    open('f', 'w').write('content'); os.mkdir('empty'); os.makedirs('full/x'); os.symlink('none', 'dangling')
    os.symlink('loop', 'loop'); open('full/file', 'w').write('1')
    r, w, a = os.open('f', R), os.open('f', W), os.open('f', os.O_RDWR | os.O_APPEND)
    rw = os.open('f', os.O_RDWR)
    yield 'O_EXCL', lambda: os.open('f', W | os.O_CREAT | os.O_EXCL)
    yield 'O_EXCL of a directory', lambda: os.open('empty', W | os.O_CREAT | os.O_EXCL)
    yield 'O_EXCL of a link', lambda: os.open('dangling', W | os.O_CREAT | os.O_EXCL)
    yield 'open of a directory', lambda: os.open('empty', W)
    yield 'O_CREAT of a directory', lambda: os.open('empty', W | os.O_CREAT)
    yield 'O_TRUNC of a directory', lambda: os.open('empty', R | os.O_TRUNC)
    yield 'open below a file', lambda: os.open('f/x', W | os.O_CREAT)
    yield 'open below nothing', lambda: os.open('none/x', W | os.O_CREAT)
    yield 'open with a slash', lambda: os.open('f/', W)
    yield 'open of nothing', lambda: os.open('none', os.O_RDWR)
    yield 'O_DIRECTORY', lambda: os.open('f', R | os.O_DIRECTORY)
    yield 'O_NOFOLLOW', lambda: os.open('dangling', W | os.O_NOFOLLOW)
    yield 'a loop', lambda: os.open('loop', W)
    yield 'O_TMPFILE', lambda: os.open('.', os.O_RDWR | os.O_TMPFILE)
    for name, call in [('open', lambda: os.open(LONG, W | os.O_CREAT)), ('mkdir', lambda: os.mkdir(LONG)), ('stat', lambda: os.stat(LONG)),
                       ('unlink', lambda: os.unlink(LONG)), ('rename', lambda: os.rename('f', LONG)), ('rename from', lambda: os.rename(LONG, 'g')),
                       ('symlink', lambda: os.symlink('f', LONG)), ('truncate', lambda: os.truncate(LONG, 1)), ('link', lambda: os.link('f', LONG)),
                       ('long path', lambda: os.open('./' * 2100 + 'f', W))]:
        yield f'too long: {name}', call
    yield '255 bytes', lambda: os.close(os.open('n' * 255, W | os.O_CREAT))
    yield 'path of 1,200 bytes', lambda: os.makedirs('/'.join(['p' * 200] * 6))
    yield 'truncate of a directory', lambda: os.truncate('empty', 0)
    yield 'truncate of nothing', lambda: os.truncate('none', 0)
    yield 'truncate below 0', lambda: os.truncate('f', -1)
    yield 'ftruncate of a reader', lambda: os.ftruncate(r, 0)
    yield 'truncate far', lambda: os.truncate('f', 1 << 62)
    yield 'write far', lambda: os.pwrite(rw, b'x', 1 << 62)
    yield 'write of a reader', lambda: os.write(r, b'x')
    yield 'read of a writer', lambda: os.read(w, 1)
    yield 'read below 0', lambda: os.pread(r, 1, -1)
    yield 'read of a directory', lambda: os.read(os.open('empty', R), 1)
    yield 'fallocate of a reader', lambda: allocate(r, 0, 0, 1)
    yield 'fallocate of 0 bytes', lambda: allocate(rw, 0, 0, 0)
    yield 'fallocate below 0', lambda: allocate(rw, 0, -1, 10)
    yield 'hole that changes the size', lambda: allocate(rw, 2, 0, 1)
    yield 'collapsed range', lambda: allocate(rw, 8, 0, 4096)
    yield 'copy of a range onto itself', lambda: os.copy_file_range(rw, rw, 3, 0, 2)
    yield 'copy to a reader', lambda: os.copy_file_range(rw, r, 3, 0, 0)
    yield 'copy from a writer', lambda: os.copy_file_range(w, rw, 3, 0, 0)
    yield 'copy to an append', lambda: os.copy_file_range(r, a, 3, 0, 0)
    yield 'mapping of a writer', lambda: mmap.mmap(w, 1)
    yield 'shared mapping of a reader', lambda: mmap.mmap(r, 1)
    yield 'private mapping of a reader', lambda: mmap.mmap(r, 1, flags=mmap.MAP_PRIVATE)
    yield 'file over a directory', lambda: os.rename('f', 'empty')
    yield 'directory over a file', lambda: os.rename('empty', 'f')
    yield 'directory over a full one', lambda: os.rename('empty', 'full')
    yield 'directory into itself', lambda: os.rename('full', 'full/x/y')
    yield 'directory over its parent', lambda: os.rename('full/x', 'full')
    yield 'rename of nothing', lambda: os.rename('none', 'g')
    yield 'rename below nothing', lambda: os.rename('f', 'none/g')
    yield 'rename below a file', lambda: os.rename('full/file', 'f/g')
    yield 'rename to itself', lambda: os.rename('f', 'f')
    yield 'NOREPLACE', lambda: rename2('f', 'full/file', 1)
    yield 'EXCHANGE', lambda: rename2('full/file', 'dangling', 2)
    yield 'rename of .', lambda: os.rename('full/.', 'g')
    yield 'rmdir of a full one', lambda: os.rmdir('full')
    yield 'rmdir of a file', lambda: os.rmdir('f')
    yield 'rmdir of .', lambda: os.rmdir('empty/.')
    yield 'rmdir of ..', lambda: os.rmdir('empty/..')
    yield 'rmdir of nothing', lambda: os.rmdir('none')
    yield 'unlink of a directory', lambda: os.unlink('empty')
    yield 'unlink of nothing', lambda: os.unlink('none')
    yield 'unlink with a slash', lambda: os.unlink('f/')
    yield 'mkdir of a file', lambda: os.mkdir('f')
    yield 'mkdir of a directory', lambda: os.mkdir('empty')
    yield 'mkdir of a link', lambda: os.mkdir('dangling')
    yield 'mkdir below a file', lambda: os.mkdir('f/d')
    yield 'mkdir below nothing', lambda: os.mkdir('none/d')
    yield 'symlink of a file', lambda: os.symlink('x', 'f')
    yield 'symlink of 5000 bytes', lambda: os.symlink('x' * 5000, 's')
    yield 'readlink of a file', lambda: os.readlink('f')
    yield 'link', lambda: os.link('f', 'hard')
    yield 'link over a file', lambda: os.link('f', 'full/file')
    yield 'link of a directory', lambda: os.link('empty', 'hard3')
    yield 'fifo', lambda: os.mkfifo('fifo')
    yield 'socket', lambda: os.mknod('socket', stat.S_IFSOCK | 0o600)
    yield 'device', lambda: os.mknod('device', stat.S_IFCHR | 0o600, os.makedev(1, 3))
    yield 'mknod of a file', lambda: os.mknod('made', stat.S_IFREG | 0o644)
    yield 'mknod over a file', lambda: os.mknod('f', stat.S_IFREG | 0o644)
    yield 'chmod of nothing', lambda: os.chmod('none', 0o600)
    yield 'utime of nothing', lambda: os.utime('none')
    yield 'getxattr', lambda: os.getxattr('f', 'user.none')
    yield 'a lock that is held', lambda: (fcntl.flock(rw, fcntl.LOCK_EX), fcntl.flock(r, fcntl.LOCK_EX | fcntl.LOCK_NB))
    open('program', 'w').write('#!/bin/sh\n'); os.chmod('program', 0o755); program = os.open('program', W)
    yield 'run of a program that is written', lambda: subprocess.run(['./program'])
    os.close(program); yield 'run of a program', lambda: subprocess.run(['./program'], check=True)
    shutil.copy('/bin/sleep', 'running'); running = subprocess.Popen(['./running', '600'])
    yield 'open of a program that runs', lambda: os.open('running', W)
    yield 'truncate of a program that runs', lambda: os.truncate('running', 0)
    running.kill(); running.wait(); yield 'open of a program that ran', lambda: os.close(os.open('running', W))
    if os.path.exists('hard'): os.unlink('hard')
    os.unlink('f'); yield 'links of an unlinked file', lambda: 1 / os.fstat(rw).st_nlink
    yield 'open of an unlinked file', lambda: os.open('f', R)
    yield 'open by its descriptor', lambda: os.close(os.open(f'/proc/self/fd/{rw}', R))
    yield 'rmdir', lambda: os.rmdir('empty')
    os.chdir('full/x'); yield 'rmdir of the working directory', lambda: os.rmdir('../x')
    yield 'open in a removed directory', lambda: os.open('n', W | os.O_CREAT)
    os.chdir('../..')
def outcomes(root):
    back, found = os.getcwd(), {}
    os.chdir(root)
    for name, call in calls():
        try: call(); found[name] = 'done'
        except OSError as error: found[name] = errno.errorcode[error.errno]
        except ZeroDivisionError: found[name] = 'none'
    os.chdir(back)
    return found
"#;

/// Outcomes that are not those of a local disk.
const DIFFERENT: &str = "
{'path of 1,200 bytes': 'ENAMETOOLONG', 'device': 'EPERM',
 'O_TMPFILE': 'ENOTSUP', 'collapsed range': 'ENOTSUP', 'EXCHANGE': 'EINVAL'}
";

#[test]
fn calls_fail_as_on_a_local_disk_or_as_the_semantics_say() {
    for args in [&[][..], &["--write-back"]] {
        let server = server();
        put(&server, "m/there", "1");
        let args = [&["--posix-metadata"], args].concat();
        let staged = Staged::new(&server, &args);
        std::fs::create_dir(staged.local.path().join("m")).unwrap();
        staged.python(&format!(
            "{CALLS}
here, there = outcomes(L + '/m'), outcomes('m')
here.update({})
different = [(name, here[name], there[name]) for name in here if here[name] != there[name]]
assert not different, different",
            DIFFERENT.trim()
        ));
    }
}
