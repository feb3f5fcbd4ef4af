# paceline: make, make demo, test, test-long, soak, check-kernels, bench, bench-peers, lint, format, asan, tsan, fuzz,
# deps, dist, install, clean.

BUILD := build
CXX ?= g++
CXXSTD := -std=c++20
OPT ?= -O3 -g1
# A switch that lacks an enumerator is an error: no switch over an enum of ours has a default.
WARN := -Wall -Wextra -Werror=switch -Wshadow -Wnon-virtual-dtor -Wno-psabi -Wno-restrict -Wno-stringop-overflow -Wno-missing-field-initializers

PYTHON := .venv/bin/python3
# A stamp of the last installation, since PYTHON itself is a link to the system's.
PACKAGES := .venv/requirements.installed
# Open MPI refuses to start ranks for root unless told; CI and containers are root.
ifeq ($(shell id -u),0)
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
endif

.PHONY: all test unit-test python-test test-long soak asan tsan fuzz bench bench-peers check-kernels lint lint-deps lint-format lint-python \
  lint-shell format demo deps dist install clean FORCE
# All cores unless -jN is given (make before 4.4 does not show -jN here, but obeys it). A sub-make shares
# its parent's jobs.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif
# "make clean all" cleans first.
ifneq ($(filter clean,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif
# make V=1 shows whole commands.
Q := $(if $(V),,@)
say = @printf '  %-5s %s\n' $(1) $(2)

.DELETE_ON_ERROR:
.SUFFIXES:

all: $(BUILD)/paceline

# ---- what this machine has ------------------------------------------------------------------
# Targets that build read the probed configuration; the others must work without it.
ifneq ($(filter-out deps clean format,$(or $(MAKECMDGOALS),all)),)
-include $(BUILD)/config.mk
endif

# Installs only if the probe finds something missing; optional packages may stay missing.
$(BUILD)/config.mk: tools/probe.sh tools/deps.sh
	@mkdir -p $(BUILD)
	@probe() { tools/probe.sh > $@ 2> $(BUILD)/probe.log; }; probe || { tools/deps.sh build; probe; } || \
	  { cat $(BUILD)/probe.log; exit 1; }
	@cat $(BUILD)/probe.log

# ---- sources --------------------------------------------------------------------------------
LIB_SOURCES := $(filter-out src/main.cpp,$(wildcard src/*.cpp src/*/*.cpp src/experiments/*/*.cpp)) \
  $(filter-out mpi/nccl_communicator.cpp,$(wildcard mpi/*.cpp))
LIB_SOURCES += $(if $(NCCL_LIBS),mpi/nccl_communicator.cpp,mpi/stub/no_nccl.cpp)
# Without nvcc one stub stands in for the CUDA device.
CUDA_FOLDERS := cuda $(addprefix cuda/,runtime gemm kernels fused hopper attention attention/ampere attention/exact attention/hopper)
ifneq ($(and $(NVCC),$(wildcard cuda/kernels/*.cu)),)
LIB_SOURCES += $(wildcard $(CUDA_FOLDERS:%=%/*.cpp))
# The toolkit has CUPTI in a folder of its own, or beside CUDA's other headers.
CUDA_HOME := $(NVCC:%/bin/nvcc=%)
CUPTI_HOME := $(CUDA_HOME)/extras/CUPTI
CUPTI_FOUND := $(wildcard $(CUPTI_HOME)/include/cupti.h $(CUDA_HOME)/include/cupti.h)
CUPTI_CFLAGS := $(CUDA_CFLAGS) -isystem $(CUPTI_HOME)/include
CUPTI_LIBS := -L$(CUPTI_HOME)/lib64 -Wl,-rpath,$(CUPTI_HOME)/lib64 -lcupti
LIB_SOURCES += $(if $(CUPTI_FOUND),$(wildcard cuda/cupti/*.cpp),cuda/stub/no_cupti.cpp)
CUDA_SOURCES := $(wildcard $(CUDA_FOLDERS:%=%/*.cu))
UNIT_SOURCES := $(wildcard tests/unit/*.cpp tests/gpu/*.cpp)
UNIT_CUDA_SOURCES := $(wildcard tests/gpu/*.cu)
BENCH_SOURCES := $(wildcard bench/kernels/*.cpp)
BENCH_CUDA_SOURCES := $(wildcard bench/kernels/*.cu)
else
LIB_SOURCES += cuda/stub/no_cuda.cpp
UNIT_SOURCES := $(wildcard tests/unit/*.cpp)
BENCH_SOURCES := $(filter-out bench/kernels/hopper_%,$(wildcard bench/kernels/*.cpp))
endif
RANK_SOURCES := $(wildcard tests/ranks/*.cpp)
PEER_SOURCES := bench/peers/bare_mpi.cpp $(if $(NCCL_LIBS),bench/peers/bare_nccl.cpp)
FUZZ_SOURCES := $(wildcard tests/fuzz/*.cpp)
ALL_SOURCES := src/main.cpp $(LIB_SOURCES) $(UNIT_SOURCES) $(RANK_SOURCES) tests/faults/lying.cpp tests/sleep_when_idle.cpp $(BENCH_SOURCES) \
  $(PEER_SOURCES)
ALL_CUDA_SOURCES := $(CUDA_SOURCES) $(UNIT_CUDA_SOURCES) $(BENCH_CUDA_SOURCES)
HEADERS := $(wildcard src/*.h src/*/*.h src/experiments/*/*.h mpi/*.h cuda/*.h cuda/*/*.h cuda/*/*.cuh cuda/*/*/*.h cuda/*/*/*.cuh \
  tests/*/*.h tests/*/*.cuh bench/*/*.h)

INCLUDES := -Isrc -I.
# Without errno and traps the compiler may vectorise loops with sqrt and comparisons; results do not change.
FP := -fno-math-errno -fno-trapping-math
CXXFLAGS_ALL = $(CXXSTD) $(WARN) $(CPU_FLAGS) $(FP) -fopenmp -pthread $(INCLUDES) $(CXXFLAGS) \
  $(HDF5_CFLAGS) $(BLAS_CFLAGS) $(FMT_CFLAGS) $(CLI11_CFLAGS) $(JSON_CFLAGS) $(TOML_CFLAGS)
# H5DS (dimension scales) is in HDF5's high-level library.
LIBS = $(HDF5_LIBS:-lhdf5=-lhdf5_hl -lhdf5) $(BLAS_LIBS) $(FMT_LIBS) $(MPI_LIBS) $(NCCL_LIBS) $(CUDA_LIBS) $(if $(CUPTI_FOUND),$(CUPTI_LIBS)) -lm

CUDA_OBJECTS := $(CUDA_SOURCES:%.cu=$(BUILD)/obj/%.cu.o)
LIB_OBJECTS := $(LIB_SOURCES:%.cpp=$(BUILD)/obj/%.o) $(CUDA_OBJECTS)
UNIT_CUDA_OBJECTS := $(UNIT_CUDA_SOURCES:%.cu=$(BUILD)/obj/%.cu.o)
# Tests compile in a third of the time without optimisation; those that compute references are optimised.
QUICK_SOURCES := $(filter-out tests/unit/flash% tests/unit/oracle%,$(filter tests/unit/%,$(UNIT_SOURCES)))
UNIT_OBJECTS := $(QUICK_SOURCES:%.cpp=$(BUILD)/quick/%.o) \
  $(patsubst %.cpp,$(BUILD)/obj/%.o,$(filter-out $(QUICK_SOURCES),$(UNIT_SOURCES))) $(UNIT_CUDA_OBJECTS)
BENCH_OBJECTS := $(BENCH_SOURCES:%.cpp=$(BUILD)/obj/%.o) $(BENCH_CUDA_SOURCES:%.cu=$(BUILD)/obj/%.cu.o)

# Additional flags for the sources of some folders.
of_folder = $(filter $1,$(<:$(BUILD)/together/%=%))
CXXFLAGS_ALL += $(if $(call of_folder,mpi/% bench/peers/%),$(MPI_CFLAGS) $(CUDA_CFLAGS) $(NCCL_CFLAGS)) \
  $(if $(call of_folder,cuda/% tests/gpu/% bench/kernels/%),$(CUDA_CFLAGS)) $(if $(call of_folder,cuda/cupti/%),$(CUPTI_CFLAGS)) \
  $(if $(call of_folder,tests/%),$(GTEST_CFLAGS)) $(if $(call of_folder,bench/%),$(BENCHMARK_CFLAGS)) \
  $(if $(call of_folder,src/record/%),-I$(BUILD))

# Lint and the sanitizers compile a folder's sources as one file, build/together/src/harness/all.cpp (unit
# tests: one file per first letter), to read headers once. So helpers in one folder need different names.
TOGETHER := $(LIB_SOURCES) $(UNIT_SOURCES) $(BENCH_SOURCES)
together = $(shell printf '$(BUILD)/together/%s\n' $1 | sed -E 's:(/tests/unit/.).*:\1.cpp:; t; s:[^/]*$$:all.cpp:' | sort -u)
sources_of = $(if $(filter %/all,$1),$(foreach s,$(TOGETHER),$(if $(filter $(dir $1),$(dir $s)),$s)),$(filter $1%,$(TOGETHER)))

.SECONDEXPANSION:
.PRECIOUS: $(BUILD)/together/%.cpp
$(BUILD)/together/%.cpp: $$(call sources_of,$$*) $$(dir $$*)
	@mkdir -p $(@D)
	@printf '#include "%s"\n' $(filter %.cpp,$^) > $@

# $(call compiled_for,FOLDER,LABEL,FLAGS,HEADER): sources compiled into FOLDER of build/ with these flags,
# each with this precompiled header, by default tools/precompiled.h.
define compiled_for
$$(BUILD)/$1/precompiled.h.gch: $(or $4,tools/precompiled.h) tools/precompiled.h $$(BUILD)/config.mk
	@mkdir -p $$(@D)
	$$(call say,$2,$$<)
	$$(Q)cp $$< $$(@:.gch=) && $$(CXX) $$(CXXFLAGS_ALL) $3 -x c++-header $$(@:.gch=) -o $$@

$$(BUILD)/$1/%.o: %.cpp $$(BUILD)/config.mk $$(BUILD)/$1/precompiled.h.gch
	@mkdir -p $$(@D)
	$$(call say,$2,$$<)
	$$(Q)$$(CXX) -include $$(BUILD)/$1/precompiled.h $$(CXXFLAGS_ALL) $3 -MMD -MP -c $$< -o $$@
endef
$(eval $(call compiled_for,obj,CXX,$$(OPT)))
$(eval $(call compiled_for,quick,CXX,-O0 -g1,tests/precompiled.h))

# Kernels are compiled to machine code of each architecture; CUDA_ARCH="100 120" selects others. Kernels
# with Hopper's own instructions run on Hopper only.
CUDA_ARCH ?= $(CUDA_ARCH_FOUND)
archs_of = $(if $(filter sm90_% hopper_%,$(notdir $1)),90a,$(CUDA_ARCH))
NVCC_FLAGS = $(CXXSTD) -O3 -lineinfo --expt-relaxed-constexpr --split-compile=0 -Xcompiler -Wall,-Werror=switch,-fopenmp,-O1 $(INCLUDES) \
  -I$(BUILD) $(foreach a,$(call archs_of,$<),-gencode arch=compute_$(a),code=sm_$(a))

WGMMA := $(BUILD)/generated/wgmma_instructions.cuh
$(WGMMA): tools/generate_wgmma.py
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)python3 $< > $@

# After the first compilation the dependency files list the sources that include generated headers. The log
# has ptxas's report on every kernel: registers, spills, warnings.
$(BUILD)/obj/%.cu.o: %.cu $(BUILD)/config.mk | $(WGMMA)
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_FLAGS) -Xptxas -v -MMD -MP -c $< -o $@ 2> $(@:.o=.log) || { cat $(@:.o=.log); exit 1; }
	@grep -v -e 'ptxas info' -e 'bytes stack frame' $(@:.o=.log) || true

# The version that every result file records: the commit, and whether the tree had changes. VERSION= sets
# it for sources without git history.
$(BUILD)/version.h: FORCE
	@mkdir -p $(BUILD)
	@v=$(or $(VERSION),$$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)); \
	  printf '#pragma once\n#define PACELINE_VERSION "%s"\n#define PACELINE_COMPILER "%s"\n' \
	  "$$v" "$$($(CXX) --version | head -n 1)" > $@.new; \
	  cmp -s $@.new $@ && rm $@.new || mv $@.new $@
