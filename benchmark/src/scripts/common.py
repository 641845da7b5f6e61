"""What every script begins with: the job from standard input, a clock, the result on standard output."""

import json
import multiprocessing
import os
import random
import sys
import time

multiprocessing.set_start_method("fork")
JOB = json.load(sys.stdin)
FILES, SIZE = JOB["files"], JOB["size"]
UNTIL = time.monotonic() + JOB["seconds"]


def is_over():
    return time.monotonic() >= UNTIL


class Tally:
    """Operations, bytes and durations of one worker."""

    def __init__(self):
        self.bytes = 0
        self.durations = []

    def timed(self, operation):
        started = time.perf_counter()
        self.bytes += operation()
        self.durations.append(time.perf_counter() - started)


def read_whole(path):
    """Opens, reads and closes a file, which must have its size."""
    with open(path, "rb", buffering=0) as file:
        length = len(file.read())
    if length != SIZE:
        sys.exit(f"{path} has {length} bytes")
    return length


def read_at(fd, length, offset):
    data = os.pread(fd, length, offset)
    if len(data) != length:
        sys.exit(f"read of {length} bytes at {offset} returned {len(data)}")
    return length


def in_processes(count, work):
    """Runs work(index, tally) in processes that begin together, and reports their sum."""
    start = multiprocessing.Barrier(count + 1)

    def process(index, result):
        tally = Tally()
        start.wait()
        work(index, tally)
        result.send((tally.bytes, tally.durations))

    results = []
    for index in range(count):
        receiver, sender = multiprocessing.Pipe(duplex=False)
        multiprocessing.Process(target=process, args=(index, sender)).start()
        # The worker's is the only one, so that its end is seen here.
        sender.close()
        results.append(receiver)
    start.wait()
    began = time.perf_counter()
    total, durations = 0, []
    for result in results:
        try:
            size, of_worker = result.recv()
        except EOFError:
            sys.exit("a worker failed")
        total += size
        durations += of_worker
    elapsed = time.perf_counter() - began
    for worker in multiprocessing.active_children():
        worker.join()
    report(total, durations, elapsed)


def report(size, durations, elapsed):
    durations.sort()
    quantile = lambda share: durations[min(int(share * len(durations)), len(durations) - 1)] * 1e6
    found = {"operations": len(durations), "bytes": size, "elapsed_s": elapsed}
    if durations:
        found.update(p50_us=quantile(0.5), p99_us=quantile(0.99))
    print(json.dumps(found))
