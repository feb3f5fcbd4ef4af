#!/usr/bin/env bash
# jobs/status.sh [FOLDER]: of every sweep whose results land in the folder (results), whether it
# waits, runs, finished, stopped or failed, and how many of its cases are done. Ends with 1 where
# one failed or stopped for good, 0 otherwise.
set -euo pipefail
folder=${1:-results}
shopt -s nullglob

queue=''
if command -v squeue >/dev/null; then
  queue=$(squeue --noheader --array --me --format='%F %K %T' 2>/dev/null || true)
fi
# JOB TASK -> PENDING, RUNNING, ...; nothing where Slurm has no such job
in_queue() { awk -v job="$1" -v task="$2" '$1 == job && ($2 == task || task == "none") { print $3; exit }' <<<"$queue"; }

code=0
printf '%-24s %-12s %-10s %-8s %s\n' sweep state cases restarts since
for file in "$folder"/*.state; do
  name=$(basename "$file" .state)
  sweep=${name%%-*}
  read -r since what job task restart <<<"$(tail -n 1 "$file")"
  job=${job#job=} task=${task#task=} restart=${restart#restart=}
  slurm=$(in_queue "$job" "$task")
  case $what:$slurm in
    finished:*) state=finished ;;
    ended=6:*) state=stopped ;;
    ended=*) state="failed (${what#ended=})" ;;
    *:PENDING | *:REQUEUED) state=waits ;;
    *:RUNNING | *:CONFIGURING | *:COMPLETING) state=runs ;;
    *) [ "$job" = none ] && state=runs || state=lost ;; # killed, its node gone, or cancelled
  esac
  case $state in stopped | failed* | lost) code=1 ;; esac
  # The last "[3/15] case: ..." of the log.
  case $job:$task in
    none:none) log=$sweep.log ;;
    none:*) log=$sweep-$task.log ;;
    *:none) log=$sweep-$job.log ;;
    *) log=$sweep-${job}_$task.log ;;
  esac
  cases=$(grep -aho '^\[[0-9]*/[0-9]*\]' "$folder/$log" 2>/dev/null | tail -n 1 | tr -d '[]' || true)
  printf '%-24s %-12s %-10s %-8s %s\n' "$name" "$state" "${cases:--}" "$restart" "$since"
done
# What has not started yet has no state file.
awk '$3 == "PENDING" { n++ } END { if (n) print n " in the queue" }' <<<"$queue"
exit "$code"
