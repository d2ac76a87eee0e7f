"""Signals to a process that has TLS."""

import signal
from pathlib import Path

from tests.e2e.processes import serving
from tests.support.authority import Authority


def test_sighup_has_the_files_read_again(tmp_path: Path) -> None:
    own = str(Authority(tmp_path).issue("dns:localhost").path)
    with serving(cwd=tmp_path, A2A_TLS__CERT=own, A2A_TLS__KEY=own, A2A_STORE="memory:") as server:
        server.process.send_signal(signal.SIGHUP)
        assert server.process.stderr is not None
        assert any("tls.reloaded" in line for line in server.process.stderr)
        assert server.process.poll() is None
