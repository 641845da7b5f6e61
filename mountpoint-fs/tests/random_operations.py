#!/usr/bin/env python3
"""Random operations on two files of a directory, compared with a model in memory.

usage: random_operations.py --seed N --operations N --model FOLDER [...] DIRECTORY

In the style of fsx: writes, appends, mapped reads and writes, truncations both ways, holes, zeroed
ranges, copies, renames, removals, several handles of a file with several flags. The files `a` and
`b` of the model's folder are what the directory has at first; their newest contents are there at
the end. One seed means one sequence of operations. --stored names another mount of the bucket,
which has a file's newest bytes behind each close and fsync. --no-streams opens no file with
O_WRONLY that is empty or appended to: without --staging it is streamed, and has no other users. The
first difference ends the program: it prints the operations that touched the byte.
"""

import argparse
import ctypes
import errno
import faulthandler
import mmap
import os
import pathlib
import random
import sys

PAGE = 4096
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 0x10
WRITE_MAX = 1 << 20
HANDLES_MAX, MAPS_MAX = 4, 2
# Operations of a failure's report.
SHOWN = 25
# Ends of parts and of blocks: offsets near them are as likely as all others together.
EDGES = [0, PAGE, 1 << 16, 128 << 10, 1 << 20, 5 << 20, 8 << 20, 10 << 20]

libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


def fallocate(fd, mode, offset, length):
    if libc.fallocate(fd, mode, offset, length) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


class Handle:
    """An open descriptor."""

    def __init__(self, fd, flags):
        access = flags & os.O_ACCMODE
        self.fd = fd
        self.reads = access != os.O_WRONLY
        self.writes = access != os.O_RDONLY
        self.appends = bool(flags & os.O_APPEND)

    def is_fit(self, reads=False, writes=False, places=False):
        return self.reads >= reads and self.writes >= writes and not (places and self.appends)


class File:
    """A file of the directory, and what it must have."""

    def __init__(self, name, content):
        self.name = name
        self.content = bytearray(content)
        # Whether it was changed since the open that made or emptied it.
        self.is_changed = True
        self.handles = []
        self.maps = []


class Difference(Exception):
    """The directory has other bytes than the model."""


