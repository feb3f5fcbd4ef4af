#!/usr/bin/env bash
# bench/scaling.sh [--list] [NAME...]: weak and strong scaling over the GPUs of this host, and their
# collectives (all, or the runs named). Files are NAME-<gpu>.h5 in $PACELINE_RESULTS (default
# results/scaling). Started again, it resumes; a host with another number of GPUs adds its own runs.
#   --list    print the commands for 8 GPUs; run nothing
PACELINE_RESULTS=${PACELINE_RESULTS:-results/scaling}
# shellcheck source=bench/runs.sh
. "$(dirname "$0")/runs.sh"

ranks=$gpus
[ -z "$list" ] || ranks=8
step=(--size 'xl,2.7b' --precision bf16 --context 512 --attention flash --exec 'eager,compiled')
run "weak-ddp-$ranks" "$ranks" ddp "${step[@]}" --batch-size 4 --sync none,bucketed \
  --bucket-mb 25,100 --comm-dtype fp32,bf16
run "weak-zero-$ranks" "$ranks" zero "${step[@]}" --batch-size 4 --shard zero1
run "strong-ddp-$ranks" "$ranks" ddp --size xl --context 128 --global-batch 8 \
  --sync none,bucketed --bucket-mb 25,100

if [ "$ranks" -gt 1 ]; then
  groups=2
  for n in 4 6 8; do
    [ "$n" -gt "$ranks" ] || groups+=",$n"
  done
  run "collectives-$ranks" "$ranks" collectives --backend nccl --ranks "$groups" \
    --op all_reduce,reduce_scatter,all_gather,broadcast,reduce,all_to_all,send_recv \
    --bytes '1KiB..1GiB*2' --in-place no,yes --cadence back-to-back,graph \
    --registration none,symmetric --fit
fi
end
