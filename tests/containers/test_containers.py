"""The Dockerfile and the Kubernetes example: their contents, and their commands, run here without a container."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.support.pages import blocks_of
from tests.support.server import free_port
from trident import listStates

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "containers.md"
ROOT = Path(__file__).parents[2]
INSTRUCTIONS = {
    *("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "ONBUILD"),
    *("RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
}
TOKEN = "a-secret-of-16-characters"


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(found)


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile in order, each with its arguments on one line."""
    lines = [line for line in block("dockerfile").replace("\\\n", " ").splitlines() if line.strip()]
    parsed = [tuple(line.split(maxsplit=1)) for line in lines if not line.startswith("#")]
    assert all(len(each) == 2 and each[0] in INSTRUCTIONS for each in parsed), parsed
    return [(name, rest.strip()) for name, rest in parsed]


def argument(name: str) -> str:
    (found,) = [rest for each, rest in instructions() if each == name]
    return found


def command() -> list[str]:
    """Return the image's command. A list has no shell in between, which would keep SIGTERM for itself."""
    words: list[str] = json.loads(argument("CMD"))
    return words


def health_check() -> list[str]:
    words: list[str] = json.loads(argument("HEALTHCHECK").partition(" CMD ")[2])
    return words


# --- the Dockerfile -----------------------------------------------------------------------------------------------


def test_the_image_begins_with_a_base_and_ends_without_root() -> None:
    names = [name for name, _ in instructions()]
    assert names[0] == "FROM" and names.count("CMD") == names.count("HEALTHCHECK") == 1
    last_as_root = max(number for number, name in enumerate(names) if name in ("RUN", "COPY"))
    assert names.index("USER") > last_as_root and argument("USER").isdigit() and argument("USER") != "0"
    assert f"--uid {argument('USER')} " in " ".join(rest for name, rest in instructions() if name == "RUN")
    assert argument("STOPSIGNAL") == "SIGTERM"


def test_each_shell_command_of_the_image_is_one_that_a_shell_reads() -> None:
    for name, rest in instructions():
        if name == "RUN":
            subprocess.run(["bash", "-n", "-c", rest], check=True)
            assert shlex.split(rest)[0] in ("pip", "useradd")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple["subprocess.Popen[str]", int, Path]]:
    """The image's command as a process of this machine: another folder for /data, another port, the page's program."""
    folder, port = tmp_path_factory.mktemp("image"), free_port()
    (folder / "in").mkdir()
    (folder / "in" / "1.txt").write_text("the whale the sea\n")
    (program,) = blocks_of(PAGE)
    (folder / "counting.py").write_text(program.replace("/data", str(folder)))
    words = [word.replace("/data", str(folder)).replace("8090", str(port)) for word in command()]
    assert words[0] == "trident"
    roots = os.pathsep.join(str(ROOT / each) for each in ("", "state", "spouts"))
    with (folder / "said.txt").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=folder,
            env={**os.environ, "TRIDENT_TOKEN": TOKEN, "PYTHONPATH": roots},
            stdout=said,
            stderr=said,
            text=True,
        )
    try:
        yield process, port, folder
    finally:
        process.kill()
        process.wait(20)


