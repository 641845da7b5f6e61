# Weights of one file as Run:ai's model streamer reads them: sixteen threads, each in sequence over its part of the file,
# in chunks of 2 MiB.
import threading

THREADS, CHUNK = 16, 2 * 1024 * 1024


def work(_, tally):
    tallies = [Tally() for _ in range(THREADS)]

    def stream(number):
        own = tallies[number]
        buffer = memoryview(bytearray(CHUNK))
        part = -(-SIZE // THREADS)
        offset, end = number * part, min((number + 1) * part, SIZE)
        with open(FILES[0], "rb", buffering=0) as file:
            while offset < end and not is_over():
                target = buffer[: min(CHUNK, end - offset)]
                own.timed(lambda: os.preadv(file.fileno(), [target], offset))
                offset += len(target)

    threads = [threading.Thread(target=stream, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for own in tallies:
        tally.bytes += own.bytes
        tally.durations += own.durations


in_processes(1, work)
