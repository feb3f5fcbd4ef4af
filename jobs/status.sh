#!/usr/bin/env bash
# jobs/status.sh [FOLDER]: the state of every sweep with results in the folder ($PACELINE_RESULTS, or
# results): pending, running, finished, stopped, failed or lost (killed, or its node failed), and how
# many of its cases are done. Exits with 1 if one stopped, failed or was lost.
set -euo pipefail
folder=${1:-${PACELINE_RESULTS:-results}}
folder=${folder/#-/./-}
[ -d "$folder" ] || { echo "status.sh: there is no folder $folder" >&2 && exit 2; }
shopt -s nullglob

slurm=yes
queue=$(squeue --noheader --array --me --format='%F %K %T' 2>/dev/null) || slurm=''
# JOB TASK -> PENDING, RUNNING, ...; empty if Slurm has no such job
in_queue() {
  awk -v job="$1" -v task="$2" '$1 == job && ($2 == task || task == "none") { print $3; exit }' \
    <<<"$queue"
}

code=0
printf '%-24s %-12s %-10s %-8s %s\n' sweep state cases restarts since
for file in "$folder"/*.state; do
  name=$(basename "$file" .state)
  read -r since what job task restart <<<"$(tail -n 1 "$file")"
  job=${job#job=} task=${task#task=} restart=${restart#restart=}
  case $what in
    finished) state=finished ;;
    ended=6) state=stopped ;;
    ended=*) state="failed (${what#ended=})" ;;
    *)
      state=$(in_queue "$job" "$task" | tr '[:upper:]' '[:lower:]')
      if [ "$job" = none ]; then
        state=running
      elif [ -z "$state" ]; then
        state=${slurm:+lost}
      fi
      ;;
  esac
  case $state in stopped | failed* | lost) code=1 ;; esac
  # The last "[3/15] case: ..." of the log.
  cases=$(grep -aho '^\[[0-9]*/[0-9]*\]' "$folder/$name.log" 2>/dev/null | tail -n 1 | tr -d '[]' || true)
  printf '%-24s %-12s %-10s %-8s %s\n' "$name" "${state:-unknown}" "${cases:--}" "$restart" "$since"
done
# Jobs that have not started have no state file.
awk '$3 == "PENDING" { n++ } END { if (n) print n " pending in the queue" }' <<<"$queue"
exit "$code"
