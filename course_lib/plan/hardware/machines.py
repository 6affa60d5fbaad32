"""Tables of the devices and clusters that the course mentions.

Values are from data sheets unless said otherwise; None is unknown. Achievable rates are the best
matmuls of the "maximum achievable matmul" measurements of the ml-engineering book."""

from __future__ import annotations

from course_lib.plan.checks import named, positive, whole_number
from course_lib.plan.hardware import cpu_rates
from course_lib.plan.hardware.cluster import Cluster, Device, Link
from course_lib.words import N_, _

# Share of a link's data-sheet bandwidth that large collectives reach: 0.75 to 0.9 in published
# nccl-tests results on NVLink and InfiniBand.
WITHIN_SHARE, ACROSS_SHARE = 0.80, 0.85

_SHEET = N_("data sheet; achievable: stas00/ml-engineering, compute/accelerator")
_VENDOR = N_("data sheet")

DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        Device(
            "V100-16GB", 16, 900, 15.7, None, 125, None, None, 80, 300, "V100", _VENDOR
        ),
        Device(
            "V100-32GB", 32, 900, 15.7, None, 125, None, None, 80, 300, "V100", _VENDOR
        ),
        Device(
            "A100-40GB", 40, 1555, 19.5, 156, 312, 312, 271.2, 108, 400, "A100", _SHEET
        ),
        Device(
            "A100-80GB", 80, 2039, 19.5, 156, 312, 312, 271.2, 108, 400, "A100", _SHEET
        ),
        Device(
            "H100", 80, 3350, 67, 494.5, 989, 989, 794.5, 132, 700, "H100", _SHEET,
            fp8_tflops=1979,
        ),
        Device(
            "H100-96GB", 96, 2400, None, None, 989, 989, None, 132, 500, "H100 at 500 W",
            N_("torchtitan's benchmark page: HBM2e, 500 W"), fp8_tflops=1979,
        ),
        Device(
            "H200", 141, 4800, 67, 494.5, 989, 989, 794.5, 132, 700, "H100", _SHEET,
            fp8_tflops=1979,
        ),
        Device(
            "GH200-96GB", 96, 4000, 67, 494.5, 989, 989, None, 132, None, "H100", _VENDOR,
            fp8_tflops=1979,
        ),
        Device(
            "GH200-141GB", 141, 4800, 67, 494.5, 989, 989, 828.6, 132, 900, "H100", _SHEET,
            fp8_tflops=1979,
        ),
        Device(
            "B200", 180, 8000, 80, 1125, 2250, 2250, 1745, 148, 1000, "B200", _SHEET,
            fp8_tflops=4500, fp4_tflops=9000,
        ),
        Device(
            "GB200", 186, 8000, 80, 1250, 2500, 2500, 1822, 148, 1200, "B200", _SHEET,
            fp8_tflops=5000, fp4_tflops=10000,
        ),
        Device(
            "B300", 279, 8000, 80, 1125, 2250, 2250, 1769, 148, 1100, "B200", _SHEET,
            fp8_tflops=4500, fp4_tflops=14000,
        ),
        Device(
            "GB300", 279, 8000, 80, 1250, 2500, 2500, None, 152, 1400, "GB300", _VENDOR,
            fp8_tflops=5000, fp4_tflops=15000,
        ),
        Device(
            "MI250X-GCD", 64, 1640, 23.95, None, 191.5, 191.5, None, 110, 280, "MI250X",
            N_("half of the package's data sheet"),
        ),
        Device(
            "MI300X", 192, 5300, 163.4, 653.7, 1307.4, 1307.4, 668.4, 304, 750, "MI300X", _SHEET,
            fp8_tflops=2614.9,
        ),
    )
}  # fmt: skip


def device(name: str) -> Device:
    """Return a device of the table, with its data-sheet values."""
    return named("device", _plain(name), DEVICES)


def _cluster(
    name: str, device_name: str, links_gb_per_s: tuple[float, float], source: str
) -> Cluster:
    """Build a cluster from one device's data-sheet bandwidth in one direction: inside the node, and
    its share of the network. Latencies: NVLink some µs, InfiniBand under 10."""
    within, across = links_gb_per_s
    return Cluster(
        name,
        DEVICES[device_name],
        8,
        Link(5, within * WITHIN_SHARE, _("data sheet × share")),
        Link(8, across * ACROSS_SHARE, _("data sheet × share")),
        source=source,
    )


