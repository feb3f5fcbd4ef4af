#!/usr/bin/env bash
# Runs paceline under Nsight Systems, between launcher and program: a report per rank, of the profiled
# steps and the one before them.
#   srun jobs/nsys.sh build/paceline ddp --sync naive,overlap --profile 3
#   mpirun -np 2 jobs/nsys.sh build/paceline ddp --sync naive,overlap --profile 3
# Reports: ${PACELINE_REPORTS:-.}/rank<rank>.nsys-rep; with several cases, numbered.
# PACELINE_NSYS: further options of nsys, such as --gpu-metrics-devices=all.
. "$(dirname "$0")/tool.sh"
check_tool nsys "$@"
# shellcheck disable=SC2086  # several options
exec nsys profile --trace=cuda,nvtx --cuda-graph-trace=node --sample=none --cpuctxsw=none \
  --capture-range=cudaProfilerApi --capture-range-end=repeat --kill=none \
  --force-overwrite=true --output="$reports/rank$rank" ${PACELINE_NSYS:-} "$@"
