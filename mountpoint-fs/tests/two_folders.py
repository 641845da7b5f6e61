#!/usr/bin/env python3
"""Makes the same calls in two folders, one in a mount and one on a local disk, and compares them.

usage: two_folders.py --seed N --examples N [--steps N] [--large] NATIVE MOUNT
       two_folders.py --trees [--keeps-empty] NATIVE MOUNT

Hypothesis draws the calls and shortens a sequence that fails. Files, directories, links and pipes
are made, written, renamed and removed by paths and by open descriptors, which stay open meanwhile.
Each call must return the same or fail with the same errno in both, and at the end of a sequence
both folders have the same tree. Each sequence has a folder of its own, which stays; --trees
compares all of them, when the mount was made anew. Beside each native folder lies its sequence.

Where the mount promises other than a local disk, the native side does as it promises: a hard link
is a copy, and the times and attributes of a symbolic link are left alone.
"""

import argparse
import ctypes
import errno
import faulthandler
import mmap
import os
import pathlib
import shutil
import stat
import sys

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

# With characters that paths of S3, XML or URLs escape.
NAMES = ["a", "b", "c", "d e+%41&<", "ü\n\x01"]
ANY_PATH = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
# Most are names that exist, or new ones in directories that do.
PATHS = st.runner().flatmap(lambda machine: machine.paths())
HANDLES = st.runner().flatmap(lambda machine: st.sampled_from(machine.handles))
# Offsets and lengths near the ends of pages and blocks, and two around a part.
SIZES = st.sampled_from([0, 1, 100, 4095, 4096, 4097, 10_000, 65_536, 131_072, 131_073, 300_000])
LARGE_SIZES = st.one_of(SIZES, SIZES, SIZES, SIZES, st.sampled_from([5 << 20, (5 << 20) + 1, (8 << 20) - 1, 8 << 20, 11_000_000]))
LENGTHS = st.runner().flatmap(lambda machine: machine.options.sizes)
BYTES = st.integers(1, 255)
MODES = st.sampled_from([0o600, 0o644, 0o700, 0o755, 0o444])
# What a program sets, far from the times of the run.
TIMES = st.integers(10**9, 10**9 + 10**8)
SET_TIMES_END = 1_500_000_000
OPENS = st.sampled_from([
    os.O_RDONLY, os.O_RDWR, os.O_RDWR, os.O_WRONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_TRUNC,
    os.O_RDWR | os.O_CREAT, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR | os.O_CREAT | os.O_APPEND, os.O_RDWR | os.O_SYNC,
    os.O_RDONLY | os.O_DIRECTORY, os.O_RDONLY | os.O_NOFOLLOW, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW,
])
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 0x10
# Without `KEEP_SIZE` alone, which changes nothing but the time, and that not everywhere.
ALLOCATIONS = st.sampled_from([0, PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE, ZERO_RANGE | KEEP_SIZE])
ATTRIBUTES = st.sampled_from(["user.a", "user.b c"])
HANDLES_MAX = 4
AT_FDCWD, NOREPLACE = -100, 1

libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "a call of the C library")


class Side:
    """One of the two folders, and what is open there."""

    def __init__(self, folder, is_native):
        self.folder = folder
        self.is_native = is_native
        self.opened = {}

    def at(self, path):
        return os.path.join(self.folder, path)


def outcome(call, side):
    try:
        return call(side)
    except OSError as error:
        # What Python itself refuses has no number.
        return errno.errorcode.get(error.errno, str(error.errno))


def entry(path):
    """What both folders must have equal of a name."""
    found = os.lstat(path)
    kind, mode = stat.S_IFMT(found.st_mode), stat.S_IMODE(found.st_mode)
    told = [oct(kind)]
    if not stat.S_ISLNK(kind):
        told += [oct(mode), found.st_uid, found.st_gid]
        told += [{name: os.getxattr(path, name) for name in sorted(user_attributes(path))}]
    if stat.S_ISREG(kind):
        told += [found.st_size, checksum(path)]
        # The mount may have been asked for it a moment later.
        told += [found.st_mtime_ns] if found.st_mtime < SET_TIMES_END else []
    elif stat.S_ISLNK(kind):
        told += [os.readlink(path)]
    return told


def checksum(path):
    content = pathlib.Path(path).read_bytes()
    return (len(content), hash(content))


