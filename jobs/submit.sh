#!/usr/bin/env bash
# jobs/submit.sh JOB [sbatch options]: submits jobs/JOB.sbatch with this site's settings (site.env) and
# prints the job's number. Results and logs are written to $PACELINE_RESULTS (results).
set -euo pipefail
PACELINE_JOBS=$(cd "$(dirname "$0")" && pwd)
PACELINE_RESULTS=${PACELINE_RESULTS:-results}
export PACELINE_JOBS PACELINE_RESULTS=${PACELINE_RESULTS/#-/./-}

. "$PACELINE_JOBS/common.sh"

file=$PACELINE_JOBS/${1:?which job? one of the .sbatch files of this folder}.sbatch
[ -f "$file" ] || { echo "submit.sh: there is no $file" >&2 && exit 2; }
# shellcheck source=/dev/null
[ ! -f "$PACELINE_JOBS/site.env" ] || . "$PACELINE_JOBS/site.env"

# The number of GPUs in the file, limited to that of this site's nodes.
options=()
gpus=$(header "$file" gpus-per-node)
if [ -n "$gpus" ]; then
  most=${PACELINE_GPUS_PER_NODE:-8}
  if [ "$gpus" -gt "$most" ]; then
    runs_with_fewer_tasks "$file" ||
      { echo "submit.sh: $1 needs $gpus GPUs of a node, which has $most here" >&2 && exit 3; }
    gpus=$most
  fi
  options=(--ntasks-per-node="$gpus"
    --gpus-per-node="${PACELINE_GPU_TYPE:+$PACELINE_GPU_TYPE:}$gpus")
fi
log=%x-%j.log
[ -z "$(header "$file" array)" ] || log=%x-%A_%a.log
mkdir -p "$PACELINE_RESULTS"
exec sbatch --parsable --export=ALL --output="$PACELINE_RESULTS/$log" "${options[@]}" "${@:2}" "$file"
