"""A minimal MCP server over stdin and stdout: one tool, `echo`. Python's standard library only."""

import json
import sys

REVISIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]

ECHO = {
    "name": "echo",
    "description": "Says what it is told.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "What to say."}},
        "required": ["text"],
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}


class Refused(Exception):
    """A request that gets an error: its JSON-RPC code and a message."""


def answer(method: str, params: dict) -> dict:
    """The result of a request."""
    if method == "initialize":
        wanted = params.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in REVISIONS else REVISIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "echo", "version": "1.0.0"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [ECHO]}
    if method == "tools/call":
        if params.get("name") != "echo":
            raise Refused(-32602, f"Unknown tool: {params.get('name')}")
        text = (params.get("arguments") or {}).get("text")
        if not isinstance(text, str):
            return {"content": [{"type": "text", "text": "echo: `text` must be a string"}], "isError": True}
        return {"content": [{"type": "text", "text": text}], "isError": False}
    raise Refused(-32601, f"Method not found: {method}")


def respond(line: str) -> dict | None:
    """The response to a line; none to a notification."""
    try:
        message = json.loads(line)
    except ValueError as error:
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": f"this is not JSON: {error}"}}
    if not isinstance(message, dict) or "method" not in message:
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "this is not a request"}}
    if "id" not in message:
        return None
    try:
        return {"jsonrpc": "2.0", "id": message["id"], "result": answer(message["method"], message.get("params") or {})}
    except Refused as refused:
        code, text = refused.args
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}}


def main() -> None:
    sys.stdin.reconfigure(encoding="utf-8")
    sys.stdout.reconfigure(encoding="utf-8")
    for line in sys.stdin:
        if line.strip() and (response := respond(line)) is not None:
            print(json.dumps(response, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
