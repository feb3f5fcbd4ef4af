# Sourced by reference.sh and scaling.sh: run() measures one named run into a file of its own.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=${PACELINE:-build/paceline}
results=${PACELINE_RESULTS:?the folder of the result files}
list=''
selected=()
for argument; do
  case $argument in
    --list) list=yes ;;
    --help) sed -n '2,/^[^#]/s/^# \?//p' "$0" && exit 0 ;;
    -*) echo "${0##*/}: '$argument' is unknown; see --help" >&2 && exit 2 ;;
    *) selected+=("$argument") ;;
  esac
done

[ -n "$list" ] || mkdir -p "$results"
if [ "$(id -u)" = 0 ]; then # Open MPI refuses to run as root without these
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

gpus=0
gpu=cpu
if command -v nvidia-smi >/dev/null; then
  gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
  # "NVIDIA H200" -> h200
  gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader -i 0 | awk '{print tolower($2)}')
fi

stopped() {
  echo "stopped; start this script again to resume"
  exit 6
}
trap stopped INT TERM HUP # mpirun ends with 1 after Ctrl-C

failed=0
known=' '
# [NEEDS=GPUS] run NAME RANKS EXPERIMENT [options]: one rank per GPU, unless NEEDS says how many GPUs;
# writes NAME-<gpu>.h5 with --resume, which keeps finished cases.
run() {
  local name=$1 ranks=$2 launch=() code=0
  local file=$results/$name-$gpu.h5
  shift 2
  known+="$name "
  if [ ${#selected[@]} -gt 0 ] && [[ " ${selected[*]} " != *" $name "* ]]; then return; fi
  [ "$ranks" = 1 ] || launch=(mpirun --oversubscribe -np "$ranks")
  if [ -n "$list" ]; then
    echo "$name: ${NCCL_P2P_DISABLE:+NCCL_P2P_DISABLE=$NCCL_P2P_DISABLE }${launch[*]} $program $*"
    return
  fi
  if [ "${NEEDS:-$ranks}" -gt "$gpus" ]; then
    echo "$name: skipped: needs ${NEEDS:-$ranks} GPUs, this host has $gpus"
    return
  fi
  echo "$name"
  "${launch[@]}" "$program" "$@" --output "$file" --resume >"$results/$name.log" 2>&1 || code=$?
  case $code in
    0) ;;
    6 | 130 | 143) stopped ;;
    *) echo "$name: ended with $code: $(tail -n 1 "$results/$name.log")" >&2 && failed=1 ;;
  esac
}

end() { # call after the last run: rejects unknown names, exits with 1 if a run failed
  local name
  for name in "${selected[@]}"; do
    [[ $known == *" $name "* ]] || { echo "${0##*/}: there is no run '$name':$known" >&2 && exit 2; }
  done
  exit "$failed"
}
