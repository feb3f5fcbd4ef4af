# Functions for job files, submit.sh and workstation.sh.
# shellcheck shell=bash

header() { # FILE OPTION -> the option's value in the file's #SBATCH lines; empty if it is not there
  sed -n "s/^#SBATCH.*--$2=\([^ ]*\).*/\1/p" "$1"
}

runs_with_fewer_tasks() { # FILE
  grep -q '^#PACELINE fewer tasks' "$1"
}

# Waits for a child and returns its exit code. A signal ends `wait`, which is then called again.
wait_for() { # PID
  while { wait "$1" || true; } && kill -0 "$1" 2>/dev/null; do :; done
  wait "$1"
}