def user_attributes(path):
    return [name for name in os.listxattr(path) if name.startswith("user.") and not name.startswith("user.s3")]


def tree(folder):
    """All names below a folder with what they are."""
    found = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        found[name] = entry(path)
        if stat.S_ISDIR(os.lstat(path).st_mode):
            found.update({f"{name}/{below}": told for below, told in tree(path).items()})
    return found


def names_below(folder):
    for parent, directories, files in os.walk(folder):
        for name in directories + files:
            yield os.path.relpath(os.path.join(parent, name), folder)


def assert_equal_trees(native, mount, keeps_empty=True):
    """Without `keeps_empty` the mount may lack directories that no object shows."""
    one, other = tree(native), tree(mount)
    if not keeps_empty:
        one = {name: told for name, told in one.items() if name in other or not is_implicit(name, one)}
    for name in sorted({*one, *other}):
        assert one.get(name) == other.get(name), f"{name!r}: on the disk {one.get(name)}, in the mount {other.get(name)}"


def is_implicit(name, entries):
    """Whether it is a directory of no attributes, with at most such ones in it."""
    below = [told for other, told in entries.items() if f"{other}/".startswith(f"{name}/")]
    return all(told == PLAIN_DIRECTORY for told in below)


PLAIN_DIRECTORY = [oct(stat.S_IFDIR), oct(0o755), 0, 0, {}]


