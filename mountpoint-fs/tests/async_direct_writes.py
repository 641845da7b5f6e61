"""Asynchronous O_DIRECT writes beside buffered readers: a read behind a write sees its bytes.

usage: async_direct_writes.py aio|io_uring FILE ROUNDS

Writes FILE again and again, through libaio's system calls or through io_uring, while other
processes read it. Ends with 1 at the first byte that is older than the last write.
"""

import ctypes
import mmap
import os
import platform
import signal
import struct
import sys

SIZE = 1 << 20
READERS = 3
IO_SETUP, IO_SUBMIT, IO_GETEVENTS = {"x86_64": (206, 209, 208)}.get(platform.machine(), (0, 2, 4))
IO_URING_SETUP, IO_URING_ENTER = 425, 426
OP_WRITE = 23

libc = ctypes.CDLL(None, use_errno=True)


def call(*arguments):
    result = libc.syscall(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "system call %d" % arguments[0].value)
    return result


def number(value):
    return ctypes.c_long(value)


def address(buffer):
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


class Aio:
    """One write at a time through io_submit(2)."""

    def __init__(self):
        self.context = ctypes.c_ulong(0)
        call(number(IO_SETUP), number(4), ctypes.byref(self.context))

    def write(self, descriptor, buffer):
        block = struct.pack("<QIIHhIQQqQII", 0, 0, 0, 1, 0, descriptor, address(buffer), SIZE, 0, 0, 0, 0)
        block = ctypes.create_string_buffer(block, 64)
        blocks = (ctypes.c_void_p * 1)(ctypes.addressof(block))
        assert call(number(IO_SUBMIT), self.context, number(1), blocks) == 1
        event = ctypes.create_string_buffer(32)
        assert call(number(IO_GETEVENTS), self.context, number(1), number(1), event, None) == 1
        return struct.unpack("<QQqq", event.raw)[2]


class IoUring:
    """One write at a time through io_uring_enter(2)."""

    def __init__(self):
        parameters = ctypes.create_string_buffer(120)
        self.ring = call(number(IO_URING_SETUP), number(4), parameters)
        words = struct.unpack("<30I", parameters.raw)
        sq_entries, cq_entries = words[0], words[1]
        self.sq, self.cq = words[10:20], words[20:30]
        self.mask = sq_entries - 1
        self.cq_mask = cq_entries - 1
        shared = mmap.MAP_SHARED | mmap.MAP_POPULATE
        self.submissions = mmap.mmap(self.ring, self.sq[6] + sq_entries * 4, shared, offset=0)
        self.completions = mmap.mmap(self.ring, self.cq[5] + cq_entries * 16, shared, offset=0x8000000)
        self.entries = mmap.mmap(self.ring, sq_entries * 64, shared, offset=0x10000000)

    def write(self, descriptor, buffer):
        tail = struct.unpack_from("<I", self.submissions, self.sq[1])[0]
        slot = tail & self.mask
        entry = struct.pack("<BBHiQQII", OP_WRITE, 0, 0, descriptor, 0, address(buffer), SIZE, 0)
        self.entries[slot * 64 : slot * 64 + 64] = entry.ljust(64, b"\0")
        struct.pack_into("<I", self.submissions, self.sq[6] + slot * 4, slot)
        struct.pack_into("<I", self.submissions, self.sq[1], tail + 1 & 0xFFFFFFFF)
        call(number(IO_URING_ENTER), number(self.ring), number(1), number(1), number(1), None, number(0))
        head = struct.unpack_from("<I", self.completions, self.cq[0])[0]
        at = self.cq[5] + (head & self.cq_mask) * 16
        result = struct.unpack_from("<Qi", self.completions, at)[1]
        struct.pack_into("<I", self.completions, self.cq[0], head + 1 & 0xFFFFFFFF)
        return result


def read_for_ever(name):
    descriptor = os.open(name, os.O_RDONLY)
    while True:
        os.pread(descriptor, SIZE, 0)


def start_reader(name):
    child = os.fork()
    if child == 0:
        read_for_ever(name)
    return child


def run(way, name, rounds):
    with open(name, "wb") as made:
        made.truncate(SIZE)
    writer, reader = os.open(name, os.O_RDWR | os.O_DIRECT), os.open(name, os.O_RDONLY)
    buffer = mmap.mmap(-1, SIZE)
    readers = [start_reader(name) for _ in range(READERS)]
    try:
        for turn in range(rounds):
            written = bytes([1 + turn % 200]) * SIZE
            buffer[:] = written
            assert way.write(writer, buffer) == SIZE
            if os.pread(reader, SIZE, 0) != written:
                sys.exit("old bytes in round %d" % turn)
    finally:
        for child in readers:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    os.close(writer)
    os.close(reader)
    with open(name, "rb") as again:
        if again.read() != written:
            sys.exit("old bytes in the file that is opened again")


run({"aio": Aio, "io_uring": IoUring}[sys.argv[1]](), sys.argv[2], int(sys.argv[3]))
