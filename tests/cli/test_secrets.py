"""Secrets on the command line: each option that may take one refuses it, and no new option is forgotten."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from trident.base.errors import TopologyError
from trident.cli.main import main
from trident.cli.secret_types import Secret, SecretUrl, Setting, StorageOptions
from trident.cluster.spark_confs import check_confs, read_confs

SECRET = "s3cr3t-Pa55word"
DOORS: dict[type[click.ParamType], str] = {
    Secret: SECRET,
    SecretUrl: f"redis://me:{SECRET}@127.0.0.1:1/0",
    Setting: f"log=redis://me:{SECRET}@127.0.0.1:1/0",
    StorageOptions: f"secret_access_key={SECRET}",
}
"""For each type of an option that may take a secret: a value that is one."""

PLAIN = {
    "--ca --cert --key --tls-cert --tls-key --tls-client-ca": "names of files",
    "--allowed-host --host --name --profile --prefix --log-prefix --checkpoint --files-location": "names and places",
    "--state --by --master --include": "names and places, too",
    "--low --high --begins": "keys of a range",
    "--as-of --program": "a txid, a time or a tag; the name of a module",
    "--to-checkpoint --to-log-prefix --to-files-location --own-output --anew --keep-position": "those of a fork",
}
"""The options that take any text, and what they take: no secret."""


def commands(
    command: click.Command = main, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from commands(each, (*path, name))
    else:
        yield path, command


def options() -> Iterator[tuple[tuple[str, ...], click.Option]]:
    for path, command in commands():
        for option in command.params:
            if isinstance(option, click.Option) and not option.is_flag:
                yield path, option


def test_each_option_takes_a_secret_by_its_place_or_none() -> None:
    plain = {name for names in PLAIN for name in names.split()}
    doors = tuple(DOORS)
    texts = {
        (path, option.opts[0]) for path, option in options() if isinstance(option.type, click.types.StringParamType)
    }
    assert {(path, name) for path, name in texts if name not in plain} == set()
    assert sum(isinstance(option.type, doors) for _, option in options()) >= 15


@pytest.mark.parametrize(("path", "option"), [(p, o) for p, o in options() if type(o.type) in DOORS])
def test_a_secret_is_refused_at_every_door(path: tuple[str, ...], option: click.Option) -> None:
    arguments = [
        argument.human_readable_name
        for argument in dict(commands())[path].params
        if isinstance(argument, click.Argument)
    ]
    words = ["no_module:topology" if "MODULE" in word else "x" for word in arguments]
    ran = CliRunner().invoke(main, [*path, f"{option.opts[0]}={DOORS[type(option.type)]}", *words])
    assert (ran.exit_code, SECRET in ran.output) == (2, False), ran.output
    assert "env:NAME" in ran.output


@pytest.mark.parametrize(
    ("conf", "value"),
    [
        ("spark.hadoop.fs.s3a.secret.key", SECRET),
        ("spark.ssl.keyPassword", SECRET),
        ("spark.driver.extraJavaOptions", f"-Dpassword={SECRET}"),
        ("spark.jars.repositories", f"https://me:{SECRET}@host/maven"),
    ],
)
def test_settings_of_spark_that_are_secrets_are_refused(conf: str, value: str) -> None:
    with pytest.raises(TopologyError, match=f"{conf}=env:NAME") as refused:
        check_confs({conf: value})
    assert SECRET not in str(refused.value)


def test_settings_of_spark_name_secrets_that_are_read_where_the_driver_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    confs = {
        "spark.hadoop.fs.s3a.secret.key": "env:S3_SECRET",
        "spark.eventLog.dir": "file:/tmp/events",
        "spark.kerberos.principal": "me@REALM",
        "spark.kubernetes.authenticate.driver.oauthTokenFile": "/var/run/token",
    }
    check_confs(confs)
    with pytest.raises(TopologyError, match="S3_SECRET is not set"):
        read_confs(confs)
    monkeypatch.setenv("S3_SECRET", SECRET)
    assert read_confs(confs) == confs | {"spark.hadoop.fs.s3a.secret.key": SECRET}
