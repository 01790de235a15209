#!/usr/bin/env bash
# Makes clawjobpb/ from proto/. With --check it changes nothing and fails when clawjobpb/ is not what
# it would make.
#
# It needs Go and a protoc: the one in PROTOC, else that of the Python with grpcio-tools in
# CLAWJOB_TEST_PYTHON, else `protoc` of the system, else that of python3. The versions of the plugins
# are pinned below and by go.mod; that of protoc does not show in what is made.
set -euo pipefail
cd "$(dirname "$0")"

grpc_plugin=google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.1
has_protoc() { "$1" -c "import grpc_tools" >/dev/null 2>&1; }

if [ -n "${PROTOC:-}" ]; then
    protoc=("$PROTOC")
elif [ -n "${CLAWJOB_TEST_PYTHON:-}" ] && has_protoc "$CLAWJOB_TEST_PYTHON"; then
    protoc=("$CLAWJOB_TEST_PYTHON" -m grpc_tools.protoc)
elif command -v protoc >/dev/null 2>&1; then
    protoc=(protoc)
elif has_protoc python3; then
    protoc=(python3 -m grpc_tools.protoc)
else
    echo "no protoc: install protobuf-compiler, or grpcio-tools for python3" >&2
    exit 1
fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
go build -o "$work/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go
GOBIN="$work" GOFLAGS="${GOFLAGS:-} -mod=mod" go install "$grpc_plugin"

proto=../../proto
mkdir "$work/out"
PATH="$work:$PATH" "${protoc[@]}" -I "$proto" \
    --go_out="$work/out" --go_opt=module=clawjob.dev/go \
    --go-grpc_out="$work/out" --go-grpc_opt=module=clawjob.dev/go \
    "$proto"/clawjob/v1/*.proto
# The version of protoc says nothing about the result, but would make it differ.
sed -i -E '/^\/\/ (- )?[[:space:]]*protoc[[:space:]]+\(?v|^\/\/ - protoc  /d' "$work"/out/clawjobpb/*.go

cat >"$work/out/clawjobpb/doc.go" <<'DOC'
// Package clawjobpb is the contract clawjob.v1 as Go types: messages, clients and servers. All but
// this comment is made from proto/ by generate.sh.
package clawjobpb
DOC

if [ "${1:-}" = --check ]; then
    diff -ru clawjobpb "$work/out/clawjobpb" || {
        echo "clawjobpb is not what proto/ makes: run clients/go/generate.sh" >&2
        exit 1
    }
    exit 0
fi
rm -rf clawjobpb
mv "$work/out/clawjobpb" clawjobpb