class Machine(RuleBasedStateMachine):
    """One sequence of calls."""

    options = None
    count = 0

    @initialize()
    def start(self):
        Machine.count += 1
        self.next_handle = 0
        self.handles = []
        self.sides = []
        for folder, is_native in [(self.options.native, True), (self.options.mount, False)]:
            # One level more, for links that lead out of the folder.
            own = folder / f"e{Machine.count:05}" / "w"
            own.mkdir(parents=True)
            self.sides.append(Side(str(own), is_native))
        self.log = open(self.options.native / f"e{Machine.count:05}.calls", "w")

    def teardown(self):
        if not getattr(self, "sides", None):
            return
        try:
            for handle in list(self.handles):
                self.ended(handle)
            assert_equal_trees(self.sides[0].folder, self.sides[1].folder)
        finally:
            for side in self.sides:
                for fd in side.opened.values():
                    os.close(fd)
            self.log.close()

    def both(self, what, call):
        """Makes a call in both folders and compares the outcomes. Returns that of the disk."""
        self.log.write(f"{what}\n")
        self.log.flush()
        native, mounted = (outcome(call, side) for side in self.sides)
        assert native == mounted, f"{what}: on the disk {short(native)}, in the mount {short(mounted)}"
        return native

    def on(self, handle, what, call):
        """Makes a call on an open descriptor."""
        return self.both(f"{what} of {handle}", lambda side: call(side.opened[handle]))

    def paths(self):
        known = sorted(names_below(self.sides[0].folder))
        if not known:
            return ANY_PATH
        below = st.builds(os.path.join, st.sampled_from(known), st.sampled_from(NAMES))
        return st.one_of(st.sampled_from(known), st.sampled_from(known), below, st.sampled_from(NAMES), ANY_PATH)

    def is_open(self):
        return bool(self.handles)

    # Descriptors.

    @precondition(lambda self: len(self.handles) < HANDLES_MAX)
    @rule(path=PATHS, flags=OPENS, mode=MODES)
    def open(self, path, flags, mode):
        number = self.next_handle
        self.next_handle += 1

        def call(side):
            side.opened[number] = os.open(side.at(path), flags | os.O_NONBLOCK, mode)

        if self.both(f"open {path!r} {flags:#o} {mode:#o} as {number}", call) is None:
            self.handles.append(number)

    def ended(self, handle):
        self.handles.remove(handle)
        self.both(f"close {handle}", lambda side: os.close(side.opened.pop(handle)))

    @precondition(is_open)
    @rule(handle=HANDLES)
    def close(self, handle):
        self.ended(handle)

    @precondition(is_open)
    @rule(handle=HANDLES, offset=SIZES, length=SIZES)
    def pread(self, handle, offset, length):
        self.on(handle, f"pread {offset} {length}", lambda fd: os.pread(fd, length, offset))

    @precondition(is_open)
    @rule(handle=HANDLES, offset=LENGTHS, length=LENGTHS, byte=BYTES)
    def pwrite(self, handle, offset, length, byte):
        self.on(handle, f"pwrite {offset} {length} {byte}", lambda fd: os.pwrite(fd, bytes([byte]) * length, offset))

    @precondition(is_open)
    @rule(handle=HANDLES, length=SIZES, byte=BYTES)
    def write(self, handle, length, byte):
        self.on(handle, f"write {length} {byte}", lambda fd: os.write(fd, bytes([byte]) * length))

    @precondition(is_open)
    @rule(handle=HANDLES, length=SIZES)
    def read(self, handle, length):
        self.on(handle, f"read {length}", lambda fd: os.read(fd, length))

    @precondition(is_open)
    @rule(handle=HANDLES, offset=SIZES, how=st.sampled_from([os.SEEK_SET, os.SEEK_CUR]))
    def seek(self, handle, offset, how):
        self.on(handle, f"lseek {offset} {how}", lambda fd: os.lseek(fd, offset, how) if is_file(fd) else None)

    @precondition(is_open)
    @rule(handle=HANDLES, length=LENGTHS)
    def ftruncate(self, handle, length):
        def call(fd):
            # An unchanged length changes the time on a disk alone.
            if not (is_file(fd) and os.fstat(fd).st_size == length):
                os.ftruncate(fd, length)

        self.on(handle, f"ftruncate {length}", call)

    @precondition(is_open)
    @rule(handle=HANDLES, mode=ALLOCATIONS, offset=SIZES, length=SIZES)
    def fallocate(self, handle, mode, offset, length):
        self.on(handle, f"fallocate {mode:#x} {offset} {length}",
                lambda fd: checked(libc.fallocate(fd, mode, offset, length)) if is_file(fd) else None)

    @precondition(is_open)
    @rule(one=HANDLES, other=HANDLES, length=SIZES, start=SIZES, end=SIZES)
    def copy_range(self, one, other, length, start, end):
        def call(side):
            reader, writer = side.opened[one], side.opened[other]
            if one == other or not (is_file(reader) and is_file(writer)) or os.path.sameopenfile(reader, writer):
                return None
            return os.copy_file_range(reader, writer, length, start, end)

        self.both(f"copy_file_range {one} {start} to {other} {end} {length}", call)

    @precondition(is_open)
    @rule(handle=HANDLES, offset=SIZES, length=SIZES, byte=BYTES)
    def map(self, handle, offset, length, byte):
        def call(fd):
            size = os.fstat(fd).st_size if is_file(fd) else 0
            if offset + length > size or length == 0:
                return None
            try:
                with mmap.mmap(fd, size) as mapped:
                    mapped[offset:offset + length] = bytes([byte]) * length
                    mapped.flush()
            except PermissionError as error:
                return str(error)

        self.on(handle, f"mapped write {offset} {length} {byte}", call)

    @precondition(is_open)
    @rule(handle=HANDLES, call=st.sampled_from([os.fsync, os.fdatasync]))
    def sync(self, handle, call):
        self.on(handle, call.__name__, call)

    @precondition(is_open)
    @rule(handle=HANDLES)
    def fstat(self, handle):
        if self.is_removed_directory(handle):
            return

        def call(fd):
            found = os.fstat(fd)
            is_regular = stat.S_ISREG(found.st_mode)
            return oct(found.st_mode), found.st_uid, found.st_gid, is_regular and found.st_size

        self.on(handle, "fstat", call)

    def is_removed_directory(self, handle):
        """Whether it is a directory whose name is gone, and with it its attributes in the mount."""
        native = os.fstat(self.sides[0].opened[handle])
        return native.st_nlink == 0 and not stat.S_ISREG(native.st_mode)

    @precondition(is_open)
    @rule(handle=HANDLES, mode=MODES)
    def fchmod(self, handle, mode):
        if self.is_removed_directory(handle):
            return
        self.on(handle, f"fchmod {mode:#o}", lambda fd: os.fchmod(fd, mode))

    @precondition(is_open)
    @rule(handle=HANDLES, time=TIMES)
    def futimens(self, handle, time):
        if self.is_removed_directory(handle):
            return

        def call(fd):
            os.utime(fd, (time, time))
            return os.fstat(fd).st_mtime

        self.on(handle, f"futimens {time}", call)

    @precondition(is_open)
    @rule(handle=HANDLES, name=st.sampled_from(NAMES), byte=BYTES)
    def make_in_open_directory(self, handle, name, byte):
        def call(fd):
            made = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd)
            os.write(made, bytes([byte]) * 5)
            os.close(made)

        self.on(handle, f"openat {name!r} {byte}", call)

    @precondition(is_open)
    @rule(handle=HANDLES)
    def list_open_directory(self, handle):
        self.on(handle, "listdir", lambda fd: sorted(os.listdir(fd)))

    # Paths.

    @rule(path=PATHS, length=LENGTHS, byte=BYTES, how=st.sampled_from(["w", "a", "x", "r+"]))
    def write_file(self, path, length, byte, how):
        def call(side):
            with open(side.at(path), f"{how}b", opener=without_waiting) as file:
                file.write(bytes([byte]) * length)

        self.both(f"write file {path!r} {how} {length} {byte}", call)

    @rule(path=PATHS)
    def read_file(self, path):
        def call(side):
            # A pipe would wait for its other end.
            if stat.S_ISFIFO(os.stat(side.at(path)).st_mode):
                return "a pipe"
            return pathlib.Path(side.at(path)).read_bytes()

        self.both(f"read file {path!r}", call)

    @rule(path=PATHS, length=LENGTHS)
    def truncate(self, path, length):
        self.both(f"truncate {path!r} {length}", lambda side: os.truncate(side.at(path), length))

    @rule(path=PATHS)
    def unlink(self, path):
        self.both(f"unlink {path!r}", lambda side: os.unlink(side.at(path)))

    @rule(path=PATHS, mode=MODES)
    def mkdir(self, path, mode):
        self.both(f"mkdir {path!r} {mode:#o}", lambda side: os.mkdir(side.at(path), mode))

    @rule(path=PATHS)
    def make_directories(self, path):
        self.both(f"makedirs {path!r}", lambda side: os.makedirs(side.at(path), exist_ok=True))

    @rule(path=PATHS)
    def rmdir(self, path):
        self.both(f"rmdir {path!r}", lambda side: os.rmdir(side.at(path)))

    @rule(path=PATHS)
    def remove_tree(self, path):
        def call(side):
            # It would open a pipe, and wait.
            os.listdir(side.at(path))
            shutil.rmtree(side.at(path))

        self.both(f"rmtree {path!r}", call)

    @rule(one=PATHS, other=PATHS)
    def rename(self, one, other):
        self.both(f"rename {one!r} {other!r}", lambda side: os.rename(side.at(one), side.at(other)))

    @rule(one=PATHS, other=PATHS)
    def rename_to_a_free_name(self, one, other):
        def call(side):
            names = [os.fsencode(side.at(path)) for path in (one, other)]
            checked(libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], NOREPLACE))

        self.both(f"renameat2 {one!r} {other!r}", call)

    @rule(one=PATHS, other=PATHS)
    def link(self, one, other):
        def call(side):
            os.link(side.at(one), side.at(other), follow_symlinks=False)
            if side.is_native:
                os.unlink(side.at(other))
                copy(side.at(one), side.at(other))

        self.both(f"link {one!r} {other!r}", call)

    @rule(path=PATHS, to=st.one_of(PATHS, PATHS.map("../".__add__), st.just(".")))
    def symlink(self, path, to):
        self.both(f"symlink {to!r} {path!r}", lambda side: os.symlink(to, side.at(path)))

    @rule(path=PATHS)
    def readlink(self, path):
        self.both(f"readlink {path!r}", lambda side: os.readlink(side.at(path)))

    @rule(path=PATHS, mode=MODES)
    def mkfifo(self, path, mode):
        self.both(f"mkfifo {path!r} {mode:#o}", lambda side: os.mkfifo(side.at(path), mode))

    @rule(path=PATHS, mode=MODES)
    def chmod(self, path, mode):
        self.both(f"chmod {path!r} {mode:#o}", lambda side: os.chmod(side.at(path), mode))

    @rule(path=PATHS, owner=st.sampled_from([0, 1, 1000]), group=st.sampled_from([0, 1, 1000]))
    def chown(self, path, owner, group):
        self.both(f"chown {path!r} {owner} {group}", lambda side: os.chown(side.at(path), owner, group))

    @rule(path=PATHS, time=TIMES)
    def utime(self, path, time):
        def call(side):
            os.utime(side.at(path), (time, time))
            return os.stat(side.at(path)).st_mtime

        self.both(f"utime {path!r} {time}", call)

    @rule(path=PATHS, name=ATTRIBUTES, byte=BYTES, length=st.sampled_from([0, 1, 50, 200]))
    def setxattr(self, path, name, byte, length):
        self.both(f"setxattr {path!r} {name!r} {length} {byte}",
                  lambda side: os.setxattr(side.at(path), name, bytes([byte]) * length))

    @rule(path=PATHS, name=ATTRIBUTES)
    def getxattr(self, path, name):
        self.both(f"getxattr {path!r} {name!r}", lambda side: os.getxattr(side.at(path), name))

    @rule(path=PATHS, name=ATTRIBUTES)
    def removexattr(self, path, name):
        self.both(f"removexattr {path!r} {name!r}", lambda side: os.removexattr(side.at(path), name))

    @rule(path=PATHS)
    def listdir(self, path):
        self.both(f"listdir {path!r}", lambda side: sorted(os.listdir(side.at(path))))

    @rule(path=PATHS)
    def stat(self, path):
        def call(side):
            found = os.stat(side.at(path))
            is_regular = stat.S_ISREG(found.st_mode)
            return oct(found.st_mode), found.st_uid, found.st_gid, is_regular and found.st_size

        self.both(f"stat {path!r}", call)

    @rule()
    def compare(self):
        self.log.write("compare the trees\n")
        assert_equal_trees(self.sides[0].folder, self.sides[1].folder)