FORCE:
$(BUILD)/obj/src/record/environment.o $(BUILD)/asan/$(BUILD)/together/src/record/all.o: $(BUILD)/version.h

$(BUILD)/paceline: $(BUILD)/obj/src/main.o $(LIB_OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CXX) -fopenmp -pthread $^ $(LIBS) -o $@

$(BUILD)/unit_tests: $(UNIT_OBJECTS) $(LIB_OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CXX) -fopenmp -pthread $^ -lgtest_main $(GTEST_LIBS) $(LIBS) -o $@

# Separate programs, which pytest starts under mpirun.
RANK_TESTS := $(RANK_SOURCES:tests/ranks/%.cpp=$(BUILD)/%)

$(RANK_TESTS): $(BUILD)/%: $(BUILD)/obj/tests/ranks/%.o $(LIB_OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CXX) -fopenmp -pthread $^ $(GTEST_LIBS) $(LIBS) -o $@

# The program with faulty replacements of the functions for which lying.cpp has a __wrap_, for
# tests/faults/test_lies.py.
LYING := $(BUILD)/obj/tests/faults/lying.o
$(BUILD)/paceline_lying: $(BUILD)/obj/src/main.o $(LYING) $(LIB_OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CXX) -fopenmp -pthread $$(nm $(LYING) | sed -n 's/.* T __wrap_/-Wl,--wrap=/p') $^ $(LIBS) -o $@

