#!/usr/bin/env bash
# jobs/workstation.sh [--tiny] [--cpu] [JOB...]: the sweeps of all.sh (or these) one after the other
# with mpirun on this machine, into $PACELINE_RESULTS (results/workstation); what the machine lacks
# is skipped and said. Called again, it goes on where it stopped.
#   --cpu    ranks on CPU cores where there is no GPU
#   --tiny   each case takes a second (and --cpu)
set -euo pipefail
PACELINE_JOBS=$(cd "$(dirname "$0")" && pwd)
PACELINE_RESULTS=${PACELINE_RESULTS:-results/workstation}
export PACELINE_JOBS PACELINE_RESULTS

gpus=0
if command -v nvidia-smi >/dev/null; then gpus=$(nvidia-smi -L 2>/dev/null | grep -c UUID || true); fi
slots=$gpus
selected=()
for argument; do
  case $argument in
    --tiny) export PACELINE_TINY=1 && [ "$gpus" -gt 0 ] || slots=$(nproc) ;;
    --cpu) [ "$gpus" -gt 0 ] || slots=$(nproc) ;;
    -*) sed -n '2,6s/^# \?//p' "$0" && exit 2 ;;
    *) selected+=("$argument") ;;
  esac
done
[ ${#selected[@]} -gt 0 ] || selected=(machine collectives sizes warmup precision memory attention
  flash ddp ddp_context ddp_long zero scaling scaling_nodes)

header() { sed -n "s/^#SBATCH.*--$1=\([^ ]*\).*/\1/p" "$file"; }

failed=0
mkdir -p "$PACELINE_RESULTS"
# Ctrl-C ends the sweep at hand, and with it this.
trap 'exit 6' INT TERM
for name in "${selected[@]}"; do
  file=$PACELINE_JOBS/$name.sbatch
  [ -f "$file" ] || { echo "workstation.sh: there is no $file" >&2 && exit 2; }
  wanted=$(header ntasks-per-node)
  if [ "$(header nodes)" -gt 1 ]; then
    echo "$name: skipped: needs $(header nodes) nodes" && continue
  fi
  if [ "$slots" = 0 ]; then
    echo "$name: skipped: needs $wanted GPUs, here are none (--cpu: CPU ranks)" && continue
  fi
  if [ "$wanted" -gt "$slots" ]; then
    if ! grep -q '^#PACELINE fewer tasks' "$file"; then
      echo "$name: skipped: needs $wanted ranks, here are $slots" && continue
    fi
    wanted=$slots
  fi
  array=$(header array) # 0-LAST, or empty
  last=${array#0-}
  for task in $(seq 0 "${last:-0}"); do
    code=0
    log=$PACELINE_RESULTS/$name${array:+-$task}.log
    echo "$name${array:+ $((task + 1)) of $((last + 1))}: log in $log"
    PACELINE_JOB=$name PACELINE_TASKS=$wanted ${array:+env SLURM_ARRAY_TASK_ID=$task} bash "$file" \
      >>"$log" 2>&1 || code=$?
    [ "$code" != 6 ] || exit 6
    [ "$code" = 0 ] || { failed=1 && echo "$name: ended with $code: $(tail -n 1 "$log")"; }
  done
done
"$PACELINE_JOBS/finish.sh" "$PACELINE_RESULTS" || failed=1
exit "$failed"
