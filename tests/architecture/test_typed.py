"""Who uses the packages gets types, and the guides are typed as strictly as the code (spec: AGNT-11)."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted(ROOT.glob("docs/*.md"))]


def module_of(page: Path) -> str:
    """All Python blocks of a page, each on the page's own lines; what is no Python is left empty."""
    lines, inside = [], False
    for line in page.read_text("utf-8").splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            lines.append("")
        else:
            lines.append(line if inside else "")
    return "\n".join(lines) + "\n"


@pytest.mark.req("AGNT-11")
def test_the_python_of_the_guides_passes_mypy_strict(tmp_path: Path) -> None:
    """A page is one module: its later blocks go on where the earlier ones ended."""
    names = {}
    for page in PAGES:
        if (source := module_of(page)).strip():
            name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
            (tmp_path / f"{name}.py").write_text(source, "utf-8")
            names[f"{name}.py"] = page.name
    assert {"README.md", "agents.md", "replay.md"} <= set(names.values())
    line = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [*line, "--cache-dir", str(ROOT / ".mypy_cache"), *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.req("AGNT-11")
@pytest.mark.parametrize("package", ["a2a_server", "a2a_gateway", "a2a_proto"])
def test_a_package_says_that_it_is_typed(package: str) -> None:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    assert (Path(spec.origin).parent / "py.typed").is_file()
