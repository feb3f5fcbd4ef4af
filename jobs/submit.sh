#!/usr/bin/env bash
# jobs/submit.sh JOB [sbatch options]: submits jobs/JOB.sbatch as this site wants it (site.env) and
# prints the job's number. Results and logs land in $PACELINE_RESULTS (results).
set -euo pipefail
PACELINE_JOBS=$(cd "$(dirname "$0")" && pwd)
export PACELINE_JOBS PACELINE_RESULTS=${PACELINE_RESULTS:-results}

file=$PACELINE_JOBS/${1:?which job? one of the .sbatch files of this folder}.sbatch
[ -f "$file" ] || { echo "submit.sh: there is no $file" >&2 && exit 2; }
# shellcheck source=/dev/null
[ ! -f "$PACELINE_JOBS/site.env" ] || . "$PACELINE_JOBS/site.env"

# What stands in the file, up to what a node of this site has.
options=()
if grep -q '^#SBATCH.*--gpus-per-node' "$file"; then
  gpus=$(sed -n 's/^#SBATCH.*--gpus-per-node=\([0-9]*\).*/\1/p' "$file")
  most=${PACELINE_GPUS_PER_NODE:-8}
  if [ "$gpus" -gt "$most" ]; then
    grep -q '^#PACELINE fewer tasks' "$file" ||
      { echo "submit.sh: $1 needs $gpus GPUs of a node, which has $most here" >&2 && exit 3; }
    gpus=$most
  fi
  options=(--ntasks-per-node="$gpus"
    --gpus-per-node="${PACELINE_GPU_TYPE:+$PACELINE_GPU_TYPE:}$gpus")
fi
log=%x-%j.log
if grep -q '^#SBATCH.*--array' "$file"; then log=%x-%A_%a.log; fi
mkdir -p "$PACELINE_RESULTS"
exec sbatch --parsable --export=ALL --output="$PACELINE_RESULTS/$log" "${options[@]}" "${@:2}" "$file"
