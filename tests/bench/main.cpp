#include <benchmark/benchmark.h>

#include "bench/ops_bench.h"

int main(int argc, char** argv) {
  spool::test::register_op_benchmarks();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
