# Weights of one file, loaded by four processes that take its tensors in a shuffled order. MAPPED stands above: out of
# a mapping, or by reads of whole tensors.
import mmap

HEADER, TENSOR, PROCESSES = 100 * 1024, 32 * 1024 * 1024, 4
OFFSETS = list(range(HEADER, SIZE, TENSOR))
random.Random(1).shuffle(OFFSETS)


def work(index, tally):
    buffer = bytearray(TENSOR)
    with open(FILES[0], "rb", buffering=0) as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:

        def load(offset, length):
            target = memoryview(buffer)[:length]
            if MAPPED:
                target[:] = memoryview(mapped)[offset : offset + length]
            elif file.seek(offset) != offset or file.readinto(target) != length:
                sys.exit(f"a read of {length} bytes at {offset} returned less")
            return length

        load(0, HEADER)
        for offset in OFFSETS[index::PROCESSES]:
            if is_over():
                return
            tally.timed(lambda: load(offset, min(TENSOR, SIZE - offset)))


in_processes(PROCESSES, work)