def without_waiting(path, flags):
    """Opens a pipe without its other end, too."""
    return os.open(path, flags | os.O_NONBLOCK, 0o644)


def is_file(fd):
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:
        # A pipe that was removed.
        return False


def copy(source, target):
    found = os.lstat(source)
    if stat.S_ISLNK(found.st_mode):
        return os.symlink(os.readlink(source), target)
    if stat.S_ISFIFO(found.st_mode):
        os.mkfifo(target)
        shutil.copystat(source, target)
    else:
        shutil.copy2(source, target)
    os.chown(target, found.st_uid, found.st_gid)


def short(value):
    if isinstance(value, bytes):
        return f"{len(value)} bytes {value[:8]!r}…{value[-8:]!r}"
    return repr(value)


def compare_all(native, mount, keeps_empty):
    """Compares the folders of all sequences. Returns those that differ."""
    different = []
    for folder in sorted(path for path in native.iterdir() if path.is_dir()):
        # No object shows it where nothing was left.
        (mount / folder.name / "w").mkdir(parents=True, exist_ok=True)
        try:
            assert_equal_trees(folder, mount / folder.name, keeps_empty)
        except (AssertionError, OSError) as error:
            different.append(f"{folder.name}: {error}\n{(native / f'{folder.name}.calls').read_text()}")
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--large", action="store_true", help="files of several parts")
    parser.add_argument("--shorten", action="store_true", help="search for a shorter sequence that fails: minutes")
    parser.add_argument("--trees", action="store_true")
    parser.add_argument("--keeps-empty", action="store_true", help="a new mount has directories without files")
    parser.add_argument("native", type=pathlib.Path)
    parser.add_argument("mount", type=pathlib.Path)
    options = parser.parse_args()
    faulthandler.enable()
    os.umask(0o022)
    if options.trees:
        different = compare_all(options.native, options.mount, options.keeps_empty)
        print("\n".join(different) or "equal")
        return 1 if different else 0
    options.sizes = LARGE_SIZES if options.large else SIZES
    Machine.options = options
    hypothesis.seed(options.seed)(Machine)
    settings = hypothesis.settings(
        max_examples=options.examples, stateful_step_count=options.steps, deadline=None, database=None,
        suppress_health_check=list(hypothesis.HealthCheck), print_blob=False,
        phases=[hypothesis.Phase.generate] + [hypothesis.Phase.shrink] * options.shorten)
    run_state_machine_as_test(Machine, settings=settings)
    print(f"{Machine.count} sequences")
    return 0


if __name__ == "__main__":
    sys.exit(main())
