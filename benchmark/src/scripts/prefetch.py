# Shards of weights as vLLM loads them with prefetch: threads read the shards into the page cache, in blocks of 16 MiB, while
# the loader copies tensors out of mappings.
import mmap
import threading

BLOCK, HEADER, TENSOR = 16 * 1024 * 1024, 100 * 1024, 32 * 1024 * 1024


def fetch(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(BLOCK) and not is_over():
            pass


def work(_, tally):
    for path in FILES:
        threading.Thread(target=fetch, args=(path,), daemon=True).start()
    for path in FILES:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            tally.timed(lambda: len(mapped[:HEADER]))
            for offset in range(HEADER, SIZE, TENSOR):
                if is_over():
                    return
                tally.timed(lambda: len(mapped[offset : offset + TENSOR]))


in_processes(1, work)
