"""Print what calls run through: `make walk ARGS="rest-send"`."""

from __future__ import annotations

import argparse
import sys

from tests.walk.stage import KINDS, record


def main() -> None:
    parser = argparse.ArgumentParser(prog="make walk", description=__doc__)
    parser.add_argument("kinds", nargs="*", help=f"which calls: {', '.join(KINDS)}; none = all")
    parser.add_argument("--files", action="store_true", help="leave the functions out")
    chosen = parser.parse_args()
    if wrong := set(chosen.kinds) - set(KINDS):
        parser.error(f"there is no walk {', '.join(sorted(wrong))}; choose from {', '.join(KINDS)}")
    for kind in chosen.kinds or KINDS:
        walk = record(kind)
        lines = walk.files if chosen.files else walk.lines()
        sys.stdout.write("\n".join([f"{kind}:", "", *lines, "", f"{kind}: {walk.totals()}", "", ""]))


if __name__ == "__main__":
    main()
