#!/usr/bin/env bash
# Makes src/clawjob/v1 from proto/. With --check it only tells whether that would change anything.
# It wants the tools of dev-requirements.txt beside PYTHON (python3 by default): the code of that
# grpcio-tools loads on every protobuf from 6.31 on, later ones' would not.
set -euo pipefail
cd "$(dirname "$0")"

PYTHON="${PYTHON:-python3}"
proto=../../proto
out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT

for tool in grpcio-tools mypy-protobuf; do
    want="$(sed -n "s/^$tool==//p" dev-requirements.txt)"
    have="$("$PYTHON" -c "from importlib.metadata import version; print(version('$tool'))")" || have=none
    if [ "$have" != "$want" ]; then
        echo "$tool is $have, not $want: pip install -r dev-requirements.txt" >&2
        exit 1
    fi
done
scripts="$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("scripts"))')"
"$PYTHON" -m grpc_tools.protoc -I "$proto" --python_out="$out" --pyi_out="$out" \
    --grpc_python_out="$out" --plugin="protoc-gen-mypy_grpc=$scripts/protoc-gen-mypy_grpc" \
    --mypy_grpc_out=quiet:"$out" "$proto"/clawjob/v1/*.proto
echo '"""Messages and stubs of the contract, made by generate.sh from proto/."""' \
    >"$out/clawjob/v1/__init__.py"

if [ "${1:-}" = "--check" ]; then
    diff -r -x __pycache__ "$out/clawjob/v1" src/clawjob/v1 || {
        echo "the stubs are not those of proto/: run clients/python/generate.sh" >&2
        exit 1
    }
else
    rm -rf src/clawjob/v1
    cp -r "$out/clawjob/v1" src/clawjob/v1
fi
