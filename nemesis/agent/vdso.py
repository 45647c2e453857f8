"""Shifts the clocks of one running process by patching its copy of the vDSO.

Programs read the time through three functions that the kernel maps into every process. Their
first bytes are overwritten with a jump to `CODE` (see stub.S), placed behind the ELF image where
nothing is read at run time; the first write makes the page private to the process.
CLOCK_REALTIME (also coarse, and TAI), gettimeofday and time are shifted by `set`; CLOCK_MONOTONIC
(also raw and coarse) by `stand_still`, for good; boot time is never changed. A fork inherits the
patch, an exec loses it. A program that makes the system call directly, and a wait in the kernel
until an absolute time, see the true clock. x86-64 only.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.processes import Process
from holdfast.nemesis.agent.request_errors import Refused

CODE = bytes.fromhex(
    "83ff01742c83ff04742783ff067422b8e40000000f0585c0751685ff740a83ff05740583ff0b7508"
    "41ba01000000eb56c34c8b1528010000b8e40000000f0585c075ed4c39151601000075e548690600"
    "ca9a3b480346084c01d031d248f735ed0000004889064889560831c0c3b8600000000f0585c075b8"
    "4885ff74b34889fe41bae803000048693e00ca9a3b488b4608490fafc24801c7440fb61db8000000"
    "4489d983e10169c9880000004c8d0db50000004901c94d8b014889f9eb384889f8492b410849f769"
    "1848f73d780000004801c1498379200074114889f8492b410831d249f77120a80175044903491049"
    "83c12049ffc84d85c075c344381d5600000075944889c831d248f735400000004889064889d031d2"
    "49f7f24889460831c0c3574883ec104889e6bf05000000e8ccfeffff488b04244883c4105f4885ff"
    "7403488907c3669040420f000000000000ca9a3b0000000000000000000000000000000000000000"
)
STAND_INS = {"__vdso_clock_gettime": 0x00, "__vdso_gettimeofday": 0x6D, "__vdso_time": 0x122}
"""Function of the vDSO -> offset of its replacement in CODE."""
GENERATION, STANDSTILL, BANKS = 0x158, 0x160, 0x168
SKEWS_PER_BANK = 4
BANK_BYTES = 8 + 32 * SKEWS_PER_BANK
NEEDED_BYTES = BANKS + 2 * BANK_BYTES
JUMP_BYTES = 5
SCRATCH_BYTES = 160
TRIES = 200
AT_SYSINFO_EHDR = 33


@dataclass(frozen=True, kw_only=True, slots=True)
class Skew:
    """Shift of the wall clock by one fault.

    base_ns    true wall time at which it began
    step_ns    added to the clock
    ppm        parts per million by which the clock runs fast (negative: slow)
    strobe_ns  0, or the half period with which the step toggles
    """

    base_ns: int
    step_ns: int
    ppm: int
    strobe_ns: int

    def shift_ns(self, wall_ns: int) -> int:
        """The shift at this true wall time; the same sum as in stub.S."""
        elapsed = wall_ns - self.base_ns
        drift = abs(elapsed * self.ppm) // 1_000_000
        resting = self.strobe_ns and elapsed // self.strobe_ns % 2
        return (drift if elapsed * self.ppm >= 0 else -drift) + (0 if resting else self.step_ns)


@dataclass(frozen=True, kw_only=True, slots=True)
class VdsoImage:
    """The vDSO of this kernel: `entries` maps a function to (offset, its first bytes).

    room    offset of the free space that is used
    size    of the whole image
    """

    entries: dict[str, tuple[int, bytes]]
    room: int
    size: int

    def jump(self, name: str) -> bytes:
        """The bytes of the jump from a function to its replacement."""
        target = self.room + STAND_INS[name]
        return b"\xe9" + struct.pack("<i", target - self.entries[name][0] - JUMP_BYTES)


def offset_ns(skews: Sequence[Skew]) -> int:
    """Present offset of a clock with these skews from the true wall clock."""
    wall = time.clock_gettime_ns(time.CLOCK_REALTIME)
    return sum(skew.shift_ns(wall) for skew in skews)


class Unpatchable(Refused):
    """Reason why the clock of a process, or of any on this host, cannot be shifted."""


@cache
def image() -> VdsoImage:
    """This kernel's vDSO, read from our own memory. Errors: Unpatchable."""
    if os.uname().machine != "x86_64":
        raise Unpatchable(f"the clock patch is written for x86-64; this is {os.uname().machine}")
    with open("/proc/self/maps") as maps:
        spans = [line.split()[0] for line in maps if line.rstrip().endswith("[vdso]")]
    if not spans:
        raise Unpatchable("this kernel maps no vDSO; boot it without vdso=0")
    start, end = (int(edge, 16) for edge in spans[0].split("-"))
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        elf = os.pread(memory.fileno(), end - start, start)
    return parse(elf)


