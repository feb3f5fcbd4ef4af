#!/usr/bin/env bash
# bench/reference.sh [--list] [--minutes=N] [NAME...]: measures the runs of results/reference again (all,
# or those named). Files are NAME-<gpu>.h5 in $PACELINE_RESULTS (default results/new). Runs that need more
# GPUs than this host has are skipped with a message. Started again, it resumes.
#   --list       print the commands; run nothing
#   --minutes=N  start no case beside PyTorch after N minutes (60); other runs have no limit
PACELINE_RESULTS=${PACELINE_RESULTS:-results/new}
# shellcheck source=bench/runs.sh
. "$(dirname "$0")/runs.sh"

run model-sizes 1 model --preset sizes
for size in small medium large xl 2.7b; do
  run model-warmup 1 model --preset warmup --size "$size"
done
run model-precision 1 model --preset precision
run model-memory 1 model --preset memory --memory-timeline no
run model-memory-timeline 1 model --preset memory --context 512 --precision fp32
run model-checkpointing 1 model --preset checkpointing
run model-compile 1 model --preset compile
run model-profile 1 model --size 2.7b --context 1024 --batch-size 16 --precision bf16 \
  --attention flash --exec eager,compiled --timing step --warmup 20 --steps 20 --profile 10
# The four contexts of nsys_profile; one step of each, so that the file stays below 2 MB.
run model-profile-sizes 1 model --preset profile --profile 1
# The model of the course's second write-up on compilation.
run model-compile-512 1 model --d-model 512 --d-ff 2048 --layers 6 --heads 8 --context 512 \
  --exec eager,compiled --timing step --mode forward,forward-backward,train-step
# With model-sizes and model-profile the files of one rank that plan's rates are fitted to.
run model-flash 1 model --size small,medium,large,xl,2.7b --context 512 --precision bf16 \
  --attention flash --exec eager,compiled --timing step --warmup 100 --steps 60
run model-batches 1 model --size small,medium,large,xl,2.7b --context 128 --batch-size 1,2
run attention-pytorch 1 attention --preset pytorch-attention --launch graph
run attention-flash-benchmark 1 attention --preset flash-benchmark --launch graph
run attention-leaderboard 1 attention --preset leaderboard
# A GPU of 16 GB, which runs out of memory in some cases.
run attention-pytorch-16gb 1 attention --preset pytorch-attention --launch graph \
  --memory-limit 16GB
run attention-flash-benchmark-16gb 1 attention --preset flash-benchmark --launch graph \
  --memory-limit 16GB
run precision-course 1 precision --preset course

# All-reduce of plain buffers, as the flat exchange of ddp uses it. NCCL has a rank per GPU, MPI any
# number.
NEEDS=2 run collectives-single-node 6 collectives --preset single-node --registration none --fit
run collectives-symmetric 2 collectives --backend nccl --op all_reduce,reduce_scatter,all_gather,broadcast \
  --bytes 100KB,1MB,10MB,100MB,400MB,2GB --in-place yes --registration symmetric,none \
  --cadence back-to-back --steps 8 --fit
run ddp-course 2 ddp --preset course --bucket-mb 1,10,25,100,1000
links=$results/collectives-symmetric-$gpu
if [ -z "$list" ] && [ -e "$links.h5" ]; then
  .venv/bin/python3 -m analysis rates "$links.h5" --output "$links.json"
fi
run ddp-predict 2 ddp --preset course --sync none,bucketed --bucket-mb 1,10,25,100,1000 \
  --predict "$links.json"
run ddp-context 2 ddp --preset context
run ddp-long 2 ddp --preset long
run ddp-profile 2 ddp --size xl --context 128 --global-batch 4 --sync naive,overlap,bucketed \
  --bucket-mb 100 --profile 1
# Without peer-to-peer copies NCCL goes through host memory, and the exchange takes longer than backward.
NCCL_P2P_DISABLE=1 run ddp-buckets-no-p2p 2 ddp --preset course --bucket-mb 1,10,25,100,1000
run zero-course 2 zero --preset course --bucket-mb 25,100
run zero-fsdp 2 zero --preset fsdp

# Beside PyTorch, in turns (bench/peers/NOTES.md has the variants and the minutes). Every variant once at
# context 512; those within 3% of the fastest there at every context.
sizes=(--size small medium large xl 2.7b --attention flash)
contexts=(--context 512 128 256 1024)
peers peers 1 train_step_ratios "${sizes[@]}" "${contexts[@]}" --precision bf16 \
  --variants master-weights
peers peers 1 train_step_ratios "${sizes[@]}" "${contexts[@]}" --precision fp32 --variants tuned
peers peers-variants 1 train_step_ratios "${sizes[@]}" --precision bf16 --turns 1 --exec eager compiled \
  --variants eager captured captured-compile reduce-overhead tuned tuned+in-backward master-weights \
  master-weights+cudnn master-weights+flash master-weights+fp32-residual master-weights+each-adamw \
  master-weights+in-backward
peers peers-variants 1 train_step_ratios "${sizes[@]}" --precision fp32 tf32 --turns 1 \
  --variants captured-compile tuned tuned+in-backward
# Autotuning takes five minutes a size.
peers peers-autotune 1 train_step_ratios "${sizes[@]}" --precision bf16 --turns 1 \
  --variants master-weights master-weights+autotune
peers peers-data-parallel 2 data_parallel_ratios --cases xl:bf16:512:4 2.7b:bf16:512:4 --attention flash
peers peers-data-parallel 2 data_parallel_ratios --cases xl:fp32:128:2 --attention naive
end
