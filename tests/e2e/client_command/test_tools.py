"""Downloads, push configs, conformance and completion (spec: CLI-58, CLI-62, CLI-64 to CLI-66)."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.e2e.client_command.command_line import BINDINGS, CommandRunner
from tests.e2e.client_command.scripted_doors import ScriptedServer

registry = pytest.mark.registry


@pytest.mark.req("CLI-62", "CLI-25")
@registry("DOWNLOAD_001", "SEND_004")
def test_artifacts_are_saved_under_safe_names(a2ad: CommandRunner, server: ScriptedServer) -> None:
    task = a2ad.run("send", "parts", "-a", server.origin, "-o", "json").json["task"]["id"]
    line = ["task", "download", task, "-a", server.origin, "--dir", "out/here"]
    done = a2ad.run(*line)
    assert done.code == 0, done.err
    place = a2ad.home / "out/here"
    assert sorted(path.name for path in place.iterdir()) == ["plan.json", "plan.pdf", "plan.txt"]
    assert not (a2ad.home / "out/plan.pdf").exists()
    assert (place / "plan.pdf").read_bytes() == b"%PDF"
    assert json.loads((place / "plan.json").read_text()) == {"seats": 2}
    assert done.out == "File: out/here/plan.txt\nFile: out/here/plan.json\nFile: out/here/plan.pdf\n"
    assert "big.bin is linked" in done.err
    (place / "plan.txt").write_text("mine")
    again = a2ad.run(*line, "-o", "json")
    assert (again.code, "--force" in again.error["hint"]) == (1, True)
    assert (place / "plan.txt").read_text() == "mine", "nothing is replaced"
    (place / "plan.txt").unlink()
    (place / "plan.txt").symlink_to(a2ad.home / "victim")
    assert a2ad.run(*line, "--force", "-o", "json").json["id"] == task
    assert not (a2ad.home / "victim").exists()


@pytest.mark.req("CLI-62")
@registry("DOWNLOAD_001")
def test_names_of_files_stay_in_their_folder(a2ad: CommandRunner, server: ScriptedServer) -> None:
    task = a2ad.run("send", "names", "-a", server.origin, "-o", "json").json["task"]["id"]
    assert a2ad.run("task", "download", task, "-a", server.origin, "--dir", "a/b").code == 0
    found = {path.name for path in (a2ad.home / "a/b").iterdir()}
    long = {name for name in found if name.endswith(".pdf")}
    assert found - long == {"passwd", "x.bin", "a.txt", "_gpj.exe", "A-2.TXT", "a-3.txt"}
    assert [len(name.encode()) <= 150 for name in long] == [True]
    assert [path.name for path in (a2ad.home / "a").iterdir()] == ["b"]


@pytest.mark.req("CLI-66", "CLI-58")
@registry("PUSH_001", "VER_003")
def test_push_configs_are_made_shown_and_deleted(a2ad: CommandRunner, server: ScriptedServer) -> None:
    task = a2ad.run("send", "quick", "-a", server.origin, "-o", "json").json["task"]["id"]
    for binding in BINDINGS:
        line = ["-a", server.origin, "-o", "json", "--transport", binding]
        options = [
            "--url",
            "https://hook.invalid/",
            "--token",
            "t",
            "--auth-scheme",
            "Bearer",
            "--auth-credentials",
            "c",
        ]
        made = a2ad.run("task", "push-config", "create", task, *options, *line).json
        assert (made["taskId"], made["url"], made["token"]) == (task, "https://hook.invalid/", "t")
        assert made["authentication"] == {"scheme": "Bearer", "credentials": "c"}
        assert a2ad.run("task", "push-config", "get", task, made["id"], *line).json == made
        assert a2ad.run("task", "push-config", "list", task, *line).json["configs"] == [made]
        assert a2ad.run("task", "push-config", "delete", task, made["id"], *line).json == {}
        assert not server.agent.configs
    plain = server.card("/plain.json", capabilities={})
    server.agent.calls.clear()
    done = a2ad.run("task", "push-config", "list", task, "-a", plain, "-o", "json")
    assert (done.code, done.error["code"]) == (1, "PushNotificationNotSupportedError")
    assert (done.error["a2aCode"], server.agent.calls) == (None, []), "the card is asked first"


@pytest.mark.req("CLI-64")
@registry("CONFORM_001")
def test_conformance_tells_what_is_right_and_what_is_wrong(a2ad: CommandRunner, server: ScriptedServer) -> None:
    report = a2ad.run("conformance", "-a", server.origin, "-o", "json").json
    assert report["conforms"] is True
    assert {check["interface"].split()[0] for check in report["checks"] if check["interface"]} == set(BINDINGS)
    liar = server.card("/liar.json", "JSONRPC", capabilities={}, description="")
    done = a2ad.run("conformance", "-a", liar, "--read-only")
    assert done.code == 0
    assert "Fail: The agent card has every required member (description is missing)\n" in done.out
    assert "Fail: Push configs that the card does not offer are PushNotificationNotSupportedError" in done.out
    assert "Pass: GetTask of an unknown task is TaskNotFoundError" in done.out
    assert done.out.endswith("Conforms: no\n")
    kit = a2ad.home / "kit"
    kit.mkdir()
    (kit / "run_tck.py").write_text("import sys; print(sys.argv); sys.exit(3)")
    done = a2ad.run("conformance", "-a", server.origin, "--read-only", "--tck", "kit", PATH="/usr/bin:/bin")
    assert "Fail: The A2A TCK passes (exit code 3)\n" in done.out
    assert f"'--sut-host', '{server.origin}'" in done.err


@pytest.mark.req("CLI-65")
@registry("CLI_002")
def test_completion_scripts_are_of_their_shells(a2ad: CommandRunner) -> None:
    answers = a2ad.each([["completion", shell] for shell in ("bash", "zsh", "fish")])
    assert [done.code for done in answers] == [0, 0, 0]
    script = a2ad.home / "script"
    script.write_text(answers[0].out)
    assert subprocess.run(["/bin/bash", "-n", str(script)], check=False).returncode == 0
    assert "#compdef a2ad" in answers[1].out
    assert "complete" in answers[2].out
    completed = a2ad.run(_A2AD_COMPLETE="bash_complete", COMP_WORDS="a2ad task ca", COMP_CWORD="2")
    assert "cancel" in completed.out
