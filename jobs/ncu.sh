#!/usr/bin/env bash
# Runs paceline under Nsight Compute: every kernel of the profiled steps and of the one before them. To
# keep their number small, use one step, a small size, or a filter:
#   PACELINE_NCU='--kernel-name regex:softmax' jobs/ncu.sh build/paceline model --profile 1
# Only one rank can be profiled: Nsight Compute replays kernels, and a replayed collective would wait for the
# other ranks.
# Report: ${PACELINE_REPORTS:-.}/rank0.ncu-rep. PACELINE_NCU: further options of ncu.
. "$(dirname "$0")/tool.sh"
if [ "$ranks" != 1 ]; then
  echo "ncu.sh: ncu replays kernels, which collectives of several ranks cannot do; start one rank" >&2
  exit 2
fi
check_tool ncu "$@"
# shellcheck disable=SC2086  # several options
exec ncu --profile-from-start off --nvtx --force-overwrite --export "$reports/rank$rank" \
  ${PACELINE_NCU:-} "$@"
