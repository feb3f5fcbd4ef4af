#!/usr/bin/env bash
# jobs/all.sh [sbatch options]: submits every sweep of one node, and the jobs that need their files as
# dependents. The check of the machine runs first; tables, verdict and archive run last, whether the
# other jobs succeed or fail. Not included: jobs/submit.sh scaling_nodes, which needs several nodes.
set -euo pipefail
jobs=$(cd "$(dirname "$0")" && pwd)
PACELINE_RESULTS=${PACELINE_RESULTS:-results/all-$(date -u +%Y%m%dT%H%M%SZ)}
export PACELINE_RESULTS

submit() { # JOB [sbatch options] -> the job's number
  local id
  id=$("$jobs/submit.sh" "$@") || return
  id=${id%%;*} # federations add the cluster's name
  printf '%-14s %s\n' "$1" "$id" >&2
  echo "$id"
}

failed=0
machine=$(submit machine "$@") || exit
submitted=()
for job in collectives sizes warmup profile precision compile memory checkpointing attention \
  flash ddp ddp_context ddp_long zero fsdp scaling; do
  if id=$(submit "$job" --dependency="afterok:$machine" --kill-on-invalid-dep=yes "$@"); then
    submitted+=("$id")
  else
    failed=1
  fi
done
[ ${#submitted[@]} -gt 0 ] || exit 1
all=$(IFS=: && echo "${submitted[*]}")
submit analysis --dependency="afterany:$all" "$@" >/dev/null || failed=1
printf 'results: %s; state: jobs/status.sh %q\n' "$PACELINE_RESULTS" "$PACELINE_RESULTS"
exit "$failed"
