#!/usr/bin/env bash
# Installs only what is missing: on Debian 12 and Ubuntu 24.04 with apt, Python packages into .venv.
# On other systems it prints what is needed. Quick and silent if nothing is missing.
#   deps.sh [all|build|lint|python]   what the build needs, the linters, the Python packages
#   deps.sh tests                     Slurm's daemons, ncdump, Chromium, pdftotext; tests that need them are skipped otherwise
#   deps.sh fuzz                      clang++ with libFuzzer
set -euo pipefail
cd "$(dirname "$0")/.."

build=(g++ make python3 pkg-config git libopenmpi-dev openmpi-bin libhdf5-dev hdf5-tools
  libopenblas-openmp-dev libcli11-dev libfmt-dev nlohmann-json3-dev libgtest-dev libbenchmark-dev
  libtomlplusplus-dev)
lint=(clang-format-16 clang-tidy-16 libomp-16-dev shellcheck)
tests=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge netcdf-bin
  chromium poppler-utils)
fuzz=(clang-16 libclang-rt-16-dev)
python=(python3 python3-venv)

say() { printf 'deps: %s\n' "$*" >&2; }

elsewhere() {
  cat >&2 <<'END'
deps: this script installs packages on Debian 12 and Ubuntu 24.04 only. Needed are
  what            packages (apt, dnf)                              environment modules, Spack
  compiler        g++, gcc-c++ (12 or newer), make, pkg-config     gcc
  MPI             libopenmpi-dev, openmpi-devel                    openmpi
  HDF5 (serial)   libhdf5-dev hdf5-tools, hdf5-devel               hdf5
  BLAS            libopenblas-openmp-dev, openblas-devel           openblas
  CLI11           libcli11-dev, cli11-devel                        cli11
  fmt             libfmt-dev, fmt-devel                            fmt
  nlohmann-json   nlohmann-json3-dev, json-devel                   nlohmann-json
  toml++          libtomlplusplus-dev, tomlplusplus-devel          tomlplusplus
  GoogleTest      libgtest-dev, gtest-devel                        googletest
  Benchmark       libbenchmark-dev, google-benchmark-devel         benchmark
  clang tools 16  clang-format-16 clang-tidy-16, clang-tools-extra llvm   (for make lint)
  shellcheck      shellcheck, ShellCheck                           (for make lint)
  Python 3.11     python3 python3-venv, python3                    python (for tables, figures)
and pkg-config must find them: tools/probe.sh says what it misses.
END
  exit 1
}

# missing PACKAGE...: prints the packages that are not installed.
missing() {
  local installed package
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "$package installed" <<<"$installed" || printf '%s\n' "$package"
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    sudo "$@"
  fi
}

# quietly COMMAND...: shows the command's output only if it fails.
quietly() {
  local log
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    say "failed: $*"
    exit 1
  fi
  rm -f "$log"
}

packages() {
  command -v apt-get >/dev/null || elsewhere
  local wanted
  mapfile -t wanted < <(missing "$@")
  [ ${#wanted[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    say "not root, and there is no sudo. As root: apt-get install ${wanted[*]}"
    exit 1
  fi
  say "apt-get update"
  quietly as_root apt-get update -qq
  say "apt-get install ${wanted[*]}"
  quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends -o DPkg::Lock::Timeout=300 "${wanted[@]}"
}

# The first Python that can create a virtual environment, preferably the system's.
python_with_venv() {
  local candidate
  for candidate in /usr/bin/python3 python3; do
    if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
}

python_packages() {
  local requirements=analysis/requirements.txt stamp=.venv/requirements.installed interpreter
  [ -f "$requirements" ] || return 0
  cmp -s "$requirements" "$stamp" && .venv/bin/python3 -c '' 2>/dev/null && return 0
  if ! .venv/bin/python3 -m pip --version >/dev/null 2>&1; then
    interpreter=$(python_with_venv)
    if [ -z "$interpreter" ]; then
      packages "${python[@]}"
      interpreter=$(python_with_venv)
    fi
    say "$interpreter -m venv .venv"
    quietly "$interpreter" -m venv --clear .venv
  fi
  say "pip install -r $requirements (into .venv)"
  quietly .venv/bin/python3 -m pip install -q --disable-pip-version-check -r "$requirements"
  # Used by tests to read traces. Its dependency JupyterLab is left out: only its notebooks need it.
  quietly .venv/bin/python3 -m pip install -q --disable-pip-version-check --no-deps \
    "HolisticTraceAnalysis>=0.5,<0.6"
  cp "$requirements" "$stamp"
}

# Other systems may provide everything by modules: the probe decides.
build_packages() {
  if command -v dpkg-query >/dev/null; then
    packages "${build[@]}"
  else
    tools/probe.sh >/dev/null 2>&1 || elsewhere
  fi
}

lint_packages() {
  if command -v dpkg-query >/dev/null; then
    packages "${lint[@]}"
  else
    command -v clang-format-16 >/dev/null || elsewhere
    command -v clang-tidy-16 >/dev/null || elsewhere
    command -v shellcheck >/dev/null || elsewhere
  fi
}

case "${1:-all}" in
  all)
    if command -v dpkg-query >/dev/null; then
      packages "${build[@]}" "${lint[@]}"  # with one call of apt
    else
      build_packages
      lint_packages
    fi
    python_packages
    ;;
  build) build_packages ;;
  lint) lint_packages ;;
  python) python_packages ;;
  tests) packages "${tests[@]}" ;;
  fuzz) packages "${fuzz[@]}" ;;
  *)
    say "'$1' is none of all, build, lint, python, tests, fuzz"
    exit 2
    ;;
esac
