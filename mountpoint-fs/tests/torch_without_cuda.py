#!/usr/bin/env python3
"""Empty libraries in the place of CUDA's, so that a wheel of PyTorch loads without them.

usage: torch_without_cuda.py FOLDER

FOLDER is the `torch/lib` of an installed wheel. The libraries of CUDA that it needs are wheels of
2.5 GB; the tests of programs use no GPU. Each library here defines the needed symbols, and each of
its functions returns an error, so that PyTorch finds no device. Needs gcc and binutils.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# Libraries of CUDA by file name, and their functions.
LIBRARY = re.compile(r"lib(cu|nccl|nvrtc|nvshmem)")
FUNCTION = re.compile(r"(_*cu|nccl|nvrtc|nvshmem|nvtx)")
# cudaErrorNoDevice, and CUDA_ERROR_NO_DEVICE.
NO_DEVICE = 100


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needs(library):
    """Returns the file names that a library needs, with the versions that it needs of each."""
    names = re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-dW", library))
    found = {name: set() for name in names}
    for line in output("readelf", "-VW", library).splitlines():
        if file := re.search(r"File: (\S+)", line):
            versions = found.setdefault(file[1], set())
        elif version := re.search(r"Name: (\S+)\s+Flags", line):
            versions.add(version[1])
    return found


def symbols(library):
    """Returns the undefined symbols of a library, with their versions, and the defined ones."""
    undefined, defined = set(), set()
    for line in output("nm", "-D", library).splitlines():
        *_, kind, symbol = line.split()
        name, _, version = symbol.partition("@")
        if kind == "U":
            undefined.add((name, version.strip("@")))
        elif kind not in "wv":
            defined.add(name)
    return undefined, defined


def build(file, functions, versions, scratch):
    """Builds a library with `functions`, given by the version of each, if it has versions."""
    source, script = scratch / "functions.c", scratch / "versions.map"
    names = sorted({name for of_version in functions.values() for name in of_version})
    source.write_text("".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in names))
    command = ["gcc", "-w", "-shared", "-fPIC", "-fno-builtin", "-o", file,
               f"-Wl,-soname,{file.name}", source]
    if versions:
        script.write_text("".join(
            f"{version} {{ global: {' '.join(f'{name};' for name in sorted(functions[version]))} }};\n"
            for version in sorted(versions)))
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    needed, undefined, defined = {}, set(), set()
    libraries = sorted(folder.glob("*.so*"))
    for library in libraries:
        for name, versions in needs(library).items():
            needed.setdefault(name, set()).update(versions)
        more_undefined, more_defined = symbols(library)
        undefined |= more_undefined
        defined |= more_defined
    missing = needed.keys() - {library.name for library in libraries}
    wanted = {(name, version) for name, version in undefined
              if name not in defined and FUNCTION.match(name)}
    with tempfile.TemporaryDirectory() as scratch:
        for name in sorted(filter(LIBRARY.match, missing)):
            versions = needed[name]
            functions = {of: {name for name, version in wanted if version == of}
                         for of in versions or {""}}
            build(folder / name, functions, versions, pathlib.Path(scratch))


if __name__ == "__main__":
    main()