$(BUILD)/sleep_when_idle.so: tests/sleep_when_idle.cpp
	$(call say,LINK,$@)
	$(Q)$(CXX) $(CXXSTD) $(WARN) -O2 -fPIC -shared $< -o $@

$(BUILD)/bench_kernels: $(BENCH_OBJECTS) $(LIB_OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CXX) -fopenmp -pthread $^ $(BENCHMARK_LIBS) $(LIBS) -o $@

# Programs that call MPI and NCCL without paceline, for bench/peers/collective_ratios.py.
PEERS := $(PEER_SOURCES:bench/peers/%.cpp=$(BUILD)/%)
bench-peers: $(PEERS)

$(PEERS): $(BUILD)/%: $(BUILD)/obj/bench/peers/%.o $(BUILD)/obj/src/measure/statistics.o $(BUILD)/obj/src/core/error.o
	$(call say,LINK,$@)
	$(Q)$(CXX) $^ $(FMT_LIBS) $(MPI_LIBS) $(NCCL_LIBS) $(CUDA_LIBS) -o $@

# ---- tests under sanitizers -------------------------------------------------------------------
# AddressSanitizer and UndefinedBehaviorSanitizer: all C++ of unit and rank tests. Optimisation doubles the
# time of compilation, so only what computes has it.
ASAN_OPT = $(if $(call of_folder,src/core/% src/cpu/% src/model/% tests/unit/f% tests/unit/o%),-O1,-O0)
ASAN := -Wno-maybe-uninitialized -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
$(eval $(call compiled_for,asan,ASAN,$$(ASAN_OPT) -g1 $(ASAN)))
ASAN_LIB := $(patsubst %.cpp,$(BUILD)/asan/%.o,$(call together,$(LIB_SOURCES))) $(CUDA_OBJECTS)