class Run:
    """One sequence of operations."""

    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.noise = self.random.randbytes(2 * WRITE_MAX)
        self.count = 0
        self.log = []
        self.files = [File(name, (options.model / name).read_bytes()) for name in ("a", "b")]

    # What the operations share.

    def path(self, file):
        return self.options.directory / file.name

    def note(self, file, what, start=0, length=None):
        end = len(file.content) if length is None else start + length
        self.log.append((self.count, id(file), start, end, f"{file.name}: {what} {start}..{end}"))

    def below(self, end):
        return self.random.randrange(end) if end > 0 else 0

    def offset(self, end):
        if self.random.random() < 0.5:
            return self.below(end + 1)
        edge = self.random.choice([edge for edge in EDGES if edge <= end] + [end])
        return min(end, max(0, edge + self.random.choice([0, 0, -1, 1, self.below(300), -self.below(300)])))

    def length(self, most):
        most = min(most, WRITE_MAX, max(1, self.options.size_max // 3))
        scale = self.random.choice([1, 100, PAGE, 1 << 16, most])
        return 1 + self.below(min(scale, most)) if most > 0 else 0

    def bytes(self, offset, length):
        at = (self.count * 104729 + offset) % WRITE_MAX
        return self.noise[at:at + length]

    def handle(self, file, **wanted):
        fit = [handle for handle in file.handles if handle.is_fit(**wanted)]
        return self.random.choice(fit) if fit else self.open(file, os.O_RDWR)

    def compare(self, file, start, found, expected, how):
        if found == expected:
            return
        if len(found) != len(expected):
            at = min(len(found), len(expected))
        else:
            at = 0
        pairs = enumerate(zip(found, expected))
        at = next((index for index, (one, other) in pairs if one != other), at)
        shown = (bytes(found[at:at + 8]).hex(), bytes(expected[at:at + 8]).hex())
        raise Difference(
            f"{file.name}: {how} of {start}..{start + len(expected)} has {len(found)} bytes; at "
            f"{start + at} it has {shown[0]}, expected {shown[1]}", id(file), start + at)

    def written(self, file, offset, data):
        file.is_changed = True
        if len(file.content) < offset:
            file.content.extend(bytes(offset - len(file.content)))
        file.content[offset:offset + len(data)] = data

    def filling(self, file, call):
        """A call that a full disk may refuse: what is stored makes room."""
        for _ in range(100):
            try:
                return call()
            except OSError as error:
                if error.errno != errno.ENOSPC or not self.options.may_be_full:
                    raise
                for one in self.files:
                    os.fsync(self.handle(one, writes=True).fd)
        raise Difference(f"{file.name}: the disk stays full", id(file), 0)

    def check_stored(self, file, how):
        """The bucket has the newest bytes."""
        if self.options.stored is not None and self.random.random() < self.options.stored_share:
            found = (self.options.stored / file.name).read_bytes()
            self.compare(file, 0, found, bytes(file.content), f"the object behind {how}")

    # The operations.

    def open(self, file, flags=None):
        if flags is None:
            if len(file.handles) >= HANDLES_MAX:
                return self.close(file)
            flags = self.random.choices(
                [os.O_RDWR, os.O_RDONLY, os.O_WRONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_APPEND,
                 os.O_RDWR | os.O_DIRECT, os.O_RDWR | os.O_SYNC, os.O_RDWR | os.O_TRUNC],
                [8, 5, 2, 2, 2, 3 * self.options.direct, 1, 1])[0]
            if not self.options.streams and flags & os.O_WRONLY and (flags & os.O_APPEND or not file.content):
                flags ^= os.O_WRONLY | os.O_RDWR
        handle = Handle(os.open(self.path(file), flags), flags)
        file.handles.append(handle)
        if flags & os.O_TRUNC:
            file.content.clear()
        if flags & (os.O_TRUNC | os.O_CREAT):
            file.is_changed = False
        self.note(file, f"open {flags:#o} as {handle.fd}")
        return handle

    def close(self, file):
        if not file.handles:
            return
        handle = file.handles.pop(self.below(len(file.handles)))
        self.note(file, f"close {handle.fd}")
        os.close(handle.fd)
        # Before the first change, a close stores nothing that a later one will store.
        is_last = file.is_changed or not any(other.writes for other in file.handles)
        if handle.writes and is_last:
            self.check_stored(file, "a close")

    def read(self, file):
        handle = self.handle(file, reads=True)
        offset = self.offset(len(file.content) + PAGE)
        length = self.length(WRITE_MAX)
        self.note(file, f"read {handle.fd}", offset, length)
        found = os.pread(handle.fd, length, offset)
        self.compare(file, offset, found, bytes(file.content[offset:offset + length]), "a read")

    def read_whole(self, file):
        self.note(file, "read as a whole")
        found = self.path(file).read_bytes()
        self.compare(file, 0, found, bytes(file.content), "a read")

    def write(self, file):
        handle = self.handle(file, writes=True)
        offset = self.offset(min(len(file.content) + self.random.choice([0, 0, 10000]), self.options.size_max))
        if handle.appends:
            offset = len(file.content)
        data = self.bytes(offset, self.length(self.options.size_max - offset))
        done = 0
        while done < len(data):
            at, rest = offset + done, data[done:]
            self.note(file, f"write {handle.fd}", at, len(rest))
            count = self.filling(file, lambda: os.pwrite(handle.fd, rest, at))
            self.written(file, at, rest[:count])
            done += count

    def truncate(self, file):
        length = self.offset(self.random.choice([len(file.content), self.options.size_max]))
        by_path = self.random.random() < 0.3
        self.note(file, f"truncate {'path' if by_path else 'handle'}", length, 0)
        if by_path:
            os.truncate(self.path(file), length)
        else:
            os.ftruncate(self.handle(file, writes=True).fd, length)
        file.is_changed = True
        self.note(file, "cut or longer", *sorted([length, len(file.content)])[:1])
        del file.content[length:]
        file.content.extend(bytes(length - len(file.content)))

    def allocate(self, file):
        mode = self.random.choice(
            [0, KEEP_SIZE, PUNCH_HOLE | KEEP_SIZE, PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE, ZERO_RANGE | KEEP_SIZE])
        offset = self.offset(self.options.size_max - 1)
        length = self.length(self.options.size_max - offset)
        handle = self.handle(file, writes=True)
        self.note(file, f"fallocate {mode:#x} {handle.fd}", offset, length)
        fallocate(handle.fd, mode, offset, length)
        file.is_changed = True
        end = offset + length
        if not mode & KEEP_SIZE and len(file.content) < end:
            file.content.extend(bytes(end - len(file.content)))
        if mode & (PUNCH_HOLE | ZERO_RANGE):
            end = min(end, len(file.content))
            file.content[offset:end] = bytes(max(0, end - offset))

    def copy(self, file):
        source = self.random.choice(self.files)
        start, offset = self.offset(len(source.content)), self.offset(len(file.content))
        length = self.length(min(len(source.content) - start, self.options.size_max - offset))
        if length <= 0 or (source is file and abs(start - offset) < length):
            return
        reader, writer = self.handle(source, reads=True), self.handle(file, writes=True, places=True)
        done = 0
        while done < length:
            at, left = offset + done, length - done
            self.note(file, f"copy of {source.name} from {start + done} to {writer.fd}", at, left)
            count = self.filling(
                file, lambda: os.copy_file_range(reader.fd, writer.fd, left, start + done, at))
            if count == 0:
                raise Difference(f"{source.name}: no bytes copied at {start + done}", id(source), start + done)
            self.written(file, at, bytes(source.content[start + done:start + done + count]))
            done += count

    def sync(self, file):
        handle = self.handle(file, writes=True)
        self.note(file, f"sync {handle.fd}")
        self.random.choice([os.fsync, os.fdatasync])(handle.fd)
        self.check_stored(file, "a sync")

    def drop_pages(self, file):
        handle = self.handle(file, writes=True)
        self.note(file, "drop pages")
        os.fsync(handle.fd)
        os.posix_fadvise(handle.fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def map(self, file):
        if not self.options.maps or not file.content:
            return None
        if len(file.maps) >= MAPS_MAX:
            return self.unmap(file)
        handle = self.handle(file, reads=True, writes=True)
        self.note(file, f"map {handle.fd}")
        mapped = mmap.mmap(handle.fd, len(file.content))
        file.maps.append(mapped)
        return mapped

    def mapped(self, file):
        """A mapping, and the part of it that is in the file."""
        mapped = self.random.choice(file.maps) if file.maps else self.map(file)
        if mapped is None:
            return None, 0, 0
        end = min(len(mapped), len(file.content))
        start = self.offset(end)
        return mapped, start, self.length(end - start)

    def read_mapped(self, file):
        mapped, start, length = self.mapped(file)
        if not mapped or length <= 0:
            return
        self.note(file, "mapped read", start, length)
        self.compare(file, start, mapped[start:start + length], bytes(file.content[start:start + length]),
                     "a mapped read")
        # Behind the end a page has zeros.
        end = len(file.content)
        behind = min(len(mapped), -(-end // PAGE) * PAGE) - end
        if behind > 0:
            self.compare(file, end, mapped[end:end + behind], bytes(behind), "a mapped read behind the end")

    def write_mapped(self, file):
        mapped, start, length = self.mapped(file)
        if not mapped or length <= 0:
            return
        data = self.bytes(start, length)
        self.note(file, "mapped write", start, length)
        mapped[start:start + length] = data
        self.written(file, start, data)
        if self.random.random() < 0.1:
            self.note(file, "msync")
            mapped.flush()
            self.check_stored(file, "an msync of a whole mapping") if len(mapped) >= len(file.content) else None

    def unmap(self, file):
        if file.maps:
            self.note(file, "munmap")
            file.maps.pop(self.below(len(file.maps))).close()

    def stat(self, file):
        self.note(file, "stat")
        sizes = [os.stat(self.path(file)).st_size] + [os.fstat(handle.fd).st_size for handle in file.handles]
        for size in sizes:
            if size != len(file.content):
                at = min(size, len(file.content))
                raise Difference(f"{file.name}: stat says {sizes}, expected {len(file.content)}", id(file), at)

    def rename(self, file):
        """Another name, and back."""
        name = file.name
        for new in (f"{name}.renamed", name):
            self.note(file, f"rename to {new}")
            os.rename(self.path(file), self.options.directory / new)
            file.name = new
            if self.random.random() < 0.5:
                self.write(file)

    def replace(self, file):
        """A new file is renamed over the old one, whose handles keep it."""
        new = File(f"{file.name}.new", b"")
        self.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self.write(new)
        self.note(file, "is replaced")
        os.rename(self.path(new), self.path(file))
        new.name, file.name = file.name, f"{file.name} (replaced)"
        self.nameless(file)
        self.files[self.files.index(file)] = new

    def unlink(self, file):
        self.note(file, "unlink")
        os.unlink(self.path(file))
        new = File(file.name, b"")
        file.name = f"{file.name} (removed)"
        self.nameless(file)
        self.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self.files[self.files.index(file)] = new

    def nameless(self, file):
        """What has no name any more works until its last close."""
        for handle in [handle for handle in file.handles if handle.reads]:
            if handle.writes and not handle.appends:
                data, offset = self.bytes(0, 100), self.offset(len(file.content))
                self.filling(file, lambda: os.pwrite(handle.fd, data, offset))
                self.written(file, offset, data)
            found = os.pread(handle.fd, len(file.content) + 1, 0)
            self.compare(file, 0, found, bytes(file.content), "a read without a name")
        self.end(file)

    def end(self, file):
        for mapped in file.maps:
            mapped.close()
        for handle in file.handles:
            os.close(handle.fd)
        file.maps, file.handles = [], []

    # The loop.

    WEIGHTS = {
        write: 22, read: 18, write_mapped: 8, read_mapped: 8, truncate: 8, allocate: 8, copy: 5, open: 6,
        close: 6, map: 2, unmap: 2, sync: 3, drop_pages: 2, stat: 4, read_whole: 2, rename: 0.5,
        replace: 0.3, unlink: 0.3,
    }

    def run(self):
        operations, weights = list(self.WEIGHTS), list(self.WEIGHTS.values())
        for self.count in range(1, self.options.operations + 1):
            operation = self.random.choices(operations, weights)[0]
            operation(self, self.random.choice(self.files))
        for file in self.files:
            self.read_whole(file)
            self.end(file)
            self.check_stored(file, "the last close")
            (self.options.model / file.name).write_bytes(file.content)

    def report(self, difference):
        text, file, at = difference.args
        print(f"seed {self.options.seed}, operation {self.count}: {text}")
        touched = [line for line in self.log if line[1] == file and line[2] <= at < line[3]]
        for title, lines in [("the byte", touched), ("the last ones", self.log)]:
            print(f"{title}:")
            for count, _, _, _, what in lines[-SHOWN:]:
                print(f"  {count} {what}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--operations", type=int, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--stored", type=pathlib.Path, help="another mount of the bucket")
    parser.add_argument("--stored-share", type=float, default=0.3, help="share of the stores that are compared")
    parser.add_argument("--size-max", type=int, default=300_000)
    parser.add_argument("--no-maps", dest="maps", action="store_false", help="a full disk loses mapped writes")
    parser.add_argument("--no-direct", dest="direct", action="store_false", help="O_DIRECT wants aligned ranges there")
    parser.add_argument("--no-streams", dest="streams", action="store_false")
    parser.add_argument("--may-be-full", action="store_true", help="ENOSPC is answered by fsync")
    parser.add_argument("directory", type=pathlib.Path)
    faulthandler.enable()
    run = Run(parser.parse_args())
    try:
        run.run()
    except Difference as difference:
        run.report(difference)
        return 1
    except OSError as error:
        run.report(Difference(str(error), 0, 0))
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
