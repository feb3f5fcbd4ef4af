#!/usr/bin/env bash
# Reads the assembler's output (nvcc -Xptxas -v) and prints for each kernel its registers, static shared
# memory, stack frame and spills. Exits with 1 if a kernel uses local memory, if wgmma instructions are
# serialised, or if setmaxnreg is ignored.
#   check_kernels.sh LOG...
set -euo pipefail

[ $# -gt 0 ] || { echo "no kernels to check: there is no nvcc"; exit 0; }

cat "$@" | c++filt | awk '
  function number_before(what,   part) {
    return match($0, "[0-9]+ " what) ? substr($0, RSTART, RLENGTH) + 0 : 0
  }
  # C7508: setmaxnreg ignored; C7510 to C7517: wgmma serialised.
  /\(C75(08|1[0-7])\)/ { print; bad++ }
  /Compiling entry function/ {
    split($0, part, "\047")
    name = part[2]
    arch = part[4]
    gsub(/\(anonymous namespace\)::|paceline::/, "", name)
    sub(/^void /, "", name)
    sub(/\(.*/, "", name)
  }
  /bytes stack frame/ {
    stack = number_before("bytes stack frame")
    stores = number_before("bytes spill stores")
    loads = number_before("bytes spill loads")
  }
  /Used [0-9]+ registers/ {
    kernels++
    verdict = stack + stores + loads > 0 ? "SPILLS" : "ok"
    if (verdict != "ok") bad++
    registers = $0
    sub(/.*Used /, "", registers)
    sub(/ registers.*/, "", registers)
    printf "%-7s %-7s %3d registers, %5d B shared, %4d B stack, %4d/%4d B spilled  %s\n", verdict,
           arch, registers, number_before("bytes smem"), stack, stores, loads, name
  }
  END {
    if (kernels == 0) { print "the assembler named no kernel"; exit 1 }
    printf "%d kernels, %d faults\n", kernels, bad
    exit bad > 0
  }'
