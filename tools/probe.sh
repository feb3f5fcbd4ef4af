#!/usr/bin/env bash
# Prints config.mk, the libraries of this machine as make variables, and a line for each finding on stderr.
# Exits with 1 and a list if something that the build needs is missing.
set -u

missing=()
say() { printf '  %-10s %s\n' "$1" "$2" >&2; }
emit() { printf '%s := %s\n' "$1" "$2"; }

# pkg NAME VAR LABEL: the first pkg-config module in NAME ("a b") that exists.
pkg() {
  local module
  for module in $1; do
    if pkg-config --exists "$module" 2>/dev/null; then
      emit "$2_CFLAGS" "$(pkg-config --cflags "$module" | sed 's/-I/-isystem /g')"
      emit "$2_LIBS" "$(pkg-config --libs "$module")"
      say "$3" "$module $(pkg-config --modversion "$module")"
      return
    fi
  done
  say "$3" "not found"
  missing+=("$3")
}

echo "# Written by tools/probe.sh; 'make clean' removes it, the next make writes it anew."
echo "configuration:" >&2

if command -v "${CXX:-g++}" >/dev/null; then
  say compiler "$("${CXX:-g++}" --version | head -n 1)"
else
  say compiler "not found"
  missing+=("g++ 12 or newer")
fi

if command -v mpicc >/dev/null; then
  emit MPI_CFLAGS "-DOMPI_SKIP_MPICXX $(mpicc --showme:compile | sed 's/-I/-isystem /g; s/-pthread//')"
  emit MPI_LIBS "$(mpicc --showme:link)"
  say MPI "$(mpirun --version 2>/dev/null | head -n 1)"
else
  say MPI "not found"
  missing+=(MPI)
fi

pkg "hdf5-serial hdf5" HDF5 HDF5
pkg "openblas cblas blas" BLAS CBLAS
pkg "fmt" FMT fmt
pkg "CLI11" CLI11 CLI11
pkg "nlohmann_json" JSON nlohmann-json
pkg "gtest_main gtest" GTEST GoogleTest
pkg "benchmark" BENCHMARK "Google Benchmark"

# 3.0 or newer: earlier versions lack toml::key.
toml=$(pkg-config --cflags-only-I tomlplusplus 2>/dev/null | sed 's/-I/-isystem /g')
# shellcheck disable=SC2086
if printf '#define TOML_HEADER_ONLY 1\n#include <toml++/toml.h>\ntoml::key key;\n' |
  "${CXX:-g++}" -std=c++20 -x c++ $toml -fsyntax-only - 2>/dev/null; then
  emit TOML_CFLAGS "$toml"
  say toml++ "$(pkg-config --modversion tomlplusplus 2>/dev/null || echo found)"
else
  say toml++ "3.0 or newer not found"
  missing+=(toml++)
fi

case "$(uname -m)" in
  x86_64) emit CPU_FLAGS "-march=x86-64-v3" ;;
  *) emit CPU_FLAGS "" ;;
esac

NVCC=${NVCC:-$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)}
cuda=$(dirname "$(dirname "${NVCC:-/}")")
if [ -n "$NVCC" ] && [ -f "$cuda/include/cublasLt.h" ]; then
  # The architectures of the machine's GPUs; without GPUs, those of Ampere and Hopper.
  arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u |
    sed 's/\.//; s/^90$/90a/' | tr '\n' ' ')
  emit NVCC "$NVCC"
  emit CUDA_CFLAGS "-isystem $cuda/include"
  emit CUDA_LIBS "-L$cuda/lib64 -Wl,-rpath,$cuda/lib64 -lcudart_static -ldl -lrt"
  emit CUDA_ARCH_FOUND "${arch:-80 90a}"
  say nvcc "$("$NVCC" --version | grep -o 'release [0-9.]*'), for ${arch:-80 90a (no GPU here)}"

  # NCCL of the system, of NCCL_HOME, or beside CUDA.
  nccl_found=
  for place in "" "${NCCL_HOME:-}" "$cuda"; do
    flags=${place:+-isystem $place/include -L$place/lib -Wl,-rpath,$place/lib}
    # shellcheck disable=SC2086
    # 2.27 or newer: earlier versions lack windows.
    if printf '#include <nccl.h>\nint main() { return ncclCommWindowDeregister(0, 0); }\n' |
      "${CXX:-g++}" -x c++ -isystem "$cuda/include" - $flags -lnccl -o /dev/null 2>/dev/null; then
      emit NCCL_CFLAGS "${place:+-isystem $place/include}"
      emit NCCL_LIBS "${place:+-L$place/lib -Wl,-rpath,$place/lib} -lnccl"
      say NCCL "found${place:+ in $place}"
      nccl_found=yes
      break
    fi
  done
  [ -n "$nccl_found" ] || say NCCL "2.27 or newer not found (libnccl-dev, or NCCL_HOME): collectives in host memory alone"
else
  say nvcc "not found: the program is built without the CUDA device"
fi

if [ ${#missing[@]} -gt 0 ]; then
  printf 'missing: %s\nrun "make deps", which installs it on Debian 12 and Ubuntu 24.04\n' \
    "$(IFS=,; echo "${missing[*]}")" >&2
  exit 1
fi
