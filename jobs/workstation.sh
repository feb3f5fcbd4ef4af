#!/usr/bin/env bash
# jobs/workstation.sh [--tiny] [--cpu] [JOB...]: runs the sweeps of all.sh (or these) one after the other
# with mpirun on this machine, into $PACELINE_RESULTS (results/workstation). Sweeps that need more GPUs
# than the machine has are skipped with a message. Called again, it continues where it stopped.
#   --cpu    ranks on CPU cores if there is no GPU
#   --tiny   each case takes a second, into results/tiny (implies --cpu)
set -euo pipefail
PACELINE_JOBS=$(cd "$(dirname "$0")" && pwd)
export PACELINE_JOBS
. "$PACELINE_JOBS/common.sh"
unset SLURM_JOB_ID # use mpirun, even within an allocation

gpus=0
if command -v nvidia-smi >/dev/null; then gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true); fi
slots=$gpus
folder=results/workstation
selected=()
for argument; do
  case $argument in
    --tiny) export PACELINE_TINY=1 && folder=results/tiny && [ "$gpus" -gt 0 ] || slots=$(nproc) ;;
    --cpu) [ "$gpus" -gt 0 ] || { slots=$(nproc) && export PACELINE_CPU=1; } ;;
    --help) sed -n '2,6s/^# \?//p' "$0" && exit 0 ;;
    -*) echo "workstation.sh: '$argument' is unknown; see --help" >&2 && exit 2 ;;
    *) selected+=("$argument") ;;
  esac
done
PACELINE_RESULTS=${PACELINE_RESULTS:-$folder}
export PACELINE_RESULTS=${PACELINE_RESULTS/#-/./-}
[ ${#selected[@]} -gt 0 ] || selected=(machine collectives sizes warmup profile precision compile
  memory checkpointing attention flash ddp ddp_context ddp_long zero fsdp scaling scaling_nodes)

failed=0
mkdir -p "$PACELINE_RESULTS"
# The running sweep keeps its finished cases; then this script ends, too.
child=''
trap '[ -z "$child" ] || kill -TERM "$child" 2>/dev/null' INT TERM
run_job() { # TASK -> the job's code
  local code=0
  PACELINE_JOB=$name PACELINE_TASKS=$wanted ${1:+env SLURM_ARRAY_TASK_ID=$1} bash "$file" &
  child=$!
  wait_for "$child" || code=$?
  child=''
  return "$code"
}

for name in "${selected[@]}"; do
  file=$PACELINE_JOBS/$name.sbatch
  [ -f "$file" ] || { echo "workstation.sh: there is no $file" >&2 && exit 2; }
  wanted=$(header "$file" ntasks-per-node)
  wanted=${wanted:-1}
  nodes=$(header "$file" nodes)
  if [ "$nodes" -gt 1 ]; then
    echo "$name: skipped: needs $nodes nodes" && continue
  fi
  if [ "$slots" = 0 ]; then
    echo "$name: skipped: needs $wanted GPUs, found none (--cpu: CPU ranks)" && continue
  fi
  if [ "$wanted" -gt "$slots" ]; then
    if ! runs_with_fewer_tasks "$file"; then
      echo "$name: skipped: needs $wanted ranks, this machine has $slots" && continue
    fi
    wanted=$slots
  fi
  array=$(header "$file" array) # 0-LAST, or empty
  last=${array#0-}
  for task in $(seq 0 "${last:-0}"); do
    code=0
    echo "$name${array:+ $((task + 1)) of $((last + 1))}"
    run_job "${array:+$task}" || code=$?
    [ "$code" != 6 ] || { echo "stopped; run it again to resume" && exit 6; }
    [ "$code" = 0 ] || failed=1
  done
done
"$PACELINE_JOBS/finish.sh" "$PACELINE_RESULTS" || failed=1
exit "$failed"
