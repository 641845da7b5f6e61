# A Parquet reader: the footer from the end, then three columns of twelve of each row group. Four workers.
FOOTER, ROW_GROUPS, COLUMNS, WANTED, WORKERS = 64 * 1024, 8, 12, (1, 4, 5), 4


def work(index, tally):
    chunk = (SIZE - FOOTER) // (ROW_GROUPS * COLUMNS)
    for path in FILES[index::WORKERS]:
        if is_over():
            return
        fd = os.open(path, os.O_RDONLY)
        tally.timed(lambda: read_at(fd, 8, SIZE - 8))
        tally.timed(lambda: read_at(fd, FOOTER, SIZE - FOOTER))
        for group in range(ROW_GROUPS):
            for column in WANTED:
                offset = (group * COLUMNS + column) * chunk
                tally.timed(lambda: read_at(fd, chunk, offset))
        os.close(fd)


in_processes(WORKERS, work)
