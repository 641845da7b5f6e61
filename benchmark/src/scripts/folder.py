# A folder of images in directories: found by walking, then read whole in random order by sixteen workers.
WORKERS = 16
ROOT = os.path.commonpath(FILES)
PATHS = [os.path.join(path, name) for path, _, names in os.walk(ROOT) for name in names]
if len(PATHS) != len(FILES):
    sys.exit(f"{ROOT} shows {len(PATHS)} files")
random.Random(1).shuffle(PATHS)


def work(index, tally):
    for path in PATHS[index::WORKERS]:
        if is_over():
            return
        tally.timed(lambda: read_whole(path))


in_processes(WORKERS, work)
