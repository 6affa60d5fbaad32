"""Reader of NCCL's log (NCCL_DEBUG=INFO), version 2.2 to today, for any number of ranks.

Most lines of a large log are channel lines, which differ only in their channel number. So the text
after the number is parsed once and looked up afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from course_lib.read import files, lines, prefix
from course_lib.read.files import PathLike, Source
from course_lib.read.nccl_logs import line_patterns
from course_lib.read.nccl_logs.collected import Collected
from course_lib.read.nccl_logs.result import NcclLog

NEEDLE = b" NCCL INFO Channel "
MOST_CHANNEL_LINES = 50_000_000


class ChannelLines:
    """Collector of channel lines, in the formats of all versions."""

    def __init__(self, collected: Collected) -> None:
        self._collected = collected
        self._codes: dict[bytes, int] = {}

    def add(self, slot: int, name: bytes, link: bytes, line: int) -> bool:
        """Add a line; `name` is the channel's number, with or without a slash and the total. Return
        False for another kind of line."""
        number, link = name.partition(b"/")[0], prefix.without_colours(link).rstrip()
        if not number.isdigit():
            return False
        code = self._codes.get(link)
        if code is None:
            found = line_patterns.link_of(link)
            if found is None:
                return self._ring(slot, name, link, line)
            code = self._codes[link] = len(self._codes)
            self._collected.links.append(found)
        rows = self._collected.rows
        if len(rows.slot) < MOST_CHANNEL_LINES:
            rows.slot.append(slot)
            rows.channel.append(int(number[:9]))
            rows.link.append(code)
            rows.line.append(line)
        return True

    def _ring(self, slot: int, name: bytes, order: bytes, line: int) -> bool:
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
            line=line,
            total=int(total[:9]) if total.isdigit() else None,
        )
        return True


_INFO = b" NCCL INFO "
# These lines are frequent and have no other content.
_COMM = (b"comm 0x", b"ncclCommInitRank comm 0x")
_LONGEST_LINE_BYTES = 20_000
_OF_A_PLAIN_LINE = (b"#", b"version", b"nccl")
# The first line of a log that the course has generated.
MARK = "# SIMULATED by the course, not printed by NCCL: "
_MARK = MARK.encode()


class NcclReader:
    """Reader of any number of files; `result` assembles the communicators."""

    def __init__(self) -> None:
        self._collected = Collected()
        self._channel_lines = ChannelLines(self._collected)

    def read(self, source: Source) -> None:
        said = self._collected
        said.files.append(source.name)
        said.line = 0
        said.threads.begin_file(said.lines)
        for block in lines.blocks(source.path):
            for text in block.removesuffix(b"\n").split(b"\n"):
                said.line += 1
                head, found, channel = text.partition(NEEDLE)
                if not found or not self._channel(head, channel):
                    self._any(text)
        said.lines += said.line

    def _channel(self, head: bytes, text: bytes) -> bool:
        slot = self._collected.threads.slot(head, self._collected.line)
        name, _, link = text.partition(b" : ")
        return slot is not None and self._channel_lines.add(slot, name, link, self._collected.line)

    def _any(self, text: bytes) -> None:
        if b"NCCL" in text or b" INFO " in text or b" WARN " in text:
            self._other(text)
        elif any(word in text for word in _OF_A_PLAIN_LINE):
            self._plain(text)

    def _other(self, text: bytes) -> None:
        text = prefix.without_colours(text[:_LONGEST_LINE_BYTES])
        head, found, message = text.partition(_INFO)
        if not found:
            head, found, message = text.partition(b" INFO ")
        if found and (slot := self._collected.threads.slot(head, self._collected.line)) is not None:
            if message.startswith(_COMM) and b"version" not in head:
                return self.comm(slot, head, message)
            self._message(slot, head, message)
        elif b"NCCL WARN " in text or (b" WARN " in text and line_patterns.THREAD.search(text)):
            self._warning(text)
        self._plain(text)

    def _message(self, slot: int, head: bytes, message: bytes) -> None:
        handler = _HANDLERS.get(message.split(b" ", 1)[0].rstrip(b":"))
        if handler is not None:
            handler(self, slot, head, message)
        elif b" channels" in message and (match := line_patterns.CHANNEL_COUNTS.match(message)):
            names = ("collective_channels", "nvls_channels", "p2p_channels")
            pairs = zip(names, match.groups(), strict=True)
            self._collected.slots[slot].counts = {
                name: int(value) for name, value in pairs if value
            }
        elif self._collected.network is None and (match := line_patterns.NETWORK.match(message)):
            self._collected.network = match[1].decode()

    def comm(self, slot: int, head: bytes, message: bytes) -> None:
        found = line_patterns.comm_of(message)
        if found is not None:
            self._collected.threads.comm(slot, head, found, self._collected.line)

    def channel(self, slot: int, _: bytes, message: bytes) -> None:
        """Add `Ring 00 : 1 -> 0 [receive] via …` of 2.4, a channel line under another name."""
        name, _colon, link = message.partition(b" ")[2].partition(b" : ")
        self._channel_lines.add(slot, name, link, self._collected.line)

    def collnet(self, slot: int, _: bytes, message: bytes) -> None:
        """Add the link to a reducing switch, written as a link from the rank to itself."""
        if match := line_patterns.COLLNET.match(message):
            channel, rank, direction, via = match.groups()
            link = b"%b -> %b [%b] via %b" % (rank, rank, direction, via)
            self._channel_lines.add(slot, channel, link, self._collected.line)

    def nvls(self, slot: int, _: bytes, message: bytes) -> None:
        if message.startswith((b"Connected NVLS", b"NVLS comm", b"NVLS Trees")):
            self._collected.slots[slot].counts["nvls"] = 1

    def using(self, _: int, __: bytes, message: bytes) -> None:
        if message.startswith(b"Using network "):
            self._collected.network = message[14:100].decode("utf-8", "replace").strip()

    def _warning(self, text: bytes) -> None:
        head, _, message = text.partition(b" WARN ")
        head = head.removesuffix(b" NCCL")
        match = line_patterns.THREAD.search(head)
        where = head[match.end() :].strip() if match else b""
        slot = (
            self._collected.threads.slot(head[: match.end()], self._collected.line)
            if match
            else None
        )
        comm = self._collected.slots[slot].comm if slot is not None else None
        self.add_warning(
            message.decode("utf-8", "replace").strip(),
            host=self._collected.slots[slot].host if slot is not None else None,
            rank=comm.rank if comm else prefix.parse(text).rank,
            where=where.decode("utf-8", "replace"),
        )

    def add_warning(self, text: str, **values: object) -> None:
        severity, meaning = line_patterns.meaning_of(text)
        self._collected.warnings.add(
            text=text[:1000],
            severity=severity,
            meaning=meaning,
            line=self._collected.line,
            file=self._collected.files[-1] if self._collected.files else "",
            **values,
        )

    def _plain(self, text: bytes) -> None:
        """Read versions, settings, and the mark of a simulated log."""
        if text.startswith(_MARK) and not self._collected.simulated:
            self._collected.simulated = text[len(_MARK) :].decode("utf-8", "replace").strip()
        if b"version" in text and (match := line_patterns.VERSION.search(text)):
            self._collected.library = "RCCL" if b"RCCL" in text else self._collected.library
            version = match[1].decode("utf-8", "replace")
            if version not in self._collected.versions and len(self._collected.versions) < 100:
                self._collected.versions.append(version)
        if b" set " in text and (match := line_patterns.SETTING.search(text)):
            value = match[2].decode("utf-8", "replace").strip().rstrip(".")
            if len(self._collected.environment) < 1000:
                self._collected.environment[match[1].decode()] = value
        if b"neither AF_INET" in text and b" WARN " not in text:
            self.add_warning(text.decode("utf-8", "replace").strip())

    def result(self) -> NcclLog:
        from course_lib.read.nccl_logs.tables import build

        return build(self._collected)


Handler = Callable[[NcclReader, int, bytes, bytes], None]
_HANDLERS: dict[bytes, Handler] = {
    b"comm": NcclReader.comm,
    b"ncclCommInitRank": NcclReader.comm,
    b"ncclCommInitRankConfig": NcclReader.comm,
    b"ncclCommInitAll": NcclReader.comm,
    b"ncclCommSplit": NcclReader.comm,
    b"ncclCommInitRankScalable": NcclReader.comm,
    b"Ring": NcclReader.channel,
    b"Channel": NcclReader.channel,
    b"CollNet": NcclReader.collnet,
    b"Coll": NcclReader.collnet,
    b"Connected": NcclReader.nvls,
    b"NVLS": NcclReader.nvls,
    b"Using": NcclReader.using,
}


def nccl(path: PathLike | Iterable[PathLike]) -> NcclLog:
    """Read the logs of a run with NCCL_DEBUG=INFO, from one rank or from all ranks."""
    reader = NcclReader()
    for source in files.sources(path):
        reader.read(source)
    return reader.result()
