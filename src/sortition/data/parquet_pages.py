"""How much memory the columns of a Parquet file take, from the headers of their pages; nothing is unpacked.

A page says how many values it holds and how many bytes it has once it is unpacked. The foot of the file says where the
pages of each column are. Both are written in Thrift's compact protocol, of which a reader needs little:
https://parquet.apache.org/docs/file-format/ and https://github.com/apache/thrift/blob/master/doc/specs/.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

MAGIC = b"PAR1"
LONGEST_FOOT = 1 << 24  # bytes; a thousand columns in a hundred groups of rows take a few million
LONGEST_HEADER = 1 << 16  # bytes of a page's header, which may quote its smallest and largest value
MOST_PAGES = 1_000_000
DEEPEST = 16  # tables in tables; the format needs five
SHARED_PREFIXES = 7  # the encoding DELTA_BYTE_ARRAY: each text repeats a part of the one before, for free
Table = dict[int, Any]  # a struct of Thrift: number of the field → value

# Numbers of fields: of the foot, a group of rows and a chunk of a column …
ROW_GROUPS = 4
COLUMN_CHUNKS = 1
COLUMN_METADATA = 3
COLUMN_PATH = 3
PACKED_CHUNK_BYTES = 7
DATA_OFFSET = 9
DICTIONARY_OFFSET = 11
# … of a page's header, and of the header of its kind
UNPACKED_PAGE_BYTES = 2
PACKED_PAGE_BYTES = 3
DATA_PAGE = 5
DICTIONARY_PAGE = 7
DATA_PAGE_2 = 8
N_VALUES = 1
ENCODING = 2
ENCODING_2 = 4


class Unpacked(NamedTuple):
    """What columns hold.

    Attributes:
        n_values: their values, those within lists included.
        n_bytes: of their pages, unpacked; a value that repeats may be stored once.
    """

    n_values: int
    n_bytes: int


class _Page(NamedTuple):
    n_values: int
    n_bytes: int
    encoding: int


def measure_unpacked(path: Path, columns: Collection[str]) -> Unpacked:
    """Return what these columns of a file hold together.

    Raises:
        ValueError: where the file's foot or a page's header cannot be read, or texts share their beginnings.
    """
    n_values = 0
    n_pages = 0
    n_bytes = 0
    with path.open("rb") as file:
        for column, start, end in _find_chunks(_read_foot(file)):
            if column not in columns:
                continue
            for page in _read_pages(file, start, end):
                n_pages += 1
                if n_pages > MOST_PAGES:
                    raise ValueError(f"it has more than {MOST_PAGES:,} pages")
                if page.encoding == SHARED_PREFIXES:
                    raise ValueError(f"its column {column[:99]!r} is encoded as DELTA_BYTE_ARRAY, which is not read")
                n_values += page.n_values
                n_bytes += page.n_bytes
    return Unpacked(n_values, n_bytes)


def _read_foot(file: BinaryIO) -> Table:
    """Read the description of the file, which stands at its end."""
    size = file.seek(0, 2)
    file.seek(max(0, size - 8))
    ending = file.read(8)
    if ending[4:] != MAGIC:
        raise ValueError("it does not end like a Parquet file")
    length = int.from_bytes(ending[:4], "little")
    if length > min(LONGEST_FOOT, size - 8):
        raise ValueError(f"it announces a foot of {length:,} bytes")
    file.seek(size - 8 - length)
    return _Compact(file.read(length)).table()


def _find_chunks(foot: Table) -> Iterator[tuple[str, int, int]]:
    """Yield the parts of columns: the column's name, and where its pages begin and end in the file."""
    try:
        for row_group in foot.get(ROW_GROUPS, []):
            for chunk in row_group[COLUMN_CHUNKS]:
                metadata = chunk[COLUMN_METADATA]
                name = metadata[COLUMN_PATH][0].decode(errors="replace")
                start = metadata.get(DICTIONARY_OFFSET) or metadata[DATA_OFFSET]  # a dictionary comes before the data
                yield name, start, start + metadata[PACKED_CHUNK_BYTES]
    except (AttributeError, IndexError, KeyError, TypeError):
        raise ValueError("its foot does not say where the pages are") from None


def _read_pages(file: BinaryIO, start: int, end: int) -> Iterator[_Page]:
    """Yield the pages between two places of the file."""
    position = start
    while position < end:
        if position < 0:
            raise ValueError("its foot points outside of the file")
        file.seek(position)
        reader = _Compact(file.read(LONGEST_HEADER))
        header = reader.table()
        try:
            page = _parse_page(header)
            packed_bytes = int(header[PACKED_PAGE_BYTES])
        except (AttributeError, KeyError, TypeError):
            raise ValueError("a page does not say what it holds") from None
        if packed_bytes < 0 or page.n_values < 0 or page.n_bytes < 0:
            raise ValueError("a page has a negative size")
        yield page
        position += reader.position + packed_bytes


def _parse_page(header: Table) -> _Page:
    """Return what a header says: of data, of a dictionary, or of data in the second version of the format."""
    n_bytes = int(header[UNPACKED_PAGE_BYTES])
    if DATA_PAGE_2 in header:
        page_header = header[DATA_PAGE_2]
        return _Page(n_values=int(page_header[N_VALUES]), n_bytes=n_bytes, encoding=page_header.get(ENCODING_2, 0))
    page_header = header.get(DATA_PAGE) or header.get(DICTIONARY_PAGE) or {N_VALUES: 0}
    return _Page(n_values=int(page_header[N_VALUES]), n_bytes=n_bytes, encoding=page_header.get(ENCODING, 0))


class _Compact:
    """Reads Thrift's compact protocol; whatever is odd raises ValueError."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.position = 0

    def table(self, depth: int = 0) -> Table:
        """Read a struct."""
        if depth > DEEPEST:
            raise ValueError("its description is too deep")
        fields: Table = {}
        number = 0
        while head := self._byte():
            step = head >> 4
            if step:
                number += step
            else:
                number = self._signed()
            kind = head & 15
            if kind in (1, 2):  # a truth value is told by its kind
                fields[number] = kind == 1
            else:
                fields[number] = self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == 8:
            return self._bytes(self._varint())
        if kind in (9, 10):
            return self._list(depth)
        if kind == 11:
            return self._map(depth)
        if kind == 12:
            return self.table(depth + 1)
        raise ValueError(f"its description has a value of the unknown kind {kind}")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        size = head >> 4
        if size == 15:
            size = self._varint()
        self._check_remaining(size)  # every item takes a byte or more
        return [self._value(head & 15, depth + 1) for _ in range(size)]

    def _map(self, depth: int) -> list[tuple[Any, Any]]:
        size = self._varint()
        if not size:
            return []
        self._check_remaining(size)
        kinds = self._byte()
        return [(self._value(kinds >> 4, depth + 1), self._value(kinds & 15, depth + 1)) for _ in range(size)]

    def _signed(self) -> int:
        coded = self._varint()
        return (coded >> 1) ^ -(coded & 1)

    def _varint(self) -> int:
        result = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            result |= (byte & 127) << shift
            if byte < 128:
                return result
        raise ValueError("its description has a number of more than 64 bits")

    def _byte(self) -> int:
        self._check_remaining(1)
        byte = self.content[self.position]
        self.position += 1
        return byte

    def _bytes(self, size: int) -> bytes:
        self._check_remaining(size)
        start = self.position
        self.position += size
        return self.content[start : self.position]

    def _check_remaining(self, size: int) -> None:
        if size > len(self.content) - self.position:
            raise ValueError("its description ends too early")
