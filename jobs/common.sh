# What job files, submit.sh and workstation.sh share.
# shellcheck shell=bash

header() { # FILE OPTION -> the option's value in the file's #SBATCH lines; empty: it has none
  sed -n "s/^#SBATCH.*--$2=\([^ ]*\).*/\1/p" "$1"
}

runs_with_fewer_tasks() { # FILE
  grep -q '^#PACELINE fewer tasks' "$1"
}

# The exit code of a child, through signals: one ends wait, which then asks again.
wait_for() { # PID
  while { wait "$1" || true; } && kill -0 "$1" 2>/dev/null; do :; done
  wait "$1"
}