$(BUILD)/asan/unit_tests: $(patsubst %.cpp,$(BUILD)/asan/%.o,$(call together,$(UNIT_SOURCES))) $(UNIT_CUDA_OBJECTS) $(ASAN_LIB)
	$(call say,LINK,$@)
	$(Q)$(CXX) -fopenmp -pthread $(ASAN) $^ -lgtest_main $(GTEST_LIBS) $(LIBS) -o $@

ASAN_RANK_TESTS := $(RANK_TESTS:$(BUILD)/%=$(BUILD)/asan/%)
$(ASAN_RANK_TESTS): $(BUILD)/asan/%: $(BUILD)/asan/tests/ranks/%.o $(ASAN_LIB)
	$(call say,LINK,$@)
	$(Q)$(CXX) -fopenmp -pthread $(ASAN) $^ $(GTEST_LIBS) $(LIBS) -o $@

# Rank tests run without leak detection: Open MPI leaks memory in plug-ins that it has unloaded when leaks
# are reported, which no suppression can name.
asan: $(BUILD)/asan/unit_tests $(ASAN_RANK_TESTS) $(PACKAGES)
	$< --gtest_brief=1
	ASAN_OPTIONS=detect_leaks=0 PACELINE_BUILD=$(BUILD)/asan $(PYTHON) -m pytest tests/ranks/test_programs.py \
	  -k "2-mpi or 3-mpi or groups"

