"""Writes the wgmma instructions for cuda/hopper/wgmma.cuh, one struct per type and N: each
accumulator is an operand with a number, which no C++ template can spell.

    python3 tools/generate_wgmma.py > build/generated/wgmma_instructions.cuh
"""

TYPES = {"__nv_bfloat16": "bf16", "__half": "f16"}
WIDTHS = (16, 32, 64, 80, 96, 128, 256)

HEADER = """#pragma once
// Made by tools/generate_wgmma.py: d = a b (+ d), m64nNk16, d [64, N] in float. a and b are
// descriptors of shared memory; a may be registers. TransA, TransB: the product runs over the rows
// that the operand has in memory.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace paceline::hopper {

template <class T, int N>
struct WgmmaInstruction;
"""

STRUCT = """
template <>
struct WgmmaInstruction<{type}, {n}> {{
  template <bool TransA, bool TransB>
  static __device__ void shared(float (&d)[{count}], std::uint64_t a, std::uint64_t b, int add) {{
    asm volatile("{{.reg .pred p; setp.ne.b32 p, %{s2}, 0; {name} {{{d}}}, "
                 "%{s0}, %{s1}, p, 1, 1, %{s3}, %{s4};}}"
                 : {outputs}
                 : "l"(a), "l"(b), "r"(add), "n"(TransA ? 1 : 0), "n"(TransB ? 1 : 0));
  }}
  template <bool TransB>
  static __device__ void registers(float (&d)[{count}], const std::uint32_t (&a)[4],
                                   std::uint64_t b, int add) {{
    asm volatile("{{.reg .pred p; setp.ne.b32 p, %{r5}, 0; {name} {{{d}}}, "
                 "{{%{r0}, %{r1}, %{r2}, %{r3}}}, %{r4}, p, 1, 1, %{r6};}}"
                 : {outputs}
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add),
                   "n"(TransB ? 1 : 0));
  }}
}};
"""


def struct(cpp_type: str, ptx_type: str, n: int) -> str:
    count = n // 2
    return STRUCT.format(
        type=cpp_type,
        n=n,
        count=count,
        name=f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{ptx_type}.{ptx_type}",
        d=", ".join(f"%{i}" for i in range(count)),
        outputs=", ".join(f'"+f"(d[{i}])' for i in range(count)),
        **{f"s{i}": count + i for i in range(5)},
        **{f"r{i}": count + i for i in range(7)},
    )


def main() -> None:
    print(HEADER, end="")
    for cpp_type, ptx_type in TYPES.items():
        for n in WIDTHS:
            print(struct(cpp_type, ptx_type, n), end="")
    print("\n}  // namespace paceline::hopper")


if __name__ == "__main__":
    main()
