#pragma once

namespace spool::test {

/// Adds a benchmark for every registered op. To be called from main: the registry is filled by static objects.
void register_op_benchmarks();

}  // namespace spool::test