def status(port: int, path: str, host: str = "", token: str = "") -> int:
    headers = {**({"Host": host} if host else {}), **({"Authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def check_health(port: int) -> int:
    words = [word.replace("8090", str(port)) for word in health_check()]
    assert words[0] == "python"
    return subprocess.run([sys.executable, *words[1:]], capture_output=True).returncode


def test_the_commands_start_answer_probes_and_end_by_sigterm(
    served: tuple["subprocess.Popen[str]", int, Path],
) -> None:
    process, port, folder = served
    deadline = time.monotonic() + 60
    probes = [probe["httpGet"]["path"] for name, probe in container().items() if name.endswith("Probe")]
    while status(port, "/readyz") != 200 or status(port, "/state/counts/whale", token=TOKEN) != 200:
        assert process.poll() is None and time.monotonic() < deadline, (folder / "said.txt").read_text()
        time.sleep(0.1)
    assert check_health(port) == 0
    assert {status(port, path, host="10.1.2.3:8090") for path in probes} == {200}, "a pod is asked under its address"
    assert status(port, "/state/counts/whale") == 401
    process.send_signal(signal.SIGTERM)
    assert process.wait(40) == 0, (folder / "said.txt").read_text()
    (state,) = listStates(folder / "checkpoint")
    assert state.heldByDriver is False
    assert check_health(port) != 0


# --- Kubernetes ---------------------------------------------------------------------------------------------------


def a(type: str, **more: Any) -> dict[str, Any]:
    return {"type": type, **more}


def record(required: str = "", **fields: Any) -> dict[str, Any]:
    """A schema of an object that has these fields and no others, as `kubectl apply --validate=strict` wants it."""
    return a("object", properties=fields, required=required.split(), additionalProperties=False)


TEXT, NUMBER, FLAG = a("string", minLength=1), a("integer", minimum=1), a("boolean")
NAME = a("string", pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
QUANTITY = a("string", pattern=r"^[0-9]+(\.[0-9]+)?(m|[kMGTPE]i?)?$")
LABELS = a("object", additionalProperties=TEXT, minProperties=1)
META = record("name", name=NAME)
AMOUNTS = a("object", additionalProperties=QUANTITY)
PORT = {"anyOf": [NAME, a("integer", minimum=1, maximum=65535)]}
PROBE = record(
    "httpGet",
    httpGet=record("path port", path=a("string", pattern="^/"), port=PORT),
    **dict.fromkeys(("periodSeconds", "failureThreshold", "timeoutSeconds"), NUMBER),
)
CONTAINER = record(
    "name image",
    name=NAME,
    image=TEXT,
    env=a(
        "array",
        items=record("name", name=TEXT, valueFrom=record(secretKeyRef=record("name key", name=NAME, key=TEXT))),
    ),
    ports=a("array", items=record("containerPort", name=NAME, containerPort=NUMBER)),
    startupProbe=PROBE,
    livenessProbe=PROBE,
    readinessProbe=PROBE,
    resources=record(requests=AMOUNTS, limits=AMOUNTS),
    securityContext=record(
        allowPrivilegeEscalation=FLAG,
        readOnlyRootFilesystem=FLAG,
        capabilities=record(drop=a("array", items=TEXT)),
    ),
    volumeMounts=a("array", items=record("name mountPath", name=NAME, mountPath=a("string", pattern="^/"))),
)
POD = record(
    "containers",
    terminationGracePeriodSeconds=NUMBER,
    securityContext=record(runAsNonRoot=FLAG, runAsUser=NUMBER, fsGroup=NUMBER),
    containers=a("array", items=CONTAINER, minItems=1),
    volumes=a(
        "array",
        items=record(
            "name", name=NAME, emptyDir=a("object"), persistentVolumeClaim=record("claimName", claimName=NAME)
        ),
    ),
)


def kind(version: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    header = {"apiVersion": {"const": version}, "kind": {"const": name}}
    return record("apiVersion kind metadata spec", **header, metadata=META, spec=spec)


KINDS = {
    "PersistentVolumeClaim": kind(
        "v1",
        "PersistentVolumeClaim",
        record(
            "accessModes resources",
            accessModes=a("array", items={"enum": ["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"]}),
            resources=record("requests", requests=AMOUNTS),
        ),
    ),
    "Deployment": kind(
        "apps/v1",
        "Deployment",
        record(
            "selector template",
            replicas=NUMBER,
            strategy=record("type", type={"enum": ["Recreate", "RollingUpdate"]}),
            selector=record("matchLabels", matchLabels=LABELS),
            template=record("metadata spec", metadata=record("labels", labels=LABELS), spec=POD),
        ),
    ),
    "Service": kind(
        "v1",
        "Service",
        record(
            "selector ports",
            selector=LABELS,
            ports=a("array", items=record("port", name=NAME, port=NUMBER, targetPort=PORT)),
        ),
    ),
}
"""The part of Kubernetes' own schemas that the example uses."""


def objects(text: str = "") -> dict[str, Any]:
    """Return the objects of the YAML by kind. Raises ValidationError if one has a field that it cannot have."""
    read = [each for each in yaml.safe_load_all(text or block("yaml")) if each is not None]
    for each in read:
        jsonschema.validate(each, KINDS[each["kind"]])
    return {each["kind"]: each for each in read}


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = objects()["Deployment"]["spec"]["template"]["spec"]
    return spec


def container() -> dict[str, Any]:
    (found,) = pod()["containers"]
    return dict(found)


def test_the_objects_are_valid_and_refer_to_each_other() -> None:
    found = objects()
    assert [*found] == ["PersistentVolumeClaim", "Deployment", "Service"]
    deployment, labels = found["Deployment"]["spec"], found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels == found["Service"]["spec"]["selector"]
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    asked = [probe["httpGet"]["port"] for name, probe in container().items() if name.endswith("Probe")]
    assert {*asked, *(port["targetPort"] for port in found["Service"]["spec"]["ports"])} == {*ports} == {"http"}
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    assert {mount["name"] for mount in container()["volumeMounts"]} == {*volumes}
    claim = volumes["data"]["persistentVolumeClaim"]["claimName"]
    assert claim == found["PersistentVolumeClaim"]["metadata"]["name"]
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (1, "Recreate"), "one driver at a time"


def test_the_pod_fits_the_image() -> None:
    assert str(pod()["securityContext"]["runAsUser"]) == argument("USER") and pod()["securityContext"]["runAsNonRoot"]
    assert str(container()["ports"][0]["containerPort"]) == argument("EXPOSE")
    assert argument("VOLUME") in [mount["mountPath"] for mount in container()["volumeMounts"]]
    (variable,) = [word.removeprefix("env:") for word in command() if word.startswith("env:")]
    assert [each["name"] for each in container()["env"]] == [variable]
    assert command()[command().index("--serve") + 1] == argument("EXPOSE")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("runAsUser", "runAsUsr"), ("storage: 10Gi", "storage: 10Gb"), ("type: Recreate", "type: Restart")],
)
def test_a_slip_in_the_yaml_is_found(right: str, wrong: str) -> None:
    assert right in block("yaml")
    with pytest.raises(jsonschema.ValidationError):
        objects(block("yaml").replace(right, wrong))
