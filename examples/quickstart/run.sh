#!/bin/sh
# Builds mcplan and takes the quickstart from its config to the block that an agent reads and a tool call.
set -eu
cd "$(dirname "$0")/../.."
cargo build
PATH="${CARGO_TARGET_DIR:-$PWD/target}/debug:$PATH"
cd examples/quickstart
for line in \
    'mcplan validate' \
    'mcplan lock --check' \
    'mcplan render' \
    'mcplan test' \
    'mcplan search "report a bug"' \
    'mcplan call mcp__bakery__get_issue "{\"number\": 3}"'
do
    printf '\n$ %s\n' "$line"
    eval "$line"
done
