#!/bin/sh
# Builds the SIMD module from the C sources with clang and lld:
#   build.sh          the committed module, and records the compiler's version
#   build.sh FILE     the same module elsewhere, to compare
set -eu
cd "$(dirname "$0")"
out=${1:-../../web/static/simd.wasm}
clang=${CLANG:-clang}
raw=$(mktemp)
trap 'rm -f "$raw"' EXIT
"$clang" --target=wasm32 -O3 -msimd128 -std=c11 -Wall -Wextra -Werror -ffreestanding -fno-builtin -nostdlib \
	-ffp-contract=off -Wl,--no-entry -Wl,--import-memory -Wl,--strip-all -Wl,-z,stack-size=0 \
	-o "$raw" src/integer.c src/float.c src/attention.c src/scoring.c
go run ./trim "$raw" "$out"
[ $# -gt 0 ] || "$clang" --version | head -n 1 >clang.version
