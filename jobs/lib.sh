# What the job files share. A job file sources this and calls measure() once for each result file,
# under sbatch or under workstation.sh. Variables: docs/slurm.md.
# shellcheck shell=bash
set -euo pipefail

jobs=${PACELINE_JOBS:?the folder of lib.sh}
results=${PACELINE_RESULTS:-results}
job=${PACELINE_JOB:-${SLURM_JOB_NAME:?neither under sbatch nor under workstation.sh}}
tasks=${PACELINE_TASKS:-${SLURM_NTASKS:-1}} # ranks that the job has
nodes=${SLURM_NNODES:-1}
most_restarts=${PACELINE_RESTARTS:-5}
row='' # of an array: what this task measures

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

# What the site wants done before a program runs: modules, variables. Such scripts often read
# variables that are not set.
site_setup() { :; }
set +eu
# shellcheck source=/dev/null
[ ! -f "$jobs/site.env" ] || . "$jobs/site.env"
site_setup
set -eu

# The program: the site's, the build folder's, or an installation's.
find_program() {
  local candidate
  for candidate in "$jobs/../build/paceline" "$jobs/../../../bin/paceline"; do
    [ ! -x "$candidate" ] || { echo "$candidate" && return; }
  done
  fail "no program: run make, or name it in PACELINE" 3
}
program=${PACELINE:-$(find_program)}

# Either signal ends the case on every rank and saves what is finished: launchers hand USR1 on. USR1
# is Slurm's warning that time is nearly up.
child=''  # the launcher that runs now
warned='' # by USR1
end_case() { [ -z "$child" ] || kill -USR1 "$child" 2>/dev/null || true; }
trap 'warned=yes; end_case' USR1
trap end_case TERM INT

# select_row VALUE...: the one whose place is this array task's number becomes $row.
select_row() {
  local task=${SLURM_ARRAY_TASK_ID:-}
  [ -n "$task" ] || fail "is an array: submit it with --array=0-$(($# - 1))"
  [ "$task" -lt $# ] || fail "task $task is past the end: there are rows 0 to $(($# - 1))"
  shift "$task"
  row=$1
}

# What status.sh reads: NAME.state, one line for each thing that happened.
note_state() { # NAME WHAT
  local id=${SLURM_ARRAY_JOB_ID:-${SLURM_JOB_ID:-none}}
  printf '%s %s job=%s task=%s restart=%s\n' "$(date -u +%FT%TZ)" "$2" "$id" \
    "${SLURM_ARRAY_TASK_ID:-none}" "${SLURM_RESTART_COUNT:-0}" >>"$results/$1.state"
}

launcher() { # NODES RANKS -> the words before the program
  if [ -n "${SLURM_JOB_ID:-}" ]; then
    echo "srun --mpi=pmix --nodes=$1 --ntasks=$2 ${PACELINE_SRUN_OPTIONS:-}"
  elif [ "$2" -gt 1 ]; then
    echo "mpirun -np $2 --oversubscribe ${PACELINE_MPIRUN_OPTIONS:-}"
  fi
}

# EXPERIMENT [options] -> the same a word a line, each case small enough to take a second anywhere.
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

# What became of a sweep. Out of time, Slurm starts the job again, a bounded number of times; --resume
# then goes on where it stopped. Any other exit code is the job's.
settle() { # NAME CODE
  local name=$1 code=$2
  if [ "$code" = 0 ]; then
    note_state "$name" finished
    return
  fi
  # 128 and more: the warning came before the program was ready for it.
  if [ -n "$warned" ] && [ -n "${SLURM_JOB_ID:-}" ] && { [ "$code" = 6 ] || [ "$code" -ge 128 ]; }; then
    if [ "${SLURM_RESTART_COUNT:-0}" -lt "$most_restarts" ]; then
      note_state "$name" requeued
      say "$name: out of time; starts again"
      scontrol requeue "$SLURM_JOB_ID"
      sleep 60 # until Slurm ends this script
      exit 6
    fi
    say "$name: out of time after $most_restarts restarts; give it more (--time)"
    code=6
  fi
  note_state "$name" "ended=$code"
  say "$name: ended with $code: $(grep -a '^paceline: ' "$results/$name.log" | tail -n 1)"
  return "$code"
}

# measure_on NODES RANKS NAME EXPERIMENT [options]: one sweep into $results/NAME.h5, its output into
# NAME.log. Finished cases of an earlier start are kept.
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
  set -m # a process group of its own: a terminal's Ctrl-C comes to this script alone
  "${launch[@]}" "$program" "${command[@]}" "${options[@]}" --output "$results/$name.h5" --resume \
    >>"$results/$name.log" 2>&1 &
  child=$!
  set +m
  code=0
  wait_for "$child" || code=$?
  child=''
  settle "$name" "$code"
}

# measure EXPERIMENT [options]: on all that the job has.
measure() { measure_on "$nodes" "$tasks" "$job${row:+-$row}" "$@"; }
