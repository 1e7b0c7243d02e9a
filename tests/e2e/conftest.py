"""What every end-to-end test shares."""

import json
import os
import subprocess
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

import client
import programs


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def mcplan() -> str:
    """The binary under test."""
    assert programs.MCPLAN.is_file(), f"{programs.MCPLAN} is missing: run `cargo build`, or name another by MCPLAN"
    return str(programs.MCPLAN)


class Installation:
    """A directory with a config, and the commands that are run on it."""

    def __init__(self, binary: str, directory: Path) -> None:
        self.binary = binary
        self.directory = directory
        self.config = directory / "config.yml"
        runtime = directory / "runtime"
        runtime.mkdir(mode=0o700)
        self.env = {"XDG_RUNTIME_DIR": str(runtime)}

    def write(self, text: str) -> None:
        """Writes the config the way editors do: a new file, renamed over the old one."""
        beside = self.directory / ".config.yml.new"
        beside.write_text(text)
        beside.rename(self.config)

    def run(self) -> AbstractAsyncContextManager[client.Client]:
        """`mcplan run --stdio` with a client connected to it."""
        arguments = ["run", "--stdio", "-c", str(self.config)]
        return client.connect(self.binary, arguments, cwd=self.directory, env=self.env)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Any other command, to its end."""
        return subprocess.run(
            [self.binary, *arguments, "-c", str(self.config)],
            cwd=self.directory,
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=client.DEADLINE,
            check=False,
        )


@pytest.fixture
def installation(mcplan: str, tmp_path: Path) -> Installation:
    return Installation(mcplan, tmp_path)


@pytest.fixture
def config() -> Callable[..., str]:
    """Writes config text from data. JSON is YAML, so values need no care."""
    def text(servers: dict[str, dict], **mcp) -> str:
        entries = [{"name": name, "transport": "stdio", **server} for name, server in servers.items()]
        return json.dumps({"mcp_servers": entries, "mcp": mcp}, indent=2) + "\n"

    return text
