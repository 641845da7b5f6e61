# Images from tar archives, one behind the other: a header of 512 bytes, then the image. Four workers.
WORKERS, BLOCK = 4, 512


def work(index, tally):
    for number in range(index, len(FILES), WORKERS):
        sizes = random.Random(number)
        with open(FILES[number], "rb", buffering=64 * 1024) as file:
            left = SIZE
            while left > 0 and not is_over():
                image = min(sizes.randint(120, 320) * BLOCK, left - BLOCK)
                tally.timed(lambda: len(file.read(BLOCK)) + len(file.read(image)))
                left -= BLOCK + image


in_processes(WORKERS, work)
