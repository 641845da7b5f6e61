# A folder of images as a map-style Dataset, read by PyTorch's DataLoader: eight worker processes, shuffled, batches of
# 32. What is timed is a worker's reading of an image; the images go to this process as tensors.
import warnings

import torch
from torch.utils.data import DataLoader, Dataset

WORKERS, BATCH = 8, 32


class Images(Dataset):
    def __init__(self, paths, size):
        self.paths, self.size = paths, size

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        started = time.perf_counter()
        with open(path, "rb", buffering=0) as file:
            image = bytearray(file.read())
        took = time.perf_counter() - started
        if len(image) != self.size:
            raise OSError(f"{path} has {len(image)} bytes")
        return torch.frombuffer(image, dtype=torch.uint8), took


def loader(images):
    return DataLoader(images, batch_size=BATCH, shuffle=True, num_workers=WORKERS)


# Eight workers are the workload, on however few cores.
warnings.filterwarnings("ignore", message="This DataLoader will create")
# The time that torch takes to be imported, and to be read from the disk as it is first used, is not the mount's.
for _ in loader(Images([os.__file__] * BATCH, os.path.getsize(os.__file__))):
    pass
torch.manual_seed(1)
size, durations = 0, []
began = time.perf_counter()
UNTIL = time.monotonic() + JOB["seconds"]
for images, took in loader(Images(FILES, SIZE)):
    size += images.numel()
    durations += took.tolist()
    if is_over():
        break
report(size, durations, time.perf_counter() - began)
