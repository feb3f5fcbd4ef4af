#!/usr/bin/env bash
# bench/scaling.sh [--list] [NAME...]: weak and strong scaling over the GPUs of this host, and their
# collectives (all, or the runs named). Files are NAME-<gpu>.h5 in $PACELINE_RESULTS (default
# results/scaling). Started again, it resumes. Runs that need more GPUs than this host has are skipped.
#   --list    print the commands for 8 GPUs; run nothing
PACELINE_RESULTS=${PACELINE_RESULTS:-results/scaling}
# shellcheck source=bench/runs.sh
. "$(dirname "$0")/runs.sh"

[ -z "$list" ] || gpus=8
# Enough steps that the clock has settled: a hot GPU runs slower.
steps=(--warmup 30 --steps 20)
weak=(--size 'xl,2.7b' --precision bf16 --context 512 --attention flash --exec 'eager,compiled'
  --batch-size 4 "${steps[@]}")
strong=(--size xl --context 128 --global-batch 8 "${steps[@]}")
exchange=(--sync 'none,bucketed' --bucket-mb '25,100')

# One rank exchanges nothing.
run weak-ddp-1 1 ddp "${weak[@]}" --sync none
run strong-ddp-1 1 ddp "${strong[@]}" --sync none
for ranks in 8 4 2; do
  run "weak-ddp-$ranks" "$ranks" ddp "${weak[@]}" "${exchange[@]}" --comm-dtype fp32,bf16
  run "weak-zero-$ranks" "$ranks" zero "${weak[@]}" --shard zero1
  run "strong-ddp-$ranks" "$ranks" ddp "${strong[@]}" "${exchange[@]}"
done

for ranks in 8 6 4 2; do
  run "collectives-$ranks" "$ranks" collectives --backend nccl --ranks "$ranks" \
    --op all_reduce,reduce_scatter,all_gather,broadcast,reduce,all_to_all,send_recv \
    --bytes '1KiB..1GiB*4' --in-place no,yes --cadence back-to-back,graph \
    --registration none,symmetric --fit
done
end
