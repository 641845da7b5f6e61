# A map-style data set as PyTorch's DataLoader reads it: eight worker processes take batches of random records from a
# queue, each process with descriptors of its own. Plain multiprocessing, without torch.
WORKERS, BATCH, RECORD = 8, 32, 96 * 1024
RECORDS_PER_FILE = SIZE // RECORD
NEXT = multiprocessing.Value("Q", 0)
ORDER = random.Random(2).sample(range(len(FILES) * RECORDS_PER_FILE), min(40_000, len(FILES) * RECORDS_PER_FILE))


def work(_, tally):
    fds = [os.open(path, os.O_RDONLY) for path in FILES]
    while not is_over():
        with NEXT.get_lock():
            first = NEXT.value
            NEXT.value += BATCH
        batch = ORDER[first : first + BATCH]
        if not batch:
            return
        for record in batch:
            file, index = divmod(record, RECORDS_PER_FILE)
            tally.timed(lambda: read_at(fds[file], RECORD, index * RECORD))


in_processes(WORKERS, work)
