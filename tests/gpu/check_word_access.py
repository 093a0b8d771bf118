#!/usr/bin/env python3
"""Whether the machine code of the megakernels in a binary reads and writes hop words as one access each.

ptxas may load a 16-byte word whose registers are not all used in parts (src/exec/cuda/signal.cuh); then the epoch of
one part says nothing about another one. Usage: check_word_access.py BINARY; needs cuobjdump. Exit status 1 names the
accesses that may tear.
"""
import re
import subprocess
import sys

# `ld.relaxed.gpu` and `st.relaxed.gpu` of hop words: nothing else in a megakernel has this strength.
ACCESS = re.compile(r"/\*([0-9a-f]+)\*/.*\b(LDG|STG)\.E\.((?:\d+\.)?)STRONG\.GPU\s+(.*?);")
OFFSET = re.compile(r"\+(0x[0-9a-f]+)\]")


def is_whole(width, operands):
    """All 16 bytes, or the last 8: the epoch and the payload before it."""
    if width == "128.":
        return True
    found = OFFSET.search(operands)
    offset = int(found.group(1), 16) if found else 0
    return width == "64." and offset % 16 == 8


def main():
    code = subprocess.run(["cuobjdump", "-sass", sys.argv[1]], capture_output=True, text=True, check=True).stdout
    function, kernels, seen, torn = "", 0, 0, []
    for line in code.splitlines():
        if "Function :" in line:
            function = line.split(":", 1)[1].strip()
            kernels += "megakernel" in function
        found = ACCESS.search(line)
        if not found or "megakernel" not in function:
            continue
        seen += 1
        if not is_whole(found.group(3), found.group(4)):
            torn.append(f"{function} +0x{found.group(1)}: {line.strip()}")
    print(f"{kernels} megakernels, {seen} accesses to hop words, {len(torn)} of them in parts")
    print("\n".join(torn))
    if kernels == 0 or seen == 0:
        sys.exit("no megakernel found: nothing was checked")
    sys.exit(1 if torn else 0)


if __name__ == "__main__":
    main()