# ThreadSanitizer: what threads share (streams, the communicator, the watchdog, sensors, stopping by a
# signal) in rank tests and in the program. One thread computes, because it does not know OpenMP's barriers.
TSAN := -Wno-tsan -fsanitize=thread
$(eval $(call compiled_for,tsan,TSAN,-O1 -g1 $(TSAN)))
TSAN_CHECKED := $(filter mpi/% src/cpu/% src/harness/% src/measure/% src/parallel/%,$(LIB_SOURCES))
TSAN_LIB := $(patsubst %.cpp,$(BUILD)/tsan/%.o,$(call together,$(TSAN_CHECKED))) \
  $(filter-out $(TSAN_CHECKED:%.cpp=$(BUILD)/obj/%.o),$(LIB_OBJECTS))

$(BUILD)/tsan/paceline: $(BUILD)/tsan/src/main.o $(TSAN_LIB)
	$(call say,LINK,$@)
	$(Q)$(CXX) -fopenmp -pthread $(TSAN) $^ $(LIBS) -o $@

TSAN_RANK_TESTS := $(RANK_TESTS:$(BUILD)/%=$(BUILD)/tsan/%)
$(TSAN_RANK_TESTS): $(BUILD)/tsan/%: $(BUILD)/tsan/tests/ranks/%.o $(TSAN_LIB)
	$(call say,LINK,$@)
	$(Q)$(CXX) -fopenmp -pthread $(TSAN) $^ $(GTEST_LIBS) $(LIBS) -o $@

# Two ranks only: with more ranks than cores the tests take minutes. The history must reach back to Open
# MPI's writes in the watchdog's thread, so that tsan.supp, which names Open MPI's libraries, applies.
tsan: $(BUILD)/tsan/paceline $(TSAN_RANK_TESTS) $(PACKAGES)
	TSAN_OPTIONS="suppressions=$(CURDIR)/tests/sanitizers/tsan.supp history_size=7" OMP_NUM_THREADS=1 \
	  PACELINE_BUILD=$(BUILD)/tsan $(PYTHON) -m pytest \
	  tests/ranks/test_programs.py tests/faults/test_watchdog.py tests/faults/test_interrupted.py \
	  -k "2-mpi or host_waits or second_stop_signal"

# ---- libFuzzer for our parsers of user input --------------------------------------------------------
# The targets run one after another, each for FUZZ_SECONDS or FUZZ_RUNS inputs, starting from its corpus;
# new inputs go to build/. 'tools/deps.sh fuzz' installs the compiler.
FUZZ_SECONDS ?= 600
FUZZ_RUNS ?= 1000000
FUZZ_CXX ?= clang++-16
FUZZ := -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all -fno-omit-frame-pointer
# Only the parsers are instrumented; the rest of the program is linked as it is.
FUZZED := $(filter $(addprefix src/,core/units.cpp core/enum_names.cpp \
  measure/value_range.cpp harness/option% harness/command_line.cpp harness/run_options.cpp model/batch.cpp \
  experiments/%command.cpp experiments/%commands.cpp),$(LIB_SOURCES))
FUZZERS := $(FUZZ_SOURCES:tests/fuzz/%.cpp=$(BUILD)/fuzz/%)

$(BUILD)/fuzz/%.o: %.cpp $(BUILD)/config.mk
	@mkdir -p $(@D)
	$(call say,FUZZ,$<)
	$(Q)$(FUZZ_CXX) $(filter-out -fopenmp -Wno-restrict -Wno-stringop-overflow,$(CXXFLAGS_ALL)) -O1 -g1 $(FUZZ) \
	  -fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@

