#!/usr/bin/env python3
"""Writes instance_throughput.tsv: what the network of each EC2 instance type carries.

The figures are those of EC2's DescribeInstanceTypes (NetworkInfo.NetworkPerformance), as the Python package
moto publishes them; `make instance-types` fetches its newest version. "Up to" counts as that. Old types, of
which EC2 says "High" or "Low" only, have the peak bandwidth of their network card.

    instance_throughput.py MOTO_WHEEL > instance_throughput.tsv
"""

import gzip
import json
import re
import sys
import zipfile

RESOURCE = "moto/ec2/resources/instance_types.json.gz"
# EC2 offers them no more in most regions, and moto does not list them: AWS's pages of previous generations.
RETIRED = {"i3.metal": 25.0, "p3.2xlarge": 10.0, "p3.8xlarge": 10.0, "p3.16xlarge": 25.0}


def gbps(network):
    """Gigabits per second that all network cards of a type carry together."""
    performance = network["NetworkPerformance"]
    figure = re.fullmatch(r"(?:Up to )?(?:(\d+)x )?([\d.]+) Gigabit", performance)
    if figure:
        return int(figure[1] or 1) * float(figure[2])
    return network["NetworkCards"][0]["PeakBandwidthInGbps"]


def main():
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        described = json.loads(gzip.decompress(wheel.read(RESOURCE)))
    types = {name: gbps(of["NetworkInfo"]) for name, of in described.items()} | RETIRED
    families = {}
    for name, carried in types.items():
        family, size = name.split(".")
        families.setdefault(family, []).append((carried, size))
    print("# Written by instance_throughput.py: family, then each size with its Gbit/s.")
    for family, sizes in sorted(families.items()):
        print(family, *(f"{size}={carried:g}" for carried, size in sorted(sizes)), sep="\t")


if __name__ == "__main__":
    main()
