#!/usr/bin/env bash
# jobs/all.sh [sbatch options]: submits every sweep of one node, and what needs their files behind
# them. The checked machine comes first; tables, verdict and archive last, whatever became of the
# others. jobs/submit.sh scaling_nodes is left to you: it needs several nodes.
set -euo pipefail
jobs=$(cd "$(dirname "$0")" && pwd)
PACELINE_RESULTS=${PACELINE_RESULTS:-results/all-$(date -u +%Y%m%dT%H%M%SZ)}
export PACELINE_RESULTS

submit() { # JOB [sbatch options]
  local id
  id=$("$jobs/submit.sh" "$@")
  id=${id%%;*} # federations add the cluster's name
  printf '%-14s %s\n' "$1" "$id" >&2
  echo "$id"
}

machine=$(submit machine "$@")
submitted=()
for job in collectives sizes warmup precision memory attention flash ddp ddp_context ddp_long zero \
  scaling; do
  submitted+=("$(submit "$job" --dependency="afterok:$machine" \
    --kill-on-invalid-dep=yes "$@")")
done
all=$(IFS=: && echo "${submitted[*]}")
submit analysis --dependency="afterany:$all" "$@" >/dev/null
echo "results: $PACELINE_RESULTS; how far they are: jobs/status.sh $PACELINE_RESULTS"
