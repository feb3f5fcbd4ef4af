# Sourced by nsys.sh and ncu.sh: this process's rank, and a check that the tool can be used.
# shellcheck shell=bash
set -euo pipefail
# shellcheck disable=SC2034  # for the scripts that source this one
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}
# shellcheck disable=SC2034
ranks=${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-${SLURM_STEP_NUM_TASKS:-1}}}
reports=${PACELINE_REPORTS:-.}
reports=${reports/#-/./-}

check_tool() { # TOOL PROGRAM ARGUMENT...
  local tool=$1
  shift
  case " $* " in
    *" --profile "* | *" --profile="* | *" --preset profile "* | *" --preset=profile "*) ;;
    *) echo "$tool.sh: give paceline --profile STEPS: those are what is captured" >&2 && exit 2 ;;
  esac
  if ! command -v "$tool" >/dev/null; then
    echo "$tool.sh: there is no $tool here; --profile alone needs none" >&2
    exit 3
  fi
  mkdir -p "$reports"
}
