"""The programs under test and the real MCP servers they are put in front of."""

import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target"))
MCPLAN = Path(os.environ.get("MCPLAN", TARGET / "debug/mcplan")).resolve()
SCOPE = HERE / "node_modules/@modelcontextprotocol"


def node(package: str, *arguments: str) -> dict:
    """A server from the npm registry, as `npm ci` installed it."""
    script = SCOPE / package / "dist/index.js"
    if not script.is_file():
        raise FileNotFoundError(f"{script}: run `npm ci` in {HERE}")
    interpreter = shutil.which("node")
    if interpreter is None:
        raise FileNotFoundError("node is not on PATH")
    return {"command": interpreter, "args": [str(script), *arguments]}


def everything() -> dict:
    """The reference server that uses every part of the protocol."""
    return node("server-everything", "stdio")


def memory() -> dict:
    """A knowledge graph; its file is named by MEMORY_FILE_PATH."""
    return node("server-memory")


def filesystem(root: Path) -> dict:
    """Files under one directory."""
    return node("server-filesystem", str(root))


def git(repository: Path) -> dict:
    """A server on the Python SDK, which speaks the revision without `initialize` too."""
    return {"command": sys.executable, "args": ["-m", "mcp_server_git", "--repository", str(repository)]}


def demo(*arguments: str) -> dict:
    """mcplan's own demo server, the way a config names it."""
    return {"command": "mcplan", "args": ["demo-server", *arguments]}