$(FUZZERS): $(BUILD)/fuzz/%: $(BUILD)/fuzz/tests/fuzz/%.o $(FUZZED:%.cpp=$(BUILD)/fuzz/%.o) \
    $(filter-out $(FUZZED:%.cpp=$(BUILD)/obj/%.o),$(LIB_OBJECTS))
	$(call say,LINK,$@)
	$(Q)$(FUZZ_CXX) -fopenmp=libgomp -pthread $(FUZZ) -fsanitize=fuzzer $^ $(LIBS) -o $@

fuzz: $(FUZZERS)
	@for f in $(notdir $^); do mkdir -p $(BUILD)/fuzz/found/$$f && (cd $(BUILD)/fuzz/found && \
	  ../$$f -runs=$(FUZZ_RUNS) -max_total_time=$(FUZZ_SECONDS) -timeout=10 -max_len=512 -verbosity=0 \
	  -print_final_stats=1 -artifact_prefix=$$f- $$f $(CURDIR)/tests/fuzz/corpus/$$f) || exit 1; done
	$(PYTHON) tests/fuzz/files.py

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

# ---- tests ------------------------------------------------------------------------------------
$(PACKAGES): analysis/requirements.txt
	@tools/deps.sh python
	@touch $@

# Unit tests, then pytest: everything that starts the program (alone and under mpirun), and the analysis.
# The two never run at the same time, whatever make's -j; pytest runs four tests at a time, which often wait.
test:
	@$(MAKE) --no-print-directory unit-test
	@$(MAKE) --no-print-directory python-test

# As two processes, since most of these tests use one core; as one where they would share a GPU's memory.
SHARDS = $(if $(findstring UUID,$(shell nvidia-smi -L 2>/dev/null)),1,2)
unit-test: $(BUILD)/unit_tests
	$(Q)seq $(SHARDS) | GTEST_TOTAL_SHARDS=$(SHARDS) xargs -P $(SHARDS) -I{} \
	  sh -c 'GTEST_SHARD_INDEX=$$(({} - 1)) exec $< --gtest_brief=1'

TESTED := $(BUILD)/paceline $(BUILD)/paceline_lying $(RANK_TESTS) $(PEERS) $(BUILD)/sleep_when_idle.so $(PACKAGES)
# Compiled modules are kept, also where the environment says otherwise: to compile the tests takes every
# worker seconds.
COMPILED := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(abspath $(BUILD))/pycache
PYTEST := $(COMPILED) $(PYTHON) -m pytest -n 4 --dist loadscope --no-loadscope-reorder
python-test: $(TESTED)
	$(PYTEST) -m "not long"

# Tests that take minutes: all sweeps under Slurm, with time limits and failing nodes, the largest products,
# and the documents checked against the published files.
test-long: $(TESTED)
	$(PYTEST) -m long

# ---- hours of random use, of which make test runs a little ----------------------------------------
SOAK := $(PYTHON) -m pytest -n 2
soak: $(TESTED)
	SOAK_SEEDS=0:200 $(SOAK) tests/faults/test_random_kills.py
	SOAK_SEEDS=0:2000 $(SOAK) tests/cli/test_random_use.py -k "not environment"
	SOAK_SEEDS=0:200 $(SOAK) tests/ranks/test_random_training.py

# ---- checks ptxas's report on kernels that must stay in registers; needs no GPU ------------------
CHECKED := $(patsubst %.cu,$(BUILD)/obj/%.cu.o,$(filter cuda/attention/% bench/kernels/hopper_%,$(ALL_CUDA_SOURCES)))

check-kernels: tools/check_kernels.sh $(CHECKED)
	@$< $(CHECKED:.o=.log)

# ---- lint: warnings are errors ------------------------------------------------------------------
TIDY := $(patsubst %.cpp,$(BUILD)/tidy/%.ok,$(call together,$(TOGETHER)) $(filter-out $(TOGETHER),$(ALL_SOURCES)))

lint: lint-format lint-python lint-shell $(TIDY)

# Installed once, before the targets that need them: apt lets one process install at a time.
lint-deps: $(PACKAGES)
	@tools/deps.sh lint

