"""Reader of NCCL's log (NCCL_DEBUG=INFO), version 2.2 to today, for any number of ranks.

Most lines of a large log are channel lines, which differ only in their channel number. So the text
after the number is parsed once and looked up afterwards."""

from __future__ import annotations

from collections.abc import Iterable

from course_lib.read import files, lines, prefix
from course_lib.read.files import PathLike, Source
from course_lib.read.nccl_logs import line_patterns
from course_lib.read.nccl_logs.collected import Collected
from course_lib.read.nccl_logs.result import NcclLog

NEEDLE = b" NCCL INFO Channel "
MOST_CHANNEL_LINES = 50_000_000
_LONGEST_LINE_BYTES = 20_000
_OF_A_PLAIN_LINE = (b"#", b"version", b"nccl")
# The first line of a log that the course has generated.
MARK = "# SIMULATED by the course, not printed by NCCL: "
_MARK = MARK.encode()


class NcclReader:
    """Reader of any number of files; `result` assembles the communicators."""

    def __init__(self) -> None:
        self._collected = Collected()
        self._link_codes: dict[bytes, int] = {}

    def read(self, source: Source) -> None:
        said = self._collected
        said.files.append(source.name)
        said.line = 0
        said.threads.begin_file()
        for block in lines.blocks(source.path):
            for text in block.removesuffix(b"\n").split(b"\n"):
                said.line += 1
                head, found, channel = text.partition(NEEDLE)
                if not found or not self._channel_line(head, channel):
                    self._any(text)
        said.lines += said.line

    def _channel_line(self, head: bytes, text: bytes) -> bool:
        slot = self._collected.threads.slot(head)
        return slot is not None and self._channel(slot, text)

    def _channel(self, slot: int, text: bytes) -> bool:
        """Add `00/0 : 1[1] -> 0[0] via …`: a channel's number, with or without a slash and the
        total, and a link. Return False for another kind of line."""
        name, _, link = text.partition(b" : ")
        number, link = name.partition(b"/")[0], prefix.without_colours(link).rstrip()
        if not number.isdigit():
            return False
        code = self._link_codes.get(link)
        if code is None:
            found = line_patterns.link_of(link)
            if found is None:
                return self._ring(slot, name, link)
            code = self._link_codes[link] = len(self._link_codes)
            self._collected.links.append(found)
        rows = self._collected.rows
        if len(rows.slot) < MOST_CHANNEL_LINES:
            rows.slot.append(slot)
            rows.channel.append(int(number[:9]))
            rows.link.append(code)
            rows.line.append(self._collected.line)
        return True

    def _ring(self, slot: int, name: bytes, order: bytes) -> bool:
        """Add a ring; if NCCL cut the order short, drop its last number, which may be
        incomplete."""
        if not line_patterns.CHANNEL_ORDER.match(order):
            return False
        channel, _, total = name.partition(b"/")
        whole = order.removesuffix(b"...")
        parts = whole.split() if len(whole) == len(order) else whole.split()[:-1]
        self._collected.rings.add(
            communicator=slot,
            channel=int(channel[:9]),
            order=tuple(int(part) for part in parts),
            line=self._collected.line,
            total=int(total[:9]) if total.isdigit() else None,
        )
        return True

    def _any(self, text: bytes) -> None:
        if b"NCCL" in text or b" INFO " in text or b" WARN " in text:
            self._other(text)
        elif any(word in text for word in _OF_A_PLAIN_LINE):
            self._plain(text)

    def _other(self, text: bytes) -> None:
        text = prefix.without_colours(text[:_LONGEST_LINE_BYTES])
        head, found, message = text.partition(b" NCCL INFO ")
        if not found:
            head, found, message = text.partition(b" INFO ")
        if found and (slot := self._collected.threads.slot(head)) is not None:
            self._message(slot, head, message)
        elif b"NCCL WARN " in text or (b" WARN " in text and line_patterns.THREAD.search(text)):
            self._warning(text)
        self._plain(text)

    def _message(self, slot: int, head: bytes, message: bytes) -> None:
        said = self._collected
        kind, _, rest = message.partition(b" ")
        if kind.startswith((b"comm", b"ncclComm")):
            if comm := line_patterns.comm_of(message):
                said.threads.comm(head, comm)
        elif kind in (b"Channel", b"Ring"):  # version 2.4 calls a channel a ring
            self._channel(slot, rest)
        elif kind in (b"CollNet", b"Coll") and (match := line_patterns.COLLNET.match(message)):
            # The link to a reducing switch is written as a link from the rank to itself.
            channel, rank, direction, via = match.groups()
            self._channel(
                slot, b"%b : %b -> %b [%b] via %b" % (channel, rank, rank, direction, via)
            )
        elif message.startswith(b"Using network "):
            said.network = message[14:100].decode("utf-8", "replace").strip()
        elif said.network is None and (match := line_patterns.NETWORK.match(message)):
            said.network = match[1].decode()

    def _warning(self, text: bytes) -> None:
        head, _, message = text.partition(b" WARN ")
        head = head.removesuffix(b" NCCL")
        said, match = self._collected, line_patterns.THREAD.search(head)
        number = said.threads.slot(head[: match.end()]) if match else None
        slot = None if number is None else said.slots[number]
        said.warnings.add(
            host=slot.host if slot else None,
            rank=slot.comm.rank if slot and slot.comm else prefix.parse(text).rank,
            text=message.decode("utf-8", "replace").strip()[:1000],
            where=head[match.end() :].decode("utf-8", "replace").strip() if match else "",
            line=said.line,
            file=said.files[-1],
        )

    def _plain(self, text: bytes) -> None:
        """Read versions, settings, and the mark of a simulated log."""
        said = self._collected
        if text.startswith(_MARK) and not said.simulated:
            said.simulated = text[len(_MARK) :].decode("utf-8", "replace").strip()
        if b"version" in text and (match := line_patterns.VERSION.search(text)):
            said.library = "RCCL" if b"RCCL" in text else said.library
            version = match[1].decode("utf-8", "replace")
            if version not in said.versions and len(said.versions) < 100:
                said.versions.append(version)
        if b" set " in text and (match := line_patterns.SETTING.search(text)):
            value = match[2].decode("utf-8", "replace").strip().rstrip(".")
            if len(said.environment) < 1000:
                said.environment[match[1].decode()] = value

    def result(self) -> NcclLog:
        from course_lib.read.nccl_logs.tables import build

        return build(self._collected)


def nccl(path: PathLike | Iterable[PathLike]) -> NcclLog:
    """Read the logs of a run with NCCL_DEBUG=INFO, from one rank or from all ranks."""
    reader = NcclReader()
    for source in files.sources(path):
        reader.read(source)
    return reader.result()
