#!/usr/bin/env bash
# Makes src/clawjob/v1 from proto/. With --check it only tells whether that would change anything.
# It wants grpcio-tools of the version below in PYTHON (python3 by default): its code loads on every
# protobuf from 6.31 on, later ones' would not.
set -euo pipefail
cd "$(dirname "$0")"

TOOLS=1.74.0
PYTHON="${PYTHON:-python3}"
proto=../../proto
out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT

have="$("$PYTHON" -c 'from importlib.metadata import version; print(version("grpcio-tools"))')"
if [ "$have" != "$TOOLS" ]; then
    echo "grpcio-tools is $have; install grpcio-tools==$TOOLS" >&2
    exit 1
fi
"$PYTHON" -m grpc_tools.protoc -I "$proto" --python_out="$out" --pyi_out="$out" \
    --grpc_python_out="$out" "$proto"/clawjob/v1/*.proto
printf '"""Messages and stubs of the contract, made by generate.sh from proto/."""\n' >"$out/clawjob/v1/__init__.py"

if [ "${1:-}" = "--check" ]; then
    diff -r -x __pycache__ "$out/clawjob/v1" src/clawjob/v1 || {
        echo "the stubs are not those of proto/: run clients/python/generate.sh" >&2
        exit 1
    }
else
    rm -rf src/clawjob/v1
    cp -r "$out/clawjob/v1" src/clawjob/v1
fi
