# Sourced by reference.sh and scaling.sh: run() measures one named run into a file of its own.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=${PACELINE:-build/paceline}
python=${PYTHON:-python3}
results=${PACELINE_RESULTS:?the folder of the result files}
list=''
minutes=60
selected=()
while [ $# -gt 0 ]; do
  case $1 in
    --list) list=yes ;;
    --minutes) minutes=${2:?minutes} && shift ;;
    --minutes=*) minutes=${1#*=} ;;
    --help) sed -n '2,/^[^#]/s/^# \?//p' "$0" && exit 0 ;;
    -*) echo "${0##*/}: '$1' is unknown; see --help" >&2 && exit 2 ;;
    *) selected+=("$1") ;;
  esac
  shift
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
  local name=$1 ranks=$2 launch=()
  shift 2
  [ "$ranks" = 1 ] || launch=(mpirun --oversubscribe -np "$ranks")
  local ending=(--resume)
  measure "$name" "${NEEDS:-$ranks}" "${launch[@]}" "$program" "$@"
}

# peers NAME GPUS SCRIPT [options]: a script of bench/peers/, which keeps the cases of NAME-<gpu>.h5. It
# starts no case after the minutes of this call.
peers() {
  local name=$1 needs=$2 script=$3
  shift 3
  local ending=(--paceline "$program" --minutes $((minutes - SECONDS / 60)))
  if [ -z "$list" ] && is_selected "$name" && ! "$python" -c 'import torch' 2>/dev/null; then
    known+="$name "
    echo "$name: skipped: $python has no PyTorch"
    return
  fi
  measure "$name" "$needs" "$python" "bench/peers/$script.py" "$@"
}

is_selected() {
  [ ${#selected[@]} = 0 ] || [[ " ${selected[*]} " == *" $1 "* ]]
}

measure() { # NAME GPUS COMMAND...
  local name=$1 needs=$2 code=0
  shift 2
  known+="$name "
  is_selected "$name" || return 0
  if [ -n "$list" ]; then
    echo "$name: ${NCCL_P2P_DISABLE:+NCCL_P2P_DISABLE=$NCCL_P2P_DISABLE }$*"
    return
  fi
  if [ "$needs" -gt "$gpus" ]; then
    echo "$name: skipped: needs $needs GPUs, this host has $gpus"
    return
  fi
  echo "$name"
  "$@" --output "$results/$name-$gpu.h5" "${ending[@]}" >"$results/$name.log" 2>&1 || code=$?
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