def parse(elf: bytes) -> VdsoImage:
    """Finds the functions and the free space behind them in an ELF image. Errors: Unpatchable."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise Unpatchable("the vDSO is not a 64-bit ELF image")
    headers, sections = struct.unpack_from("<QQ", elf, 32)
    size, count, section_size, section_count = struct.unpack_from("<HHHH", elf, 54)
    loaded, base, dynamic = 0, 0, {}
    for n in range(count):
        kind, _, offset, address, _, filled = struct.unpack_from("<IIQQQQ", elf, headers + n * size)
        if kind == 1:
            loaded, base = max(loaded, offset + filled), address - offset
        elif kind == 2:
            dynamic = dict(struct.iter_unpack("<QQ", elf[offset : offset + filled // 16 * 16]))
    names, symbols = dynamic[5] - base, dynamic[6] - base
    entries = {}
    for name_at, _, _, _, value, _ in struct.iter_unpack("<IBBHQQ", elf[symbols:names]):
        name = elf[names + name_at : elf.index(b"\0", names + name_at)].decode()
        if name in STAND_INS:
            entries[name] = (value - base, elf[value - base : value - base + JUMP_BYTES])
    if set(entries) != set(STAND_INS):
        raise Unpatchable(f"the vDSO lacks {', '.join(sorted(set(STAND_INS) - set(entries)))}")
    # Only debuggers read section headers, so their place is taken where nothing else is left.
    for free in (max(loaded, sections + section_size * section_count), loaded):
        room = (free + 15) // 16 * 16
        if len(elf) - room >= NEEDED_BYTES:
            return VdsoImage(entries=entries, room=room, size=len(elf))
    raise Unpatchable(f"the vDSO leaves {len(elf) - loaded} bytes; {NEEDED_BYTES} are needed")


def probe() -> str | None:
    """Why clocks cannot be shifted on this host, or None. Writes only to our own memory."""
    try:
        patch = Patch(_self())
        patch.write(image().room, patch.read(image().room, 1))
        patch.close()
    except (Unpatchable, OSError) as error:
        return f"{error}; this kernel may restrict forced writes to /proc/PID/mem"
    return None


class Patch:
    """The vDSO of one process, open for reading and writing. Errors: Unpatchable, OSError."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._base = _vdso_base(process.pid)
        self._fd = os.open(f"/proc/{process.pid}/mem", os.O_RDWR)

    def close(self) -> None:
        """Closes the memory file; the patch stays."""
        os.close(self._fd)

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the vDSO, from an offset into its image."""
        return os.pread(self._fd, size, self._base + offset)

    def write(self, offset: int, data: bytes) -> None:
        """Writes bytes into the process's copy of the vDSO."""
        if os.pwrite(self._fd, data, self._base + offset) != len(data):
            raise Unpatchable(f"process {self.process.pid}: partial write to its vDSO")

    def installed(self) -> bool:
        """Whether the functions are patched now. Errors: Unpatchable if modified otherwise."""
        entries = image().entries
        now = {name: self.read(offset, JUMP_BYTES) for name, (offset, _) in entries.items()}
        if all(now[name] == image().jump(name) for name in entries):
            return True
        if all(now[name] == original for name, (_, original) in entries.items()):
            return False
        raise Unpatchable(f"process {self.process.pid}: its vDSO was modified")

    def set(self, skews: Sequence[Skew]) -> None:
        """Shifts the clock by the sum of these; takes effect with one byte, without a pause."""
        if len(skews) > SKEWS_PER_BANK:
            raise Unpatchable(
                f"{len(skews)} clock faults at once; at most {SKEWS_PER_BANK} are supported"
            )
        room = image().room
        if not self.installed():
            self.write(room, CODE)
            self._use(skews)
            self._swap({name: image().jump(name) for name in STAND_INS})
        else:
            self._use(skews)

    def restore(self) -> None:
        """Restores the true wall clock and the kernel's own functions; they stay replaced if the
        monotonic clock is behind.

        The replacements stay, unreachable, because a thread may still be executing them.
        """
        if not self.installed():
            return
        self._use(())
        if not self.standstill_ns():
            self._swap({name: first for name, (_, first) in image().entries.items()})

    def install(self) -> None:
        """Replaces the functions, without a shift of its own. Errors: Unpatchable."""
        if not self.installed():
            self.set(())

    def standstill_ns(self) -> int:
        """By how much its monotonic clocks are behind, from the process's own memory."""
        if not self.installed():
            return 0
        (shift_ns,) = struct.unpack("<q", self.read(image().room + STANDSTILL, 8))
        return -int(shift_ns)

    def stand_still(self, by_ns: int) -> None:
        """Puts the monotonic clocks of a stopped process back by the time for which it was stopped.

        It must be stopped with the functions replaced, and outside of the kernel's own ones: see
        `in_clock_functions`. Then no thread reads an earlier time than before.
        """
        shift_ns = -(self.standstill_ns() + by_ns)
        self.write(image().room + STANDSTILL, struct.pack("<q", shift_ns))

    def call_instruction(self) -> int:
        """Address of an instruction `syscall` of the replacements."""
        return self._base + image().room + CODE.index(b"\x0f\x05")

    def scratch(self) -> tuple[int, int]:
        """Free bytes behind the replacements: offset and address. Errors: Unpatchable."""
        offset = (image().room + NEEDED_BYTES + 15) // 16 * 16
        if image().size - offset < SCRATCH_BYTES:
            raise Unpatchable(f"the vDSO leaves no {SCRATCH_BYTES} bytes behind the replacements")
        return offset, self._base + offset

    def read_at(self, address: int, size: int) -> bytes:
        """Bytes of the process's memory."""
        return os.pread(self._fd, size, address)

    def write_at(self, address: int, data: bytes) -> None:
        """Writes into the process's memory."""
        self.write(address - self._base, data)

    def in_clock_functions(self) -> bool:
        """Whether a thread of a stopped process is inside the kernel's part of its vDSO."""
        kernels = range(self._base, self._base + image().room)
        return any(counter in kernels for counter in _program_counters(self.process.pid))

    def skews(self) -> list[Skew]:
        """The skews in the process's own memory: none, or those that were set."""
        if not self.installed():
            return []
        room = image().room
        bank = self.read(room + GENERATION, 1)[0] % 2
        data = self.read(room + BANKS + bank * BANK_BYTES, BANK_BYTES)
        (count,) = struct.unpack_from("<q", data)
        rows = list(struct.iter_unpack("<qqqq", data[8:]))[:count]
        return [Skew(base_ns=b, step_ns=s, ppm=p, strobe_ns=h) for b, s, p, h in rows]

    def _use(self, skews: Sequence[Skew]) -> None:
        """Fills the inactive bank, then switches to it with the one byte that readers check."""
        room = image().room
        following = (self.read(room + GENERATION, 1)[0] + 1) % 256
        data = struct.pack("<q", len(skews)) + b"".join(
            struct.pack("<qqqq", s.base_ns, s.step_ns, s.ppm, s.strobe_ns) for s in skews
        )
        self.write(room + BANKS + following % 2 * BANK_BYTES, data)
        self.write(room + GENERATION, bytes([following]))

    def _swap(self, first_bytes: dict[str, bytes]) -> None:
        """Replaces the first bytes of the functions while no thread is inside them."""
        places = [(image().entries[name][0], data) for name, data in first_bytes.items()]
        busy = [
            range(self._base + offset + 1, self._base + offset + JUMP_BYTES) for offset, _ in places
        ]
        for _ in range(TRIES):
            with processes.held(self.process):
                counters = _program_counters(self.process.pid)
                if not any(counter in span for counter in counters for span in busy):
                    for offset, data in places:
                        self.write(offset, data)
                    return
        raise Unpatchable(f"process {self.process.pid} never left its clock functions")


def _self() -> Process:
    process = processes.find(os.getpid())
    assert process is not None
    return process


def _vdso_base(pid: int) -> int:
    with open(f"/proc/{pid}/auxv", "rb", buffering=0) as file:
        data = file.read(4096)
    base = dict(struct.iter_unpack("<QQ", data[: len(data) // 16 * 16])).get(AT_SYSINFO_EHDR, 0)
    if not base:
        raise Unpatchable(f"process {pid} has no 64-bit vDSO")
    return int(base)


def _program_counters(pid: int) -> list[int]:
    """Instruction pointers of the threads of a stopped process, from the kernel."""
    counters = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/syscall") as file:
            words = file.read().split()
        counters.append(int(words[-1], 16) if len(words) >= 3 else 0)
    return counters