lint-shell: lint-deps
	$(call say,SHELL,scripts)
	$(Q)shellcheck tools/*.sh bench/*.sh jobs/*.sh jobs/*.sbatch jobs/sites/*.env .ci/run

lint-format: lint-deps
	$(call say,FORMAT,sources)
	$(Q)clang-format-16 --dry-run --Werror $(ALL_SOURCES) $(FUZZ_SOURCES) $(ALL_CUDA_SOURCES) $(HEADERS)

lint-python: $(PACKAGES)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

$(BUILD)/tidy/%.ok: %.cpp .clang-tidy $(HEADERS) $(BUILD)/config.mk | $(BUILD)/version.h lint-format
	@mkdir -p $(@D)
	$(call say,TIDY,$<)
	$(Q)clang-tidy-16 --quiet $< -- $(filter-out -Wno-restrict -Wshadow,$(CXXFLAGS_ALL)) 2> $@.log || { cat $@.log; exit 1; }
	@touch $@

format:
	clang-format-16 -i $(ALL_SOURCES) $(FUZZ_SOURCES) $(ALL_CUDA_SOURCES) $(HEADERS)
	$(PYTHON) -m ruff check --fix . && $(PYTHON) -m ruff format .

# ---- the demo and the benchmarks -----------------------------------------------------------------
RANKS ?= 2
DEMO := results/demo.h5
# Runs of seconds that answer the report's other questions.
DEMO_PARTS := attention collectives ddp zero precision
DEMO_attention := --attention naive,flash --context 256,512,1024 --batch-size 1 --warmup 1 --steps 6
DEMO_collectives := --bytes 1MB,10MB --fit
DEMO_ddp := --size tiny --sync none,naive,flat,overlap,bucketed --bucket-mb 1 --warmup 1 --steps 6
DEMO_zero := --size tiny --shard none,broadcast,zero1 --warmup 1 --steps 6 --memory-timeline
demo_file = results/demo-$1.h5
demo_ranks = $(if $(filter attention precision,$1),1,$(RANKS))
demo_part = mpirun --oversubscribe -np $(call demo_ranks,$1) $(BUILD)/paceline $1 $(DEMO_$1) --quiet \
  --output $(call demo_file,$1) --force

demo: $(BUILD)/paceline $(PACKAGES)
	mpirun --oversubscribe -np $(RANKS) $(BUILD)/paceline model --size small --context 64 \
	  --batch-size 2 --mode train-step --warmup 1 --steps 6 --output $(DEMO) --force
	$(foreach part,$(DEMO_PARTS),$(call demo_part,$(part)) > results/demo-$(part).txt &&) true
	$(BUILD)/paceline plan --preset xxl --json > results/demo-plan.jsonl
	$(PYTHON) -m analysis tables $(DEMO) --output results/demo.md
	$(PYTHON) -m analysis figures $(DEMO) --output results/demo.png
	$(PYTHON) -m analysis report $(DEMO) $(foreach part,$(DEMO_PARTS),$(call demo_file,$(part))) results/demo-plan.jsonl \
	  --output results/demo.html
	@echo "results: $(DEMO); table: results/demo.md; figures: results/demo*.png; report: results/demo.html"

# BENCH_ARGS="--size=small,xl --benchmark_filter=rms_norm"
bench: $(BUILD)/bench_kernels
	$< $(BENCH_ARGS)

deps:
	@tools/deps.sh

# The program and the job files: bin/ and share/paceline/.
PREFIX ?= /usr/local
install: $(BUILD)/paceline
	install -D -m 755 $< $(DESTDIR)$(PREFIX)/bin/paceline
	mkdir -p $(DESTDIR)$(PREFIX)/share/paceline
	cp -r LICENSE README.md docs jobs analysis $(DESTDIR)$(PREFIX)/share/paceline
	find $(DESTDIR)$(PREFIX)/share/paceline -name __pycache__ -exec rm -r {} +

# The same as one file that can be unpacked anywhere on machines with these libraries.
dist: $(BUILD)/paceline
	@rm -rf $(BUILD)/dist
	@$(MAKE) --no-print-directory install DESTDIR= PREFIX=$(BUILD)/dist/paceline >/dev/null
	tar -czf $(BUILD)/paceline.tar.gz -C $(BUILD)/dist paceline

clean:
	rm -rf $(BUILD)
