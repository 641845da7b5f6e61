# torch.load of a checkpoint, into memory of this process.
import io

import torch

COUNT = 4 * 1024 * 1024

tally = Tally()
tensors = {}


def load():
    tensors.update(torch.load(FILES[0], map_location="cpu"))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


# The time that torch takes to be imported, and to be read from the disk as it is first used, is not the mount's.
little = io.BytesIO()
torch.save({"layer": torch.arange(10)}, little)
torch.load(io.BytesIO(little.getvalue()), map_location="cpu")
began = time.perf_counter()
tally.timed(load)
elapsed = time.perf_counter() - began
if tally.bytes != SIZE:
    sys.exit(f"{FILES[0]} holds {tally.bytes} bytes of weights")
for n in range(len(tensors)):
    # One number of each page.
    expected = torch.arange(n * COUNT, (n + 1) * COUNT, 1024, dtype=torch.int32)
    if not torch.equal(tensors[f"layer{n}"][::1024], expected):
        sys.exit(f"layer{n} of {FILES[0]} holds wrong numbers")
report(tally.bytes, tally.durations, elapsed)
