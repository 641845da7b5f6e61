# First stat of every file, by 32 processes at once.
WORKERS = 32


def size_of(path):
    if os.stat(path).st_size != SIZE:
        sys.exit(f"{path} has a wrong size")
    return 0


def work(index, tally):
    for path in FILES[index::WORKERS]:
        tally.timed(lambda: size_of(path))


in_processes(WORKERS, work)
