#!/usr/bin/env bash
# jobs/finish.sh FOLDER: makes tables and figures of the result files in a folder, the verdict on their
# rates, and an archive of everything, FOLDER.tar.gz. Exits with the verdict's code.
set -euo pipefail
jobs=$(cd "$(dirname "$0")" && pwd)
folder=$(realpath -- "${1:?the folder of the result files}")
python=${PACELINE_PYTHON:-$jobs/../.venv/bin/python3}
[ -x "$python" ] || python=python3

files=("$folder"/*.h5)
[ -e "${files[0]}" ] || { echo "finish.sh: no result file in $folder" >&2 && exit 2; }

code=0
"$python" "$jobs/tables_and_figures.py" "$folder" || code=$?
PYTHONPATH="$jobs/..${PYTHONPATH:+:$PYTHONPATH}" "$python" -m analysis compare \
  --reference "$jobs/reference.toml" "${files[@]}" | tee "$folder/verdict.txt" || code=$?
"$jobs/status.sh" "$folder" >"$folder/status.txt" || true
env | grep -E '^(SLURM_JOB|SLURM_CLUSTER|SBATCH_|CUDA_|NCCL_|OMPI_|PACELINE)' | sort \
  >"$folder/environment.txt" || true
# 1: a file changed while it was read; a job may still write there
tar -czf "$folder.tar.gz" --force-local -C "$(dirname "$folder")" -- "$(basename "$folder")" || [ $? = 1 ]
echo "$folder.tar.gz"
exit "$code"
