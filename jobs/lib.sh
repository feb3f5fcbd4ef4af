# Functions for job files. A job file sources this and calls measure() for each launch, under
# sbatch or workstation.sh. Variables: docs/slurm.md.
# shellcheck shell=bash
set -euo pipefail

jobs=${PACELINE_JOBS:?the folder of lib.sh}
results=${PACELINE_RESULTS:-results}
results=${results/#-/./-} # no command may take it for an option
job=${PACELINE_JOB:-${SLURM_JOB_NAME:?neither under sbatch nor under workstation.sh}}
tasks=${PACELINE_TASKS:-${SLURM_NTASKS:-1}} # ranks that the job has
nodes=${SLURM_NNODES:-1}
max_restarts=${PACELINE_RESTARTS:-5}
row='' # in an array: the argument of this task

. "$jobs/common.sh"

say() { printf '%s %s\n' "$(date -u +%FT%TZ)" "$*" >&2; }

fail() { # MESSAGE [CODE]
  say "$job: $1"
  exit "${2:-2}"
}

# Open MPI refuses to start ranks for root unless told.
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# The site's set-up before a program runs: modules, variables. Such scripts often read unset variables.
site_setup() { :; }
set +eu
# shellcheck source=/dev/null
[ ! -f "$jobs/site.env" ] || . "$jobs/site.env"
site_setup
set -eu

# The program: that of the site, of the build folder or of an installation.
find_program() {
  local candidate
  for candidate in "$jobs/../build/paceline" "$jobs/../../../bin/paceline"; do
    [ ! -x "$candidate" ] || { echo "$candidate" && return; }
  done
  fail "no program: run make, or name it in PACELINE" 3
}
program=${PACELINE:-$(find_program)}

# Each of these signals ends the running case on every rank and keeps finished cases: launchers forward
# USR1. Slurm sends USR1 as a warning before the time limit.
child=''  # the running launcher
warned='' # whether USR1 has arrived
end_case() { [ -z "$child" ] || kill -USR1 "$child" 2>/dev/null || true; }
trap 'warned=yes; end_case' USR1
trap end_case TERM INT

# select_row VALUE...: sets $row to the value whose index is this array task's number.
select_row() {
  local task=${SLURM_ARRAY_TASK_ID:-}
  [ -n "$task" ] || fail "is an array: submit it with --array=0-$(($# - 1))"
  [ "$task" -lt $# ] || fail "task $task is past the end: there are rows 0 to $(($# - 1))"
  shift "$task"
  row=$1
}

# Appends an event to NAME.state, which status.sh reads.
note_state() { # NAME WHAT
  local id=${SLURM_ARRAY_JOB_ID:-${SLURM_JOB_ID:-none}}
  printf '%s %s job=%s task=%s restart=%s\n' "$(date -u +%FT%TZ)" "$2" "$id" \
    "${SLURM_ARRAY_TASK_ID:-none}" "${SLURM_RESTART_COUNT:-0}" >>"$results/$1.state"
}

launcher() { # NODES RANKS -> the launcher's command line
  if [ -n "${SLURM_JOB_ID:-}" ]; then
    echo "srun --mpi=pmix --nodes=$1 --ntasks=$2 ${PACELINE_SRUN_OPTIONS:-}"
  elif [ "$2" -gt 1 ]; then
    echo "mpirun -np $2 --oversubscribe ${PACELINE_MPIRUN_OPTIONS:-}"
  fi
}

# EXPERIMENT [options] -> the same, one word per line, with cases so small that each takes a second.
made_tiny() {
  local -A tiny=([--warmup]=1 [--steps]=2 [--until-ci]=0)
  case $1 in
    model) tiny+=([--size]=tiny [--context]=16 [--batch-size]=1 [--exec]=eager) ;;
    ddp | zero) tiny+=([--size]=tiny [--context]=16 [--batch-size]=2) ;;
    attention) tiny+=([--head-dim]=16 [--context]=32 [--batch-size]=1) ;;
    collectives) tiny+=([--bytes]='1KB,64KB') ;;
  esac
  local option
  while [ $# -gt 0 ]; do
    if [ -n "${tiny[$1]:-}" ]; then
      shift 2
    else
      printf '%s\n' "$1"
      shift
    fi
  done
  for option in "${!tiny[@]}"; do printf '%s\n' "$option" "${tiny[$option]}"; done
}

# Handles the end of a sweep. If it ran out of time, the job is requeued, at most $max_restarts times,
# and --resume continues it. Any other exit code becomes the job's.
settle() { # NAME CODE
  local name=$1 code=$2
  if [ "$code" = 0 ]; then
    note_state "$name" finished
    return
  fi
  # 128 and more: the warning signal arrived before the program had a handler for it.
  if [ -n "$warned" ] && [ -n "${SLURM_JOB_ID:-}" ] && { [ "$code" = 6 ] || [ "$code" -ge 128 ]; }; then
    if [ "${SLURM_RESTART_COUNT:-0}" -lt "$max_restarts" ]; then
      note_state "$name" requeued
      say "$name: out of time; starts again"
      scontrol requeue "$SLURM_JOB_ID"
      sleep 60 # until Slurm ends this script
      exit 6
    fi
    say "$name: out of time after $max_restarts restarts; give it more (--time)"
    code=6
  fi
  note_state "$name" "ended=$code"
  say "$name: ended with $code: $(grep -a '^paceline: ' "$results/$name.log" | tail -n 1)"
  return "$code"
}

# measure_on NODES RANKS NAME EXPERIMENT [options]: runs one sweep into $results/NAME.h5, with its output
# in NAME.log. Finished cases of an earlier start are kept.
measure_on() {
  local name=$3 launch command options code
  read -ra launch <<<"$(launcher "$1" "$2")"
  read -ra options <<<"${PACELINE_OPTIONS:-}"
  shift 3
  command=("$@")
  [ -z "${PACELINE_TINY:-}" ] || mapfile -t command < <(made_tiny "$@")
  [ -z "$warned" ] || settle "$name" 6
  mkdir -p "$results"
  note_state "$name" started
  set -m # a separate process group: Ctrl-C in a terminal reaches this script only
  "${launch[@]}" "$program" "${command[@]}" "${options[@]}" --output "$results/$name.h5" --resume \
    >>"$results/$name.log" 2>&1 &
  child=$!
  set +m
  code=0
  wait_for "$child" || code=$?
  child=''
  settle "$name" "$code"
}

# measure EXPERIMENT [options]: on all nodes and tasks of the job.
measure() { measure_on "$nodes" "$tasks" "$job${row:+-$row}" "$@"; }
