#!/usr/bin/env bash
# Compiles the contract's messages and the executor into a directory, and prints the class path:
#
#     java -cp "$(clients/examples/java/build.sh /tmp/java-executor)" Executor
#
# It needs a JDK (17 or newer) and, from Debian: protobuf-compiler, protobuf-compiler-grpc-java-plugin,
# libprotobuf-dev, libgrpc-java, libprotobuf-java, libnetty-java, libguava-java, libperfmark-java and
# libgeronimo-annotation-1.3-spec-java. With --check it only says, by its exit code, whether all is there.
set -euo pipefail
cd "$(dirname "$0")"

libraries=(
    grpc-api grpc-context grpc-core grpc-netty grpc-protobuf grpc-protobuf-lite grpc-stub protobuf
    guava perfmark-api geronimo-annotation-1.3-spec netty-buffer netty-codec netty-codec-http
    netty-codec-http2 netty-codec-socks netty-common netty-handler netty-handler-proxy netty-resolver
    netty-transport netty-transport-native-unix-common
)

if [ "${1:-}" = --check ]; then
    version="$(javac --version 2>/dev/null | sed -nE 's/^javac ([0-9]+).*/\1/p')"
    [ "${version:-0}" -ge 17 ] && [ -f /usr/include/google/protobuf/timestamp.proto ] || exit 1
    command -v protoc >/dev/null && command -v grpc_java_plugin >/dev/null || exit 1
    for library in "${libraries[@]}"; do [ -f "/usr/share/java/$library.jar" ] || exit 1; done
    exit 0
fi

out="$1"
rm -rf "$out"
mkdir -p "$out/stubs" "$out/classes"
class_path="$(printf '/usr/share/java/%s.jar:' "${libraries[@]}")$out/classes"
protoc -I ../../../proto --java_out="$out/stubs" --grpc-java_out="$out/stubs" \
    --plugin=protoc-gen-grpc-java="$(command -v grpc_java_plugin)" \
    ../../../proto/clawjob/v1/{types,session}.proto
javac -nowarn -cp "$class_path" -d "$out/classes" "$out"/stubs/clawjob/v1/*.java Executor.java
echo "$class_path"
