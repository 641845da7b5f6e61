# Ranks of one node that load the same shard: eight processes, each with a descriptor of its own, read one file from its
# beginning to its end.
READERS, BLOCK = 8, 256 * 1024


def work(_, tally):
    fd = os.open(FILES[0], os.O_RDONLY)
    buffer = bytearray(BLOCK)
    for offset in range(0, SIZE, BLOCK):
        if is_over():
            break
        length = min(BLOCK, SIZE - offset)
        tally.timed(lambda: read_into(fd, buffer, offset, length))
    os.close(fd)


def read_into(fd, buffer, offset, length):
    found = os.preadv(fd, [buffer], offset)
    if found != length:
        sys.exit(f"read of {length} bytes at {offset} returned {found}")
    return found


in_processes(READERS, work)
