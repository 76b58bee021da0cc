#pragma once
// One binary, several instruction sets. A loop in a function marked SPOOL_CLONES is compiled for baseline x86-64, for AVX2 + FMA
// (x86-64-v3) and for AVX-512 (x86-64-v4); the loader picks one when the program starts. Mark the function that holds the loop, and make
// what it calls SPOOL_INLINE, so that it is compiled into each clone.
// FMA exists in the v3 and v4 clones only: results may differ in the last bit from a machine without it.
//
// The thread sanitizer cannot run the loader's choice, and clang rejects clones of templates: there the macro is empty.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define SPOOL_CLONES __attribute__((target_clones("arch=x86-64-v3", "arch=x86-64-v4", "default")))
#define SPOOL_HAS_ISA_LEVELS 1
#define SPOOL_V4 __attribute__((target("arch=x86-64-v4")))
#else
#define SPOOL_CLONES
#define SPOOL_HAS_ISA_LEVELS 0
#endif
#define SPOOL_INLINE [[gnu::always_inline]] inline

#if SPOOL_HAS_ISA_LEVELS
namespace spool::kernels {

/// Whether this machine runs functions marked SPOOL_V4. For code that is written for registers of 64 bytes; loops want SPOOL_CLONES.
inline bool runs_v4() {
  static const bool runs = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd");
  }();
  return runs;
}

}  // namespace spool::kernels
#endif