CLUSTERS: dict[str, Cluster] = {
    cluster.name: cluster
    for cluster in (
        _cluster("dgx-2", "V100-32GB", (150, 6.25), "DGX-2: 8 × 100 Gb/s for 16 devices").but(
            devices_per_node=16
        ),
        _cluster("jean-zay-v100", "V100-32GB", (50, 12.5), N_("BigScience notes: 400 Gb/s")).but(
            devices_per_node=4, switched=False
        ),
        _cluster("selene", "A100-80GB", (300, 25), "DGX A100, 8 × HDR200"),
        _cluster("juwels-booster", "A100-40GB", (300, 25), "4 × A100, 4 × HDR200").but(
            devices_per_node=4, switched=False
        ),
        _cluster("a100-40gb-roce", "A100-40GB", (300, 25), N_("1600 Gb/s RoCE per node")),
        _cluster("perlmutter", "A100-40GB", (300, 25), "4 × A100, 4 × Slingshot 200").but(
            devices_per_node=4, switched=False
        ),
        _cluster("dgx-h100", "H100", (450, 50), "DGX H100, 8 × NDR400"),
        _cluster("hf-h100", "H100", (450, 50), "nanotron's sweep").but(
            across=Link(50, 40, N_("collective bandwidths published with the sweep")),
            within=Link(8, 250, N_("collective bandwidths published with the sweep")),
            reduce_gain=1.74,
        ),
        _cluster("grand-teton", "H100-96GB", (450, 50), N_("torchtitan: 400 Gb/s per device")),
        _cluster("dgx-h200", "H200", (450, 50), "8 × NDR400"),
        _cluster("gh200", "GH200-96GB", (450, 25), N_("4 per node, 200 Gb/s each")).but(
            devices_per_node=4, switched=False
        ),
        _cluster("dgx-b200", "B200", (900, 50), "8 × NDR400"),
        _cluster("dgx-b300", "B300", (900, 100), "8 × XDR800"),
        _cluster("gb200-nvl72", "GB200", (900, 50), N_("72 devices behind one NVLink switch")).but(
            devices_per_node=72
        ),
        _cluster("gb300-nvl72", "GB300", (900, 100), N_("72 devices behind one NVLink switch")).but(
            devices_per_node=72
        ),
        _cluster("lumi", "MI250X-GCD", (200, 12.5), "8 GCDs, 4 × Slingshot 200").but(
            switched=False
        ),
        _cluster("mi300x", "MI300X", (448, 50), N_("7 × 64 GB/s to the peers")).but(switched=False),
    )
}


def box(
    nodes: int = 2, devices_per_node: int = 2, link_gbit_per_s: float = 1.0, processors: int = 2,
    device_memory_gib: float = 4.0,
) -> Cluster:  # fmt: skip
    """Return the course's embedded cluster. Speeds differ from machine to machine: `calibrate` and
    `with_links` replace these round figures. Only the relative speed of 16-bit matmuls is known
    beforehand."""
    fp32, relative = 0.1, cpu_rates.products_relative_to_fp32()
    rank = Device(
        _("box rank"), device_memory_gib, 8.0, fp32_tflops=fp32,
        fp16_tflops=relative["fp16"] * fp32, bf16_tflops=relative["bf16"] * fp32,
        family="box", lasting_share=0.8, flash_shares=cpu_rates.FLASH_SHARES,
        matmul_ramp_length=cpu_rates.MATMUL_RAMP_LENGTH,
    )  # fmt: skip
    return Cluster(
        "box",
        rank,
        devices_per_node,
        Link(100, 1.0, _("loopback, uncalibrated")),
        Link(200, positive("link_gbit_per_s", link_gbit_per_s) / 8, _("the shaped link of a node")),
        nodes=nodes,
        shared_link=True,
        processors=processors,
        turn_us=500,
        source="uncalibrated",
    )


# Cluster in which a device usually sits, for users who name only the device.
USUAL: dict[str, str] = {
    "V100-16GB": "jean-zay-v100",
    "V100-32GB": "jean-zay-v100",
    "A100-40GB": "a100-40gb-roce",
    "A100-80GB": "selene",
    "H100": "dgx-h100",
    "H100-96GB": "grand-teton",
    "H200": "dgx-h200",
    "GH200-96GB": "gh200",
    "GH200-141GB": "gh200",
    "B200": "dgx-b200",
    "B300": "dgx-b300",
    "GB200": "gb200-nvl72",
    "GB300": "gb300-nvl72",
    "MI250X-GCD": "lumi",
    "MI300X": "mi300x",
}


# Words that vendors add to a device's name and that do not change the device.
SALES_WORDS = ("nvidia", "amd", "sxm5", "sxm4", "sxm", "hbm3")


def _plain(name: str) -> str:
    """Return the table's name for a device, given its longer commercial name."""
    if not isinstance(name, str):
        return name
    words = name.lower().replace("-", " ").replace("_", " ").split()
    kept = "-".join(word for word in words if word not in SALES_WORDS)
    # Keep the memory size in the name unless it is the usual one.
    short = kept.removesuffix("-80gb") if kept.startswith("h100") else kept
    return next((key for key in DEVICES if key.lower() == short), name)


def cluster(name: str, devices: int = 0) -> Cluster:
    """Return a cluster of the table with the nodes that `devices` need. A device's name stands for
    its usual cluster."""
    usual = {key: CLUSTERS[where].but(device=DEVICES[key]) for key, where in USUAL.items()}
    found = named("cluster", _plain(name), CLUSTERS | usual)
    devices = whole_number("devices", devices, least=0)
    return found.but(nodes=max(1, -(-devices // found.devices_per_node)))
