"""The questions: those of a reader first, then the course's in its order."""

from . import attention, memory, paper, parallel, peers, training
from .answer import Question

SWEEP = "build/paceline model --preset"
DDP = "mpirun -np 2 build/paceline ddp --preset course --bucket-mb 1,10,25,100,1000"

QUESTIONS = (
    Question("memory", "How much memory does a training step need?", "",
             f"{SWEEP} sizes", memory.needed),
    Question("where", "Where does a step's time go?", "", f"{SWEEP} sizes", training.where),
    Question("exchange", "Which exchange of gradients to use?",
             "naive_ddp_benchmarking, minimal_ddp_flat_benchmarking, "
             "ddp_overlap_individual_parameters_benchmarking", DDP, parallel.exchange),
    Question("peers", "How much faster is paceline than PyTorch?", "",
             "python3 bench/peers/train_step_ratios.py", peers.answer),
    Question("passes", "How long do forward and backward take?", "benchmarking_script (b)",
             f"{SWEEP} sizes", training.passes),
    Question("warmup", "What do warm-up steps change?", "benchmarking_script (c)",
             "jobs/workstation.sh warmup", training.from_cold),
    Question("kernels", "Which kernels take the time?", "nsys_profile (a) to (e)",
             f"{SWEEP} profile --profile 1", training.kernels),
    Question("accumulation", "How wrong do sums in low precision become?",
             "mixed_precision_accumulation", "build/paceline precision", training.accumulation),
    Question("precision", "What does mixed precision bring?",
             "benchmarking_mixed_precision (a) to (c)", f"{SWEEP} precision", training.precision),
    Question("profile", "What holds the memory at the peak?", "memory_profiling (a) to (e)",
             f"{SWEEP} memory", memory.profile),
    Question("attention", "What does plain attention cost?", "pytorch_attention",
             "build/paceline attention --preset pytorch-attention", attention.plain),
    Question("compile", "What does compiling bring?", "torch_compile (a), (b)",
             f"{SWEEP} compile", training.compiled),
    Question("flash", "How much faster is FlashAttention-2?", "flash_benchmarking",
             "build/paceline attention --preset flash-benchmark", attention.flash),
    Question("collectives", "How fast are collectives?", "distributed_communication_single_node",
             "mpirun --oversubscribe -np 6 build/paceline collectives --preset single-node --fit",
             parallel.collectives),
    Question("buckets", "Which bucket size is the best?", "ddp_bucketed_benchmarking (a), (b)",
             f"{DDP} --predict F.json", parallel.buckets),
    Question("accounting", "What does the largest planned model need?",
             "communication_accounting (a) to (d)",
             "build/paceline plan --preset xxl --json > plan.jsonl", paper.accounting),
    Question("sharding", "What does a sharded optimizer save?",
             "optimizer_state_sharding_accounting (a) to (c)",
             "mpirun -np 2 build/paceline zero --preset course", memory.sharding),
    Question("scaling", "How does a step scale over GPUs?", "", "bench/scaling.sh",
             parallel.scaling),
    Question("predictions", "How good are predicted steps?", "",
             "python3 -m analysis check-plan F.h5 --from FILES... --json > check.jsonl",
             paper.predictions),
)  # fmt: skip
